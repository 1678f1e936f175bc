"""The keyword for strings whose content is described by a grammar: `constrained.grammars.content.CONTENT_KEYWORD`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from constrained.grammars import ir
from constrained.grammars.content import CONTENT_KEYWORD
from constrained.grammars.errors import ConstrainedError, InvalidConstraint, Problem
from constrained.grammars.json_schema.source.constraints import ParsedSchema
from constrained.grammars.json_schema.source.document import SchemaNode, child_pointer
from constrained.grammars.json_schema.source.report import CHECKED_PREFIX, UNKNOWN_PREFIX
from constrained.grammars.json_schema.text.contents import StringContent

GrammarMaker = Callable[[], ir.Grammar]
JSON_KIND = "json"
"""The kind of strings that contain JSON; its parameter is a schema."""


class ContentTable:
    """The contents that the schemas of one document may name.

    Args:
        schema: the document.
        named: makers of grammars by name.
        kinds: by kind, the function from its parameters to a regular language.
        json_text: makes the grammar of the JSON of a schema, for the kind ``json``.
    """

    def __init__(
        self,
        schema: Any,
        named: Mapping[str, GrammarMaker],
        kinds: Mapping[str, Callable[[Any], ir.Grammar]],
        json_text: Callable[[Any], ir.Grammar],
    ) -> None:
        self._schema = schema
        self._named = named
        self._kinds = {**kinds, JSON_KIND: json_text}
        self._found: dict[str, StringContent] = {}

    @cached_property
    def has_grammars(self) -> bool:
        """Whether some content of the document is not one regular expression."""
        pending = [self._schema]
        while pending:
            part = pending.pop()
            if isinstance(part, dict):
                pending += part.values()
                if CONTENT_KEYWORD in part and not self._is_regular(part[CONTENT_KEYWORD]):
                    return True
            elif isinstance(part, list):
                pending += part
        return False

    def _is_regular(self, value: Any) -> bool:
        found = self.get(value)
        return found is None or (not (isinstance(value, dict) and JSON_KIND in value) and found.is_regular())

    def get(self, value: Any) -> StringContent | None:
        """The content that a keyword's value stands for; None if it is unknown."""
        name = value if isinstance(value, str) else json.dumps(value)
        content = self._found.get(name)
        if content is None:
            make = self._maker(value)
            if make is None:
                return None
            content = self._found[name] = StringContent(name, make)
        return content

    def _maker(self, value: Any) -> GrammarMaker | None:
        if isinstance(value, str):
            return self._named.get(value)
        if not isinstance(value, dict) or len(value) != 1:
            return None
        ((kind, parameters),) = value.items()
        make = self._kinds.get(kind)
        return None if make is None else lambda: _made(make, kind, parameters)


def _made(make: Callable[[Any], ir.Grammar], kind: str, parameters: Any) -> ir.Grammar:
    try:
        return make(parameters)
    except ConstrainedError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError) as error:  # a schema that somebody else wrote
        raise InvalidConstraint(
            f"{CONTENT_KEYWORD} cannot be read",
            Problem(kind, f"has other parameters: {error}", parameters),
            action="pass the schema of python_type(T) as it is, or leave the keyword out",
        ) from None


def content(parsed: ParsedSchema, value: Any, node: SchemaNode) -> str | None:
    """Strings have this content.

    Raises:
        ConstraintError: the grammar of the content cannot be made; names the place of the keyword.
    """
    table: ContentTable | None = node.document.contents
    text_content = None if table is None else table.get(value)
    if text_content is None:
        return f"{UNKNOWN_PREFIX}to draft {node.dialect.name}"
    try:
        pattern = text_content.pattern
        if pattern is None:
            _ = text_content.rules
    except ConstrainedError as error:
        place = child_pointer(node.pointer, CONTENT_KEYWORD)
        moved = [replace(problem, place=f"{place}, {problem.place}") for problem in error.problems]
        error.reword(problems=moved or [Problem(place, error.summary)])
        raise
    constraints = parsed.constraints
    if pattern is None:
        if text_content not in constraints.contents:
            constraints.contents += (text_content,)
    elif pattern not in constraints.patterns:
        constraints.patterns += (pattern,)
    return None


def checked(parsed: ParsedSchema, value: Any, node: SchemaNode) -> str | None:
    """A check that the type itself makes after generation: an annotation here."""
    if node.document.contents is None:
        return f"{UNKNOWN_PREFIX}to draft {node.dialect.name}"
    return f"{CHECKED_PREFIX}{value}"
