"""`RecordReader`: texts of records, read side by side, each like a document of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Generator as Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from constrained.constraint import choice
from constrained.decisions import Decision
from constrained.decoding.output import Output
from constrained.decoding.request_runner import BatchedRequest
from constrained.errors import ConstrainedError
from constrained.extraction.binding import bound_generator, compiled_anew
from constrained.extraction.closed_members import ClosedMembers
from constrained.extraction.examples import accepts_text
from constrained.extraction.prompt import PromptParts, extraction_prompt
from constrained.extraction.values.exact_json import in_schema_order
from constrained.models import Prompt

if TYPE_CHECKING:
    from constrained.decoding import Generator
    from constrained.extraction.closed_members import MemberQuestions

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReadValue:
    """A value that was read.

    Attributes:
        value: JSON.
        decisions: what was decided in it, by JSON Pointer.
    """

    value: Any
    decisions: Mapping[str, Decision]

    def writer(self, generator: Generator[Any], settings: Settings) -> Generator[Any] | None:
        """A generator like another one, that writes nothing but this value; None where it may not, or has not the tokens."""
        constraint: Any = generator.constraint
        text = written_value(self.value, generator)
        if text is None:
            return None
        only = compiled_anew(generator, choice([text]))
        # Who reads the text reads it as the constraint does.
        only.constraint = only.automaton.constraint = constraint
        limit = settings.get("max_tokens")
        size = only.automaton.shortest_completion(only.automaton.start)
        return only if limit is None or size <= limit else None


def written_value(value: Any, generator: Generator[Any]) -> str | None:
    """The text that a generator writes for a JSON value; None where it may not write it."""
    constraint: Any = generator.constraint
    schema = constraint.enforced_schema
    text = json.dumps(
        in_schema_order(value, schema, schema), ensure_ascii=False, separators=constraint.separators
    )
    text = constraint.standard_text(text)
    return text if accepts_text(generator.automaton, text) else None


class RecordReader:
    """Reads texts into JSON values, each like a document of its own."""

    def __init__(
        self, generator: Generator[Any], parts: PromptParts, writes_lists: Callable[[], bool], grounded: bool
    ) -> None:
        self.generator = generator
        self._parts, self._grounded = parts, grounded
        self.members = ClosedMembers(generator, parts, self.prompt, writes_lists)

    def prompt(self, text: str) -> Prompt:
        """Asks for the value of a text."""
        return extraction_prompt(text, self.generator.constraint, self._parts)

    def steps(
        self,
        texts: Sequence[str],
        known: Sequence[Mapping[str, Any]],
        settings: Settings,
        needed: Sequence[str | None] = (),
    ) -> Coroutine[list[BatchedRequest], None, list[ReadValue | None]]:
        """Reads texts side by side; returns value and decisions of each, None for a text that has no value or too long a one.

        Args:
            texts: what is read.
            known: members of their values that are known already, by JSON Pointer.
            settings: of the requests.
            needed: of each text the pointer of a string without which its value is not read on; none: of no text.
        """
        yield from self.members.weighing_steps()
        asked: list[tuple[MemberQuestions | None, BatchedRequest] | None] = []
        for number, (text, one) in enumerate(zip(texts, known, strict=True)):
            try:
                generator = bound_generator(self.generator, text, require_grounding=self._grounded)
                questions = self.members.about(generator, text, one, needed[number] if needed else None)
                prompt = self.prompt(text)
                request = generator._request(prompt, sequence=number, questions=questions, **settings)
            except ConstrainedError:
                asked.append(None)
            else:
                asked.append((questions, BatchedRequest(generator, request)))
        yield [one[1] for one in asked if one is not None]
        found: list[ReadValue | None] = []
        for begun in asked:
            outcome = None if begun is None else begun[1].outcome
            if begun is None or not isinstance(outcome, Output) or outcome.cut is not None:
                found.append(None)
            else:
                decisions = {} if begun[0] is None else begun[0].decisions
                found.append(ReadValue(json.loads(outcome.text), decisions))
        return found
