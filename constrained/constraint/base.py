"""What every constraint is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grammars.ir import Grammar
    from grammars.json_schema import KeywordReport

_SHOWN = 60


class Constraint:
    """What a text must look like, and the value that it stands for.

    Immutable, hashable, and picklable if the Python type that it was made of is. Two constraints are equal if
    they allow the same texts *for the same reason* and give the same values: same schema, pattern, values or type.

    Attributes:
        key: identifies the language: the same key means the same grammar. Constraints with one key can share a
            compiled automaton, but not `parse`: two Python types may have one schema.
        schema: JSON Schema that describes the values, to show in a prompt; None for a regex.
        is_json: whether the texts are JSON, rather than bare text.
        special_tokens: names of special tokens that stand in the texts; see `Vocabulary.marked`.
    """

    is_json: bool = False

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """See above."""
        return ()

    @property
    def key(self) -> str:
        """Digest of the language, see above."""
        raise NotImplementedError

    @property
    def schema(self) -> Any:
        """See above."""
        return None

    @property
    def grammar(self) -> Grammar:
        """The texts, as a grammar.

        Raises:
            ConstraintError: the constraint is invalid, unsupported or unsatisfiable.
            ConstraintTooLarge: it is too large to be compiled.
        """
        raise NotImplementedError

    @property
    def report(self) -> KeywordReport:
        """What became of every keyword; empty for constraints without keywords. Raises as `grammar` does."""
        from grammars.json_schema import KeywordReport

        return KeywordReport()

    def parse(self, text: str) -> Any:
        """The value of a text that follows the constraint. Whether it does is not checked again.

        Raises:
            RejectedValue: no value can be made of the text.
        """
        raise NotImplementedError

    def render(self) -> str:
        """The constraint in one short line, for messages."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constraint) and type(self) is type(other) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __getstate__(self) -> dict[str, Any]:
        # A grammar is rebuilt faster than it is sent, and a fresh one shares nothing with another process.
        computed = ("grammar", "_lowered", "_read")
        return {name: value for name, value in self.__dict__.items() if name not in computed}


def shorten(text: str) -> str:
    """A text on one line, cut where it gets long."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."


def digest(kind: str, *parts: str) -> str:
    """A `key`: equal for equal kinds and parts."""
    import hashlib

    framed = json.dumps([kind, *parts])
    return f"{kind}:{hashlib.sha256(framed.encode()).hexdigest()}"
