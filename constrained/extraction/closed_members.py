"""The closed members of a type are decided when the document is read; the model writes the others.

Each is a question (`constrained.decisions`) whose options stand in the pass over the prompt. What the model says to texts that say
nothing is taken off its answers, so that the document decides and not what the model likes. A member that may be left out is left
out where the document speaks for none of its values. The decided members are constants of the constraint then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from constrained.automaton import compile
from constrained.automaton.cache import compile_cached
from constrained.constraint import choice
from constrained.constraint.narrowing import with_known_members
from constrained.decisions import ABSENT, Decision, Question, closed_questions, whole_question
from constrained.decisions.decision import decided
from constrained.decisions.evidence import option_ends, option_tree, read_evidence
from constrained.decisions.prior import NEUTRAL_TEXTS, Steps, Weighing, neutral_steps, result_of
from constrained.decisions.questions import json_text, leaf_members
from constrained.errors import ConstrainedError
from constrained.extraction.further_phrases import FurtherPhrases
from constrained.extraction.named_lists import closed_lists, named_lists
from constrained.extraction.open_question import open_question, with_share
from constrained.extraction.optional_objects import Presence, optional_objects, presence
from constrained.extraction.phrases import PhraseQuestions, phrase_questions
from constrained.extraction.prompt import shown_text
from constrained.extraction.quantities import QuantityQuestions, StatedMember, quantity_questions
from constrained.models import LanguageModel
from constrained.sampling import Exact

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.decoding import Generator
    from constrained.decoding.prompt_reader import PromptReader
    from constrained.decoding.tree_scores import TreeScores
    from constrained.extraction.prompt import PromptParts
    from constrained.models import Prompt
    from constrained.sampling import Randomness
    from constrained.spec.drafts import LazyDrafter

MOST_OPTIONS = 64
"""Options of a member that is decided; others are written."""
MOST_NODES = 256
"""Tokens of all options in the pass over a prompt."""
MOST_NUMBERS = 11
"""Numbers among the options: of more numbers a document mostly states the right one, which the model copies."""

MOST_MEMBERS = 128
"""Members of a type of which any are decided: all of them are asked about in the pass over the prompt."""


def has_few_members(constraint: Any) -> bool:
    """Whether values have no more than `MOST_MEMBERS` members, those of objects inside included."""
    if not constraint.is_json:
        return True
    members = leaf_members(constraint.enforced_schema, nullable=True)
    return sum(1 for _ in islice(members, MOST_MEMBERS + 1)) <= MOST_MEMBERS


class ClosedMembers:
    """The closed members of the values of a generator. Safe to share between threads.

    Attributes:
        questions: what is asked of each document; of a constraint that is a closed set of texts, which of them it is.
        is_whole: whether that is so.
    """

    def __init__(
        self,
        generator: Generator[Any],
        parts: PromptParts,
        prompt: Callable[[str], Prompt],
        writes_lists: Callable[[], bool],
    ) -> None:
        """Finds them.

        Args:
            generator: writes the values.
            parts: of the prompt.
            prompt: of a text.
            writes_lists: whether the model writes lists itself; asked where a text has no item for one.
        """
        self._model, self._prompt, self._writes_lists = generator.model, prompt, writes_lists
        self._constraint = generator.constraint
        self.is_whole = isinstance(generator.sampler, Exact)
        is_read = isinstance(self._model, LanguageModel) and self._model.no_trees is None
        self._decides = is_read and has_few_members(self._constraint)
        whole = None
        if self.is_whole:
            whole = whole_question(generator.automaton, is_json=generator.constraint.is_json)
        if whole is not None:
            self.questions: tuple[Question, ...] = (whole,)
        elif self._decides:
            self.questions = _affordable(
                closed_questions(generator.constraint, self._model.vocabulary, MOST_OPTIONS, nullable=True)
            )
        else:
            self.questions = ()
        self._lists = closed_lists(self._constraint) if self._decides else {}
        self._open = None if whole is None else open_question(self._model, whole, parts)
        self._said = f"{parts.instructions or ''} {parts.context or ''}"
        self._weighings: list[Weighing] | None = None

    def about(
        self,
        generator: Generator[Any],
        text: str,
        known: Mapping[str, Any] | None = None,
        needed: str | None = None,
    ) -> MemberQuestions | None:
        """The questions about a document; None: there are none.

        The question of a whole constraint is the generator's: its sampler weighs the texts.

        Args:
            generator: writes the value of the document.
            text: of the document.
            known: values of members that are known already, by JSON Pointer.
            needed: pointer of a string; where the text has no phrase for it, nothing but null is written.
        """
        if self.is_whole:
            return None
        named = named_lists(self._lists, text)
        if named and not self._writes_lists():
            known = {**named, **(known or {})}
        quantities, phrases = self._stated(text)
        further = self._further(text)
        if quantities is None and phrases is None and further is None and not self.questions and not known:
            return None
        weighed = [weighing.about(text) for weighing in self.weighings()]
        return MemberQuestions(generator, weighed, quantities, phrases, further, known, needed)

    def _stated(self, text: str) -> tuple[QuantityQuestions | None, PhraseQuestions | None]:
        """The questions about what a text states: see `constrained.extraction.quantities` and `constrained.extraction.phrases`."""
        model, constraint = self._model, self._constraint
        if not self._decides:
            return None, None
        shown = shown_text(text, constraint)
        closed = {question.pointer for question in self.questions}
        quantities = quantity_questions(constraint, model.vocabulary, shown, self._said, closed)
        others = () if quantities is None else {question.pointer for question in quantities.questions}
        return quantities, phrase_questions(constraint, model.vocabulary, text, others)

    def _further(self, text: str) -> FurtherPhrases | None:
        """The lists of strings of a text, and its strings without phrase, see `constrained.extraction.further_phrases`."""
        if not self._decides:
            return None
        vocabulary = self._model.vocabulary
        return FurtherPhrases(self._constraint, vocabulary, text, self._writes_lists) or None

    def weighings(self) -> list[Weighing]:
        """How answers are weighed; reads the prompts for `NEUTRAL_TEXTS` when it is first called."""
        return result_of(self.weighing_steps())

    def weighing_steps(self) -> Steps[list[Weighing]]:
        """`weighings`, a prompt a step."""
        if self._weighings is None and self.questions:
            prompts = [self._model.encode(self._prompt(text)) for text in NEUTRAL_TEXTS]
            self._weighings = yield from neutral_steps(self._model, prompts, self.questions)
        return self._weighings or []

    def whole_weighing(self, text: str) -> Weighing:
        """How the texts of a closed set are weighed for a document with this text; reads it, if there is an open question."""
        (weighing,) = self.weighings()
        about = weighing.about(text)
        return about if self._open is None else self._open.joined(with_share(about), text)


class MemberQuestions:
    """The questions about one document: see `constrained.decoding.prompt_questions`.

    Attributes:
        leads: what stands before the strings that have phrases; None: there are none.
        tree, ends: the options, once they are chosen.
        decisions: the answers by JSON Pointer, once the prompt was read.
        stated: the quantities of the text by member, once the prompt was read.
    """

    def __init__(
        self,
        generator: Generator[Any],
        weighings: Sequence[Weighing],
        quantities: QuantityQuestions | None = None,
        phrases: PhraseQuestions | None = None,
        further: FurtherPhrases | None = None,
        known: Mapping[str, Any] | None = None,
        needed: str | None = None,
    ) -> None:
        """Nothing is asked yet.

        Args:
            generator: writes the value of the document.
            weighings: how answers are weighed.
            quantities: questions about its numbers and dates; None: they are written.
            phrases: questions about its phrases; None: strings are written.
            further: questions about its lists of strings, and strings without phrase; None: they are written.
            known: values of members that are known already, by JSON Pointer.
            needed: see `ClosedMembers.about`.
        """
        self._needed = needed if phrases is not None else None
        self._generator, self._known = generator, known or {}
        self._constraint: Any = generator.constraint
        self._weighings, self._quantities, self._phrases = weighings, quantities, phrases
        self._further = further
        self.leads = None if phrases is None else phrases.leads
        self._questions: list[Question] = []
        self.decisions: dict[str, Decision] = {}
        self.stated: Sequence[StatedMember] = ()
        if phrases is None:
            self.choose(())

    def choose(self, rows: Sequence[NDArray[Any]]) -> None:
        """Chooses the phrases that are asked about, by the logits behind `leads`."""
        if self._phrases is not None:
            self._phrases.choose(rows)
        self._questions = [weighing.question for weighing in self._weighings]
        for stated in (self._quantities, self._phrases):
            self._questions += () if stated is None else stated.questions
        self.tree, self.ends = option_tree(self._questions), option_ends(self._questions)

    def narrowed(
        self,
        scores: TreeScores,
        temperature: float,
        randomness: Randomness,
        limit: int,
        reader: PromptReader,
    ) -> Automaton:
        """Decides, and makes the decided members constants."""
        evidence = iter(read_evidence(scores, self._questions))
        self.decisions = {
            weighing.question.pointer: decided(
                weighing.question, one, weighing.scores(one), temperature, randomness
            )
            for weighing, one in zip(self._weighings, evidence, strict=False)
            if weighing.question.pointer not in self._known
        }
        named = [decision.value for decision in self.decisions.values()]
        said: list[str] = []
        if self._quantities is not None:
            about = list(islice(evidence, len(self._quantities.questions)))
            quantities = self._quantities.decide(about, temperature, randomness)
            self.stated = self._quantities.members(about)
            self.decisions |= quantities
            said = self._quantities.written(quantities)
        if self._phrases is not None:
            known = [*self._known.values(), *said]
            model = self._generator.model
            self.decisions |= self._phrases.decide(
                list(evidence), known, model, temperature, randomness, named
            )
        further: dict[str, Any] = {}
        if self._needed is not None and self._needed not in self.decisions:
            return compile_cached(choice(["null"]), self._generator.model.vocabulary)[1]
        there = self._presence()
        self.decisions = there.decisions
        if self._further is not None:
            texts = {pointer: json_text(value) for pointer, value in self._known.items()}
            texts |= {pointer: one.text for pointer, one in self.decisions.items() if one.text != ABSENT}
            further, decisions = self._further.decide(texts, said, there, reader, temperature, randomness)
            self.decisions |= decisions
        if self._phrases is not None:
            self.decisions |= self._phrases.whole_names(self.decisions)
        automaton = self._narrowed_automaton(further, there)
        if automaton is None or not 0 <= automaton.shortest_completion(automaton.start) <= limit:
            self.decisions = {}
            return self._generator.automaton
        return automaton

    def _presence(self) -> Presence:
        """Which objects are there that may be left out."""
        asked = {question.pointer for question in self._questions}
        asked |= set() if self._phrases is None else self._phrases.pointers
        asked |= set() if self._quantities is None else {*self._quantities.unstated}
        schema = self._constraint.enforced_schema
        return presence(optional_objects(schema), self.decisions, asked, self._known)

    def _narrowed_automaton(self, further: Mapping[str, Any], there: Presence) -> Automaton | None:
        """Of the constraint with the decided members as constants; None where they contradict what it says of others.

        Args:
            further: values of members by JSON Pointer, whose decisions may be about a part of them; None: left out.
            there: the objects that may be left out.
        """
        constraint, vocabulary = self._constraint, self._generator.model.vocabulary
        known = {
            pointer: one.value
            for pointer, one in self.decisions.items()
            if one.text != ABSENT and not any(pointer.startswith(f"{other}/") for other in further)
        }
        known |= {**self._known, **{pointer: one for pointer, one in further.items() if one is not None}}
        absent = [pointer for pointer, one in self.decisions.items() if one.text == ABSENT]
        absent += [pointer for pointer, one in further.items() if one is None]
        unstated = () if self._quantities is None else self._quantities.unstated
        absent += [one for one in unstated if not there.hides(one) and one not in there.needed]
        absent += there.missing
        narrowed = constraint.with_schema(with_known_members(constraint.enforced_schema, known, absent))
        try:
            # What is bound to one document is not kept, see `bound_generator`.
            stated = self._quantities is not None or self._phrases is not None or bool(further)
            once = constraint.json_options.source_text is not None or stated or self._known
            return compile(narrowed, vocabulary) if once else compile_cached(narrowed, vocabulary)[1]
        except ConstrainedError:
            return None

    def drafter(self, prompt: Sequence[int], automaton: Automaton, *, drawn: bool) -> LazyDrafter | None:
        """Drafts the value with its decided members."""
        drafting = self._generator._drafting
        return None if drafting is None else drafting.lazy_drafter(prompt, automaton, drawn=drawn)


def _affordable(questions: Sequence[Question]) -> tuple[Question, ...]:
    """The first questions whose options are few enough together, without lists and ranges of numbers."""
    kept: list[Question] = []
    for question in questions:
        values = [question.value(index) for index in range(len(question.options))]
        if any(isinstance(value, list | dict) for value in values):
            continue
        numbers = sum(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        if numbers <= MOST_NUMBERS and len(option_tree([*kept, question]).tokens) <= MOST_NODES:
            kept.append(question)
    return tuple(kept)
