"""`decide`: closed questions about a text, each with a probability for every option."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

from constrained.automaton.cache import compile_cached
from constrained.constraint.generated import generated_constraint
from constrained.decisions import ABSENT, Decision, Question, ask, closed_questions, whole_question
from constrained.decisions.decision import decided
from constrained.decisions.prior import (
    NEUTRAL_TEXTS,
    Steps,
    Weighing,
    fitted,
    mean_prior,
    neutral_steps,
    plain,
    result_of,
)
from constrained.decoding import limits
from constrained.errors import InvalidArgument, PromptTooLong, UnsupportedConstraint
from constrained.extraction.examples import check_examples, to_json
from constrained.extraction.open_question import OpenQuestion, open_question, with_share
from constrained.extraction.prompt import PromptParts, PromptTemplate, extraction_prompt
from constrained.grammars.json_pointer import escape, unescape
from constrained.models import LanguageModel, load
from constrained.sampling import PhiloxRandomness

T = TypeVar("T")

Prior = Literal["subtract", "none"]
"""Whether what a model says to texts that say nothing is taken off its answers."""


@dataclass(frozen=True)
class Decided(Generic[T]):
    """The answers to all questions of a type.

    Attributes:
        value: an instance of the type.
        fields: the decision of each member, by JSON Pointer; of a type that is one question, under "".
    """

    value: T
    fields: Mapping[str, Decision]

    @property
    def decision(self) -> Decision:
        """The only one.

        Raises:
            InvalidArgument: there are several.
        """
        if len(self.fields) != 1:
            raise InvalidArgument(
                f"there are {len(self.fields)} decisions", action="name one by its pointer: fields[pointer]"
            )
        return next(iter(self.fields.values()))

    @property
    def probabilities(self) -> Mapping[Any, Any]:
        """Of every option; of a type with members, by the pointer of each."""
        if list(self.fields) == [""]:
            return self.decision.probabilities
        return {pointer: one.probabilities for pointer, one in self.fields.items()}


class Decider(Generic[T]):
    """Answers the questions of a type about texts: a `Literal`, an enum, a bool, an integer between bounds, or a record of these.

    One text takes one pass: over its prompt, and the tree of the options of all questions. Where the prior is taken off, each question
    whose options are labels takes one more: see `constrained.extraction.open_question`.

    Attributes:
        model: reads the texts.
        constraint: of the type.
        questions: what is asked.
        weighings: how what the model says becomes the scores of the options, by question.
    """

    def __init__(
        self,
        model: Any,
        constraint: type[T] | Any,
        *,
        instructions: str | None = None,
        examples: Sequence[tuple[str, Any]] = (),
        context: str | None = None,
        system: str | None = None,
        prompt: PromptTemplate | None = None,
        prior: Prior = "subtract",
        strength: float = 1.0,
        neutral_texts: Sequence[str] = NEUTRAL_TEXTS,
        joint: bool = False,
    ) -> None:
        """Loads the model and finds the questions.

        Args:
            model: a `LanguageModel`, or what `constrained.load` makes one of.
            constraint: a Python type, a JSON Schema, or a `Constraint`.
            instructions: what to decide and how, for the prompt.
            examples: pairs of a text and the value that is right for it.
            context: what is known about the texts.
            system: the system message.
            prompt: a prompt of your own, as for `Extractor`.
            prior: ``"subtract"``: what the model says to `neutral_texts` is taken off, so that the text decides and not what the
                model likes, and an option that the text names gains; ``"none"``: the model's own distribution.
            strength: how much of it is taken off.
            neutral_texts: texts that say nothing.
            joint: one question for the whole value, whose distribution has the dependencies of its members; for types with few values.

        Raises:
            UnsupportedConstraint: a member is no closed question; names it.
            InvalidArgument: an argument is out of range.
            ConstrainedError: as `Generator`.
        """
        loaded = load(model)
        if not isinstance(loaded, LanguageModel):
            raise InvalidArgument(
                f"a {type(loaded).__name__} gives no logits of a prompt",
                action="load the model in this process",
            )
        if prior not in ("subtract", "none"):
            raise InvalidArgument(f"prior is {prior!r}", action='pass "subtract" or "none"')
        self.model: LanguageModel = loaded
        self.constraint, self._automaton = compile_cached(generated_constraint(constraint), loaded.vocabulary)
        self.questions = self._find_questions(joint)
        checked = check_examples(examples, self.constraint, self._automaton)
        self._parts = PromptParts(instructions, context, checked, system, prompt)
        self._open: dict[str, OpenQuestion] = {}
        for question in self.questions if prior == "subtract" else ():
            asked = open_question(loaded, question, self._parts, neutral_texts, strength)
            if asked is not None:
                self._open[question.pointer] = asked
        self._prior, self._strength, self._neutral = prior, strength, tuple(neutral_texts)
        if prior == "subtract" and not self._neutral:
            raise InvalidArgument("there are no neutral_texts", action='pass some, or prior="none"')

    def _find_questions(self, joint: bool) -> tuple[Question, ...]:
        whole = whole_question(self._automaton, is_json=self.constraint.is_json)
        members = closed_questions(self.constraint, self.model.vocabulary)
        if whole is not None and (joint or not members):
            return (whole,)
        if joint or not members:
            raise UnsupportedConstraint(
                f"{self.constraint.render()} has too many values to weigh each of them",
                action="decide about its members, draw with Generator(..., sampler='cars').sample(...), or use extract",
            )
        open_members = _open_members(self.constraint, members)
        if open_members:
            raise UnsupportedConstraint(
                f"{open_members[0]} is no closed question: it has too many values",
                action="use extract, which decides about closed members and writes the others",
            )
        return members

    @cached_property
    def weighings(self) -> Sequence[Weighing]:
        """See the class; the neutral texts are read when it is first needed."""
        return result_of(self._weighing_steps())

    def _weighing_steps(self) -> Steps[Sequence[Weighing]]:
        if self._prior == "none":
            return plain(self.questions)
        prompts = [self.ids(text) for text in self._neutral]
        made = yield from neutral_steps(self.model, prompts, self.questions, self._strength)
        for asked in self._open.values():
            yield from asked.neutral_steps()
        return self._shared(made)

    def ids(self, text: str) -> list[int]:
        """The prompt for a text, as token ids.

        Raises:
            PromptError: the text is empty.
            PromptTooLong: the model reads fewer tokens than the prompt and an option have.
        """
        ids = self.model.encode(extraction_prompt(text, self.constraint, self._parts))
        longest = max(len(option.tokens) for question in self.questions for option in question.options)
        if self.model.context is not None and len(ids) + longest > self.model.context:
            raise PromptTooLong(
                f"the prompt has {len(ids)} tokens and the longest option {longest}: "
                f"the model reads {self.model.context} in all",
                action="shorten the text, or use a model with a longer context",
            )
        return ids

    def __call__(self, text: str, *, temperature: float = 0.0, seed: int | None = None) -> Decided[T]:
        """Decides about one text.

        Args:
            text: what the questions are about.
            temperature: 0: the option with the highest score; else one is drawn.
            seed: makes draws repeatable.

        Raises:
            PromptError: the text is empty, or too long.
            RejectedValue: code of the type refuses the value.
        """
        return self.read(text, self.ids(text), temperature=temperature, seed=seed)

    def read(
        self, text: str, ids: Sequence[int], *, temperature: float = 0.0, seed: int | None = None
    ) -> Decided[T]:
        """Decides about a text whose prompt `ids` gave; this is what the model's passes are for.

        Args:
            text: what the questions are about.
            ids: of the prompt.
            temperature: as in a call.
            seed: as in a call.

        Raises:
            RejectedValue: code of the type refuses the value.
        """
        return result_of(self.steps(text, ids, temperature=temperature, seed=seed))

    def steps(
        self, text: str, ids: Sequence[int], *, temperature: float = 0.0, seed: int | None = None
    ) -> Steps[Decided[T]]:
        """`read`, a pass a step."""
        noise = limits.make_noise(seed, 0, greedy=not temperature)
        randomness = PhiloxRandomness(noise.seed, noise.sequence) if temperature else None
        if "weighings" not in self.__dict__:
            self.__dict__["weighings"] = yield from self._weighing_steps()
        evidence = ask(self.model, ids, self.questions)
        yield []
        decisions = {
            weighing.question.pointer: decided(
                weighing.question, one, self._about(weighing, text).scores(one), temperature, randomness
            )
            for weighing, one in zip(self.weighings, evidence, strict=True)
        }
        return Decided(self.constraint.parse(_whole_text(decisions)), decisions)

    def _about(self, weighing: Weighing, text: str) -> Weighing:
        """The weighing of the evidence for one text."""
        about, asked = weighing.about(text), self._open.get(weighing.question.pointer)
        return about if asked is None else asked.joined(about, text)

    def _shared(self, weighings: Sequence[Weighing]) -> list[Weighing]:
        """The weighings, with the shares of the open questions."""
        return [with_share(one) if one.question.pointer in self._open else one for one in weighings]

    def many(self, texts: Iterable[str], **settings: Any) -> Iterator[Decided[T]]:
        """Decides about texts, one after the other."""
        for text in texts:
            yield self(text, **settings)

    def calibrate(self, rows: Iterable[Any]) -> None:
        """Fits the weighings to texts like those that will be read.

        Args:
            rows: pairs of a text and the value that is right for it: then temperature and biases of the options are fitted, so
                that probabilities mean what they say. Or texts alone: then the mean of what the model says to them is taken off
                (batch calibration, Zhou et al. 2024), which assumes that each option is right about equally often.

        Raises:
            InvalidArgument: there are no rows, texts and pairs are mixed, or a value is none of the options.
        """
        rows = list(rows)
        labelled = [row for row in rows if not isinstance(row, str)]
        if not rows or (labelled and len(labelled) < len(rows)):
            raise InvalidArgument(
                "calibration needs texts, or pairs of a text and its value",
                action="pass at least one row of one kind",
            )
        texts = [row[0] for row in rows] if labelled else rows
        readings = [ask(self.model, self.ids(text), self.questions) for text in texts]
        if not labelled:
            self.__dict__["weighings"] = self._shared(mean_prior(self.questions, readings))
            return
        fits = []
        for index, weighing in enumerate(self.weighings):
            evidence, right = [], []
            for (text, value), reading in zip(rows, readings, strict=True):
                option = _right_option(weighing.question, to_json(value))
                if option is not None:
                    about = self._about(weighing, text)
                    logprobs = reading[index].logprobs + weighing.prior - about.prior
                    evidence.append(replace(reading[index], logprobs=logprobs))
                    right.append(option)
            if not right:
                raise InvalidArgument(
                    f"no row has one of the options of {weighing.question.pointer or 'the question'}",
                    action="pass values of the type",
                )
            fits.append(fitted(weighing, evidence, right))
        self.__dict__["weighings"] = fits


def decide(
    model: Any,
    text: str,
    constraint: type[T] | Any,
    *,
    temperature: float = 0.0,
    seed: int | None = None,
    **options: Any,
) -> Decided[T]:
    """Answers the closed questions of a type about a text, each with a probability for every option.

        found = decide(model, "My card was swallowed by the machine.", Literal["card_swallowed", "pin_blocked"])
        found.value, found.probabilities

    Args:
        model: as for `Decider`; pass a loaded one for several texts.
        text: what the questions are about.
        constraint: as for `Decider`.
        temperature: as in a call of a `Decider`.
        seed: as in a call of a `Decider`.
        options: of `Decider`: `instructions`, `examples`, `prior`, `joint` and others.

    Raises:
        ConstrainedError: as `Decider` and its call.
    """
    decider: Decider[T] = Decider(model, constraint, **options)
    return decider(text, temperature=temperature, seed=seed)


def _open_members(constraint: Any, members: Sequence[Question]) -> list[str]:
    """Pointers of the required members that are asked nothing."""
    known = {question.pointer for question in members}
    names = [f"/{escape(name)}" for name in constraint.local_schema.get("properties", ())]
    return [
        name
        for name in names
        if not any(pointer == name or pointer.startswith(f"{name}/") for pointer in known)
    ]


def _whole_text(decisions: Mapping[str, Decision]) -> str:
    """The JSON text of the decided value."""
    if "" in decisions:
        return decisions[""].text
    whole: dict[str, Any] = {}
    for pointer, decision in decisions.items():
        if decision.text == ABSENT:
            continue
        *path, name = map(unescape, pointer.split("/")[1:])
        inside = whole
        for one in path:
            inside = inside.setdefault(one, {})
        inside[name] = decision.value
    return json.dumps(whole, ensure_ascii=False, separators=(", ", ": "))


def _right_option(question: Question, value: Any) -> int | None:
    """Index of the option that a value has; None if the value has none."""
    for token in question.pointer.split("/")[1:]:
        value = value.get(unescape(token)) if isinstance(value, Mapping) else None
    for index, option in enumerate(question.options):
        if option.text == ABSENT:
            if value is None:
                return index
            continue
        found = question.value(index)
        if found == value and isinstance(found, bool) == isinstance(value, bool):
            return index
    return None
