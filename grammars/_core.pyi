"""Native part of the front ends: analysis of JSON Schema documents."""

from collections.abc import Callable
from typing import Any


class Keywords:
    """The keywords of one draft."""

    def __init__(self, checks: dict[str, str], limiting: frozenset[str], scalar: frozenset[str], identifier: str, ref_alone: bool) -> None:
        """
        `checks`: the check of each keyword value, by the names in keywords.cpp; `limiting`: keywords that may constrain
        values; `scalar`: those that constrain numbers or strings and nothing else; `identifier`: the keyword that identifies a schema; `ref_alone`: $ref hides other keywords.
        """

    def count_subschemas(self, schema: object) -> int:
        """
        Approximate number of schemas in a document if all keyword values are valid; otherwise 0.
        """

def copy_json(value: object) -> tuple[Any, str] | None:
    """
    A copy of a value in new dicts and lists, and its text as `json.dumps` with ``ensure_ascii=False``; None if part of it is no
    plain dict, list, str, int, finite float, bool or None, has no UTF-8, or is nested over 200 deep.
    """

def count_json_values(text: bytes, numbers: int, most: int) -> int:
    """
    How many values JSON has, without the GIL: its strings, objects and arrays, and one for each `numbers` commas. What is no JSON
    has any count. The count ends soon after `most`.
    """

class PlainTerminals:
    """What the grammars of plain schemas have in common; see plain.hpp."""

    def __init__(self, keywords: Keywords, fixed: tuple[Any, ...], comma: tuple[Any, ...], colon: tuple[Any, ...], any_string: tuple[Any, ...], string_body: Any, units: tuple[tuple[Any, tuple[Any, ...]], ...], spellings: Callable[[str], tuple[Any, ...]], strings_excluding: Callable[[list[str]], tuple[Any, ...]], key_classes: Callable[[list[tuple[str, bool]], list[str]], tuple[list[int], list[tuple[Any, int]]] | None], ordered: bool, distinct: bool, closed: bool) -> None: ...

    def lower(self, schema: object, general: Callable[[], Any]) -> tuple[bytes, tuple[Any, ...], tuple[str, ...], bool] | None:
        """
        The packed rules of a document, their leaves and their names, and whether leaves call rules by their names; None if the
        document cannot be lowered so. `general`: makes what lowers the rest (`constrained.grammars.json_schema.emit.lowering`).
        """
