"""Objects that may be left out, or be null: whether a text has one.

A small model fills every object that it may write (an address with the name of a person as street and as city). Its members are asked about
as if each might be left out, and the object is there if the text has half of what the object needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from constrained.decisions import ABSENT, Decision
from constrained.decisions.questions import (
    DEEPEST,
    declared_members,
    followed,
    is_object,
    leaf_members,
    may_be_null,
    member_pointer,
)
from constrained.grammars.json_schema.view import without_null


@dataclass(frozen=True)
class OptionalObject:
    """An object that may be left out, or be null.

    Attributes:
        pointer: JSON Pointer.
        needed: the members that must be there if it is, and are no objects.
    """

    pointer: str
    needed: frozenset[str]

    def has(self, pointer: str) -> bool:
        """Whether a member is one of it, or of an object inside."""
        return pointer.startswith(self.pointer + "/")

    def is_there(self, found: Collection[str], asked: Collection[str]) -> bool:
        """Whether a text has it.

        Args:
            found: the members to which it gives a value.
            asked: the members about which it was asked.
        """
        needed = self.needed.intersection(asked)
        return any(map(self.has, found)) and 2 * len(needed.intersection(found)) >= len(needed)


@dataclass
class Presence:
    """Which objects are there.

    Attributes:
        decisions: about members of objects that are there, by pointer.
        missing: pointers of the objects that are left out, without those inside of others.
        unknown: pointers of objects about which nothing was asked.
        needed: members of the objects that are there, which need a value and got none.
    """

    decisions: dict[str, Decision]
    missing: list[str]
    unknown: list[str]
    needed: set[str]

    def hides(self, pointer: str) -> bool:
        """Whether a member is in an object that is left out, or that nothing is known of."""
        return any(pointer.startswith(one + "/") for one in (*self.missing, *self.unknown))


def optional_objects(schema: Any) -> list[OptionalObject]:
    """The objects in a schema's object that may be left out, outermost first."""
    return list(_objects(schema, schema, (), ()))


def _objects(
    schema: Any, root: Any, path: tuple[str, ...], around: tuple[int, ...]
) -> Iterator[OptionalObject]:
    schema = followed(schema, root)
    if not isinstance(schema, Mapping) or len(path) > DEEPEST or id(schema) in around:
        return
    for name, member, is_required in declared_members(schema):
        inside, within = followed(without_null(member), root), (*path, name)
        if is_object(inside, root):
            if not is_required or may_be_null(member):
                leaves = leaf_members(inside, root, nullable=True)
                needed = (member_pointer((*within, *leaf)) for leaf, _, may_miss in leaves if not may_miss)
                yield OptionalObject(member_pointer(within), frozenset(needed))
            yield from _objects(inside, root, within, (*around, id(schema)))


def presence(
    objects: Collection[OptionalObject],
    decisions: Mapping[str, Decision],
    asked: Collection[str],
    known: Collection[str] = (),
) -> Presence:
    """Which objects are there, by the decisions about their members.

    Args:
        objects: outermost first.
        decisions: by pointer.
        asked: pointers of the members about which was asked.
        known: pointers of members with a value besides.
    """
    there = Presence(dict(decisions), [], [], set())
    found = {*known, *(pointer for pointer, one in decisions.items() if one.text != ABSENT)}
    for one in objects:
        if there.hides(one.pointer):
            continue
        if not any(map(one.has, asked)):
            there.unknown.append(one.pointer)
        elif one.is_there(found, asked):
            there.needed |= one.needed - found
        else:
            there.missing.append(one.pointer)
    for pointer in decisions:
        if there.hides(pointer) or pointer in there.needed:
            del there.decisions[pointer]
    return there
