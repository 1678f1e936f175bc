"""`ExtractionPlan`: how documents are read."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, get_args, overload

from constrained.automaton.protocol import is_automaton
from constrained.constraint.generated import generated_constraint
from constrained.constraint.structural.constraint import FormatConstraint
from constrained.decoding import Generator, limits
from constrained.decoding.cut import OnLimit, check_on_limit
from constrained.decoding.output import ValueT
from constrained.decoding.repetition import OnRepeat
from constrained.errors import InvalidArgument, PromptError, UnsupportedConstraint
from constrained.extraction.binding import bound_generator
from constrained.extraction.closed_members import ClosedMembers, MemberQuestions, has_few_members
from constrained.extraction.examples import check_examples
from constrained.extraction.first_pass import FirstPass
from constrained.extraction.options import check_call_names
from constrained.extraction.prompt import CHAT_TEMPLATE, PromptParts, PromptTemplate, extraction_prompt
from constrained.extraction.record_lists import RecordLists, record_lists
from constrained.extraction.template_prompt import find_form, template_prompt
from constrained.extraction.trial import Lists, writes_lists
from constrained.models import Prompt
from constrained.sampling import AWRS, Exact, Local

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from constrained.constraint import Constraint
    from constrained.decoding import Speculation
    from constrained.extraction.options import CallOptions, ExtractOptions
    from constrained.sampling import Sampler


class ExtractionPlan(Generic[ValueT]):
    """How documents are read: with which generator and prompt, within which limits, in which parts. Safe to share between threads.

    Attributes:
        generator: generates the completions.
        parts: what makes the prompt of a document.
        first_pass: writes what comes before a value; None: nothing does.
        closed_members: what is decided in the pass over the prompt; None: the model writes it.
        writes_lists: whether the model writes lists of records itself.
        record_lists: the lists of objects whose records are read one by one; None: the model writes them.
        retries, on_limit, long, chunk_tokens, overlap_tokens, passes, require_grounding: as passed to `__init__`.
    """

    generator: Generator[ValueT]

    @overload
    def __init__(self, model: Any, constraint: type[ValueT], **options: Unpack[ExtractOptions]) -> None: ...

    @overload
    def __init__(
        self: ExtractionPlan[Any], model: Any, constraint: Any, **options: Unpack[ExtractOptions]
    ) -> None: ...

    def __init__(
        self,
        model: Any,
        constraint: Any,
        *,
        instructions: str | None = None,
        examples: Sequence[tuple[str, Any]] = (),
        context: str | None = None,
        system: str | None = None,
        prompt: PromptTemplate | None = None,
        sampler: str | Sampler | None = None,
        speculation: str | Speculation | None = "auto",
        on_limit: OnLimit = "raise",
        retries: int = 0,
        long: Literal["error", "split"] = "error",
        chunk_tokens: int | None = None,
        overlap_tokens: int | None = None,
        passes: int = 1,
        require_grounding: bool = False,
        closed: bool = True,
        allow_repeats: bool = False,
        max_string_length: int | None = None,
        max_items: int | None = None,
        on_repeat: OnRepeat = "close",
        thinking: int | None = None,
        draft_first: bool = False,
        decisions: bool = True,
        lists: Lists = "auto",
        **settings: Unpack[CallOptions],
    ) -> None:
        """Loads the model, compiles the constraint, and checks the examples.

        Args:
            model: a `LanguageModel`, or what `constrained.load` makes one of.
            constraint: a Python type, a JSON Schema, or a `Constraint`.
            instructions: what to look for and how, for the prompt.
            examples: pairs of a text and the value that is right for it: turns of the chat, before the document. A value is an instance of the type,
                a JSON value, or its JSON text; it has to satisfy the constraint.
            context: what is known about the documents, for the prompt.
            system: the system message. Some models have none in their chat template.
            prompt: a prompt of your own: a text with ``{type}`` and ``{text}``, or a function of these two that returns a text
                or messages. Examples are turns before it. ``"template"``: type, examples and text in the form of the chat
                template, for models of extraction that have one (NuExtract 2, LFM2-Extract).
            sampler: a name or a configured sampler, as for `Generator`.
            speculation: as for `Generator`; by default draft tokens are verified where that saves time.
            on_limit: ``"raise"``: `Truncated` where the token limit changed or ended a completion; ``"close"`` takes the value
                that was closed in time, see `Output.cut`.
            retries: generate a value again, at most so many times, if code of the type (a validator) refuses it. The model
                is shown the refused answer and the reason, and samples: at the temperature of the call, or at 0.7
                if that is greedy.
            long: ``"split"`` reads a document in parts that is too long for the model's context, or has more than
                `chunk_tokens` tokens. The parts overlap, are read side by side, and may leave out members of objects; their
                values are merged (`constrained.extraction.values.merge`), and the result has to satisfy the constraint.
                ``"error"``: `PromptTooLong`.
            chunk_tokens: most tokens of a part; by default what the context has room for. Small models read short parts better.
            overlap_tokens: most tokens that a part repeats of the one before; by default an eighth of a part.
            passes: with 2, members of the top-level object that got no value are asked for once more, without the others
                (``long="split"`` only).
            require_grounding: all strings of a value are spans of the document, and all numbers, dates and times are
                among those that it states; see `Constraint.bind`. Enumerated values and booleans stay as they are.
            closed: objects of a JSON Schema that declare members have no others, unless the schema has
                ``additionalProperties``: a small model writes the schema itself into them. False: they have.
            allow_repeats: lists of strings, enumerated values and objects in a Python type may have an item twice.
            max_string_length: characters of a string that type or schema do not bound; None: no limit.
            max_items: items of a list that they do not bound; None: no limit.
            on_repeat: a JSON value in which the model repeats itself is closed (``"close"``, and named in `Output.repairs`),
                an error (``"error"``), or left to the token limit (None).
            thinking: the model reasons first, in at most so many tokens, for models whose chat template has reasoning.
            draft_first: the model answers first without the constraint, and reads this answer when it writes the value: twice
                the passes.
            decisions: closed members (enumerated values, booleans, few numbers), and choices, are decided in the pass over the
                prompt, with the model's prior taken off, see `constrained.extraction.closed_members`, and so are the
                numbers, dates, times and phrases of the text, see `constrained.extraction.quantities`, `constrained.extraction.phrases` and `constrained.extraction.further_phrases`; False: the model writes them. For the default sampler,
                and models that read trees.
            lists: records of lists of objects are read one by one (``"apart"``), each from the sentences that are about it, see
                `constrained.extraction.record_lists`, or written by the model from the whole text (``"whole"``); ``"auto"``:
                apart by a model that cannot write them (`constrained.extraction.trial`). Such a model does not write
                items of lists of strings either: their items are phrases of the text. Without `decisions` lists are written.
            settings: of all calls that do not say otherwise, such as ``max_tokens=200``; see `GenerationSettings`.

        Raises:
            InvalidArgument: an argument is out of range, or an example does not satisfy the constraint.
            ConstrainedError: as `Generator`.
        """
        self.parts = PromptParts(instructions, context, (), system, prompt)
        check_call_names(settings)
        self.settings: CallOptions = settings
        self.on_limit: OnLimit = check_on_limit(on_limit)
        self.retries = limits.nonnegative_int("retries", retries)
        self.long = _one_of("long", long, ("error", "split"))
        self.chunk_tokens = _at_least("chunk_tokens", chunk_tokens, 16)
        self.overlap_tokens = _at_least("overlap_tokens", overlap_tokens, 0)
        self.passes = _one_of("passes", passes, (1, 2))
        if long == "error" and (chunk_tokens is not None or overlap_tokens is not None or passes != 1):
            raise InvalidArgument(
                "chunk_tokens, overlap_tokens and passes are for documents that are read in parts",
                action='pass long="split" too',
            )
        self._make_generator = functools.partial(
            value_generator, model, sampler=sampler, speculation=speculation, on_repeat=on_repeat
        )
        self.require_grounding = require_grounding
        if not is_automaton(constraint):
            constraint = generated_constraint(
                constraint,
                closed=closed,
                repeats=allow_repeats,
                max_string_length=max_string_length,
                max_items=max_items,
            ).without_document()
        self.generator = self._make_generator(constraint)
        if require_grounding:
            self.generator.constraint.bind("", require_grounding=True)  # raises where that is not supported
        # Further generators, for parts of documents, take the model as it was loaded here.
        self._make_generator = functools.partial(
            value_generator,
            self.generator.model,
            sampler=sampler,
            speculation=speculation,
            on_repeat=on_repeat,
        )
        self._members: dict[tuple[str, ...], Generator[Any]] = {}
        constraint = self.generator.constraint
        if long == "split" and constraint.json_options.whitespace == "indent":
            raise UnsupportedConstraint(
                "values of parts cannot be merged into indented JSON", action="use another whitespace"
            )
        if long == "split" and isinstance(constraint, FormatConstraint):
            raise UnsupportedConstraint(
                f"values of parts cannot be merged that stand in free text: {constraint.render()}",
                action='use the constraint of the values alone, or long="error" and texts that are short enough',
            )
        if thinking is not None and draft_first:
            raise InvalidArgument("thinking and draft_first both come first", action="pass one of them")
        if prompt == CHAT_TEMPLATE and (thinking is not None or draft_first):
            raise InvalidArgument(
                'prompt="template" has no place for thinking and draft_first', action="leave them out"
            )
        has_first = thinking is not None or draft_first
        self.first_pass: FirstPass | None = FirstPass(self.generator, thinking) if has_first else None
        self._form = find_form(self.generator.model, constraint) if prompt == CHAT_TEMPLATE else None
        checked = check_examples(examples, constraint, self.generator.automaton)
        self.parts = replace(self.parts, examples=checked)
        decides = decisions and sampler is None and not has_first
        self.writes_lists = functools.partial(
            writes_lists, self.generator.model, _one_of("lists", lists, get_args(Lists))
        )
        self.closed_members: ClosedMembers | None = None
        if decides:
            self.closed_members = ClosedMembers(self.generator, self.parts, self.prompt, self.writes_lists)
        self.record_lists: RecordLists | None = None
        if lists != "whole" and decides and not self._form and has_few_members(constraint):
            self.record_lists = record_lists(
                self.generator,
                self._make_generator,
                self.parts,
                self.writes_lists,
                grounded=require_grounding,
            )

    def prompt(
        self,
        text: str,
        constraint: Constraint | None = None,
        images: Sequence[Mapping[str, Any]] = (),
    ) -> Prompt:
        """The chat that asks for the value of a text; token ids where a chat template reads more than a chat.

        Args:
            text: what is read.
            constraint: of another generator, for a part of a document.
            images: are read before it.

        Raises:
            PromptError: the text is empty, or cannot be read; the plan reads texts only, and there are images.
        """
        constraint = constraint or self.generator.constraint
        if images:
            self._check_reads_images()
            return extraction_prompt(text, constraint, self.parts, images)
        if self._form is not None:
            return template_prompt(self._form, self.generator.model, text, constraint, self.parts.examples)
        return extraction_prompt(text, constraint, self.parts)

    def _check_reads_images(self) -> None:
        texts_only = {
            "require_grounding": self.require_grounding,
            "spans of the document": self.generator.constraint.needs_document,
            "prompt=": self.parts.template is not None,
            'long="split"': self.long == "split",
        }
        for name in (name for name, asked in texts_only.items() if asked):
            raise PromptError(f"{name} reads texts only, and the document has images", action="leave it out")

    def bound(self, generator: Generator[Any], text: str, name: str | int | None = None) -> Generator[Any]:
        """The generator for one document, of this name: itself, unless values have spans of the document or are whole answers.

        Raises:
            ConstrainedError: no value of the document satisfies the constraint.
        """
        bound = bound_generator(generator, text, require_grounding=self.require_grounding, name=name)
        members = self.closed_members
        if bound is self.generator and members is not None and members.is_whole and members.questions:
            bound = copy.copy(bound)
            weighing = members.whole_weighing(text)
            bound.sampler = Exact(prior=tuple(weighing.prior.tolist()), temperature=weighing.temperature)
        return bound

    def questions(self, generator: Generator[Any], text: str) -> MemberQuestions | None:
        """The questions about a document, see `ClosedMembers.about`; None: there are none."""
        members = self.closed_members
        return None if members is None else members.about(generator, text)

    @property
    def part_generator(self) -> Generator[Any]:
        """Generates the values of parts, whose objects may leave out members."""
        return self.member_generator(None)

    def member_generator(self, names: tuple[str, ...] | None) -> Generator[Any]:
        """Generates values of parts with these members of the top-level object only; None: with all."""
        key = ("*",) if names is None else ("", *names)
        if key not in self._members:
            constraint = self.generator.constraint
            relaxed = constraint.optional_members(names)
            self._members[key] = self.generator if relaxed is constraint else self._make_generator(relaxed)
        return self._members[key]


def value_generator(
    model: Any,
    constraint: Any,
    sampler: str | Sampler | None,
    speculation: str | Speculation | None,
    on_repeat: OnRepeat = "close",
) -> Generator[Any]:
    """A generator whose values are wanted, and not their weights.

    It draws the same tokens, mostly without masks, and without a forward pass for an end that must come.
    """
    if not is_automaton(constraint):
        constraint = generated_constraint(constraint)
    generator = Generator(model, constraint, sampler=sampler, speculation=speculation, on_repeat=on_repeat)
    if generator.sampler in (Local(), Local(slots=True)):
        generator.sampler = replace(generator.sampler, weights=False)
    elif generator.sampler == AWRS():
        generator.sampler = AWRS(ends="certain")
    return generator


def _one_of(name: str, value: Any, known: tuple[Any, ...]) -> Any:
    if value not in known or isinstance(value, bool):
        raise InvalidArgument(f"{name} is {value!r}", action="pass " + " or ".join(map(repr, known)))
    return value


def _at_least(name: str, value: int | None, least: int) -> int | None:
    if value is not None and limits.nonnegative_int(name, value) < least:
        raise InvalidArgument(f"{name} is {value!r}", action=f"pass a whole number >= {least}")
    return value
