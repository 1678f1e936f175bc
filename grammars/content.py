"""Strings of a schema whose content is described by something other than JSON Schema.

`CONTENT_KEYWORD` in a schema names a grammar, or a language that a Python type stands for. It is read only where
`constrained.grammars.json_schema.lower_schema` is given ``contents``; in a schema of a user it stays an unknown keyword.
`CHECKED_KEYWORD` says of a value what is checked after generation, by the type itself.
"""

from __future__ import annotations

from typing import Any, Protocol

from constrained.grammars import ir

CONTENT_KEYWORD = "x-content"
"""Value: a key of ``contents``, or an object ``{kind: parameters}`` (see `constrained.grammars.json_schema.text.kinds`)."""
CHECKED_KEYWORD = "x-checked"
"""Value: a text that names the check."""


class StringConstraint(Protocol):
    """A constraint that may stand in ``Annotated[str, ...]``.

    Attributes:
        key: digest of the language.
        grammar: of the texts, not yet escaped for JSON.
        schema: JSON Schema that shows the texts in a prompt, or None.
    """

    @property
    def key(self) -> str:
        """See above."""

    @property
    def grammar(self) -> ir.Grammar:
        """See above."""

    @property
    def schema(self) -> Any:
        """See above."""

    def render(self) -> str:
        """The constraint in one short line."""
