"""The base class of constraints."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from constrained.errors import UnsupportedConstraint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from constrained.errors import Problem
    from constrained.grammars.ir import Grammar
    from constrained.grammars.json_schema import KeywordReport, SchemaOptions
    from constrained.grammars.notation.lark.captures import CaptureGrammar

_SHOWN = 60


class Constraint:
    """A set of valid completions, and the value that each of them stands for.

    Immutable, hashable, and picklable if its Python type is. Two constraints are equal if they were made from equal
    schemas, patterns, values or types; equal languages alone do not make them equal.

    Attributes:
        key: digest of the language. Constraints with equal keys have equal grammars and share a compiled automaton,
            but not `parse`: two Python types may have one schema.
        schema: JSON Schema of the values, shown in prompts; None for a regex.
        is_json: whether completions are JSON rather than bare text.
        repeats: whether values may have lists with a string or an object twice.
        special_tokens: names of special tokens that completions contain; see `Vocabulary.with_special_tokens`.
        fixed_texts: texts that completions contain as they are; a special token whose name is in one of them may spell it
            there, see `Vocabulary.with_special_texts`.
        reasoning_end: the text that ends the reasoning that completions begin with; None: they begin with none.
    """

    is_json: bool = False
    repeats: bool = True
    reasoning_end: str | None = None

    _ambiguous: bool = False
    """Whether its notation has rules that may derive a text in many ways: then it is always tried, see `constrained.automaton.trial`."""

    @property
    def _inside(self) -> tuple[Constraint, ...]:
        """The constraints of parts of its texts: these are tried by themselves, as they may begin far from the first token."""
        return ()

    @property
    def _meaning(self) -> Any:
        """What tells constraints of one language apart whose texts stand for different values."""
        return None

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """See above."""
        return ()

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        """See above."""
        return ()

    @property
    def key(self) -> str:
        """Digest of the language, see above."""
        raise NotImplementedError

    @property
    def shared_key(self) -> str | None:
        """The key under which the rules may be kept for other constraints; None: they are of use once, as for a document."""
        return None

    @property
    def schema(self) -> Any:
        """See above."""
        return None

    @property
    def local_schema(self) -> Any:
        """`schema` with each reference as a JSON Pointer into it, for those who read it: `constrained.grammars.json_schema.view`."""
        return self.schema

    @property
    def enforced_schema(self) -> Any:
        """As `local_schema`, with what is enforced beyond what a type declares, such as texts of dates; None if there is no schema.

        `json_schema`, the server and the plug-ins enforce it as `python_type` does, but for constraints in ``Annotated[str, ...]``,
        which `json_schema` takes as ``embed``.
        """
        return None

    @property
    def json_options(self) -> SchemaOptions:
        """How JSON is written."""
        from constrained.grammars.json_schema.options import SchemaOptions

        return SchemaOptions()

    @property
    def grammar(self) -> Grammar:
        """The grammar of the valid completions.

        Raises:
            ConstraintError: the constraint is invalid, unsupported or unsatisfiable.
            ConstraintTooLarge: it is too large to be compiled.
        """
        raise NotImplementedError

    @property
    def capture_grammar(self) -> CaptureGrammar | None:
        """The grammar in which parts of a text with a name are found; None if there are none. Raises the errors of `grammar`."""
        return None

    @property
    def report(self) -> KeywordReport:
        """How each keyword is enforced; empty for constraints without keywords. Raises the errors of `grammar`."""
        from constrained.grammars.json_schema import KeywordReport

        return KeywordReport()

    def parse(self, text: str) -> Any:
        """Returns the value of a valid completion. Validity is not checked again.

        Raises:
            RejectedValue: the completion has no value.
        """
        raise NotImplementedError

    def repetition_guard(self, vocabulary: Any) -> Callable[[Sequence[int]], Any] | None:
        """Makes what ends a completion that repeats itself, where that is no JSON value; see `constrained.decoding.repetition.Guard`."""
        return None

    def standard_text(self, text: str) -> str:
        """A completion without what the constraint lets a model write otherwise: of a Python type, dates as in ISO 8601."""
        return text

    def problems(self, text: str) -> list[Problem]:
        """What is wrong with a text, as far as it can be named: by the schema, for JSON; none for other constraints."""
        return []

    def optional_members(self, names: Sequence[str] | None = None) -> Constraint:
        """For the parts of a long document: plain JSON in which objects outside of arrays may leave out members.

        Args:
            names: only these members of the top-level object; None: all.

        Returns:
            Such a constraint; this one, if it is not JSON.
        """
        return self

    def render(self) -> str:
        """The constraint in one short line, for messages."""
        raise NotImplementedError

    def __string_constraint__(self) -> None:
        """Tells `constrained.grammars.types` that this may stand in ``Annotated[str, ...]``."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> Any:
        """Pydantic's hook for metadata of `Annotated`: the schema of the strings of this constraint."""
        from constrained.grammars.types.contents import pydantic_json_schema

        return pydantic_json_schema(self, handler(core_schema))

    @property
    def needs_document(self) -> bool:
        """Whether strings of its values are spans of a document (``x-span``, `Span`), so that `bind` must come first."""
        return False

    def bind(self, document: str, *, require_grounding: bool = False) -> Constraint:
        """This constraint for values from one document: strings with ``x-span`` are spans of it.

        Args:
            document: the text that the values come from.
            require_grounding: all strings are spans of the document, and all numbers, dates and times are among those
                that it states. Enumerated values and booleans stay as they are.

        Returns:
            This constraint, if it has no such strings.

        Raises:
            UnsupportedConstraint: `require_grounding`, and the values are not JSON of a schema.
        """
        if require_grounding:
            raise UnsupportedConstraint(
                f"require_grounding is for JSON, not for {self.render()}",
                action="use a schema or a type, or substring_of(document)",
            )
        return self

    def among_special_tokens(self, names: Sequence[str]) -> Constraint:
        """This constraint as a part of completions that contain these special tokens, too.

        Which byte stands for a special token depends on all of them, see `Vocabulary.with_special_tokens`.

        Args:
            names: of the special tokens of the whole completion.

        Returns:
            This constraint, if it has no special tokens.
        """
        return self

    def without_document(self) -> Constraint:
        """This constraint with any strings in place of spans, for what depends on no document."""
        return self

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Constraint)
            and type(self) is type(other)
            and self.key == other.key
            and bool(self._meaning == other._meaning)
        )

    def __hash__(self) -> int:
        return hash(self.key)

    def __getstate__(self) -> dict[str, Any]:
        # Rebuilding a grammar is faster than sending it to another process.
        computed = ("grammar", "capture_grammar", "_lowered", "_read")
        return {name: value for name, value in self.__dict__.items() if name not in computed}


def shorten(text: str) -> str:
    """Joins a text into one line of at most 60 characters."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."


def digest(kind: str, *parts: str) -> str:
    """A digest for `Constraint.key`: equal for equal kinds and parts."""
    import hashlib

    framed = json.dumps([kind, *parts])
    return f"{kind}:{hashlib.sha256(framed.encode()).hexdigest()}"
