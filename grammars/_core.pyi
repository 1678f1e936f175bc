"""Native part of the front ends: surveys of JSON Schema documents."""

from typing import Any


class Keywords:
    """The keywords of one draft."""

    def __init__(self, checks: dict[str, str], limiting: frozenset[str], identifier: str, ref_alone: bool, formats: frozenset[str]) -> None:
        """
        `checks`: what the value of each keyword must be, by the names in keywords.cpp; `limiting`: those that may
        limit something; `identifier`: the one that names a schema; `ref_alone`: others are ignored next to $ref.
        """

    def count(self, schema: object) -> int:
        """
        About how many schemas stand in a document, if all their keywords are as they must be; otherwise 0.
        """

def snapshot(schema: object) -> Any:
    """
    A copy of the dicts and lists of a document and of all that is in them; None if one of them stands in two
    places, or is of a class of its own.
    """

class Survey:
    """Which schemas of a document are plain; see survey.hpp."""

    def __init__(self, document: object, keywords: Keywords, punctuation: tuple[int, ...]) -> None:
        """
        `document`: a snapshot; `punctuation`: bytes of the shortest {, }, {}, [, ], [], comma and colon, with the
        white space that they bring.
        """

    def put_off(self, schema: object, pointer: str, only: bool = False) -> int:
        """
        Bytes of the shortest array or object that a schema at a pointer allows, if the rule of these may wait for
        its body, otherwise 0. `only`: 0 as well if the schema allows other values.
        """

    def leads_to(self, schema: object, pointer: str) -> str | None:
        """
        The reference by which a schema that says nothing else leads to one of which `put_off` says yes, with
        `only`; None otherwise.
        """

    def owed(self) -> list[tuple[str | None, str | None, tuple[str | int, ...]]]:
        """
        Schemas that must be lowered at once because of rules that were put off, since the last call: each as a
        pointer or a reference, and steps from there.
        """
