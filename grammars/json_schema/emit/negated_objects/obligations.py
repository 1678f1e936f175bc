"""What members of an object must do so that something denied fails: from a shape to obligations.

Each `Denied` of a shape is one obligation. A member fulfils it by a value that its schemas there do not allow, by
being there at all (where they allow no value that is allowed here), or by being left out. What fulfils nothing or
is certain is decided here, so that most obligations are gone before the object is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from grammars import ir
from grammars.errors import ConstraintTooLarge, Problem
from grammars.json_schema.emit.negated_objects.ordered import Declared, Other
from grammars.json_schema.source.constraints import Denied, Goal, Members, Shape
from grammars.json_schema.source.document import Document, Node
from grammars.json_schema.source.key_classes import classes
from grammars.json_schema.source.members import declared_names, forbidden, goal_of_class
from grammars.json_schema.source.synthetic import allows_all, negated, together
from grammars.json_schema.text.patterns import Pattern

MAX_OBLIGATIONS = 12
"""Most obligations of one object."""


class Judge(NamedTuple):
    """What is asked about schemas here.

    Attributes:
        document: where they belong.
        goal: the expression of the values of a goal.
        impossible: whether a goal is known to have no values.
        allowed: whether a key satisfies schemas.
        allowed_keys: those of some keys that satisfy schemas.
    """

    document: Document
    goal: Callable[[Goal], ir.Expr]
    impossible: Callable[[Goal], bool]
    allowed: Callable[[Goal, str], bool]
    allowed_keys: Callable[[Goal, ir.Regex], ir.Regex]


class Obligations(NamedTuple):
    """An object as `obliged.obliged_object` wants it."""

    members: list[Declared]
    others: list[Other]
    number: int


ALWAYS = True
"""Instead of a schema that a value must satisfy: any value that is allowed does."""

Witness = Node | bool | None
"""What fulfils an obligation: a value of this schema, any value (True), none at all (None)."""


def obligations(shape: Shape, judge: Judge, place: str) -> Obligations | None:
    """The members of an object and what they must fulfil; None when that is impossible.

    Raises:
        ConstraintTooLarge: too many obligations, or patterns of keys.
    """
    names = dict.fromkeys(declared_names(shape))
    for denied in shape.denied:
        for members in denied.members:
            names.update(dict.fromkeys(members.properties))
        names.update(dict.fromkeys(denied.required))
    goals: dict[str, Goal] = {}
    values: dict[str, ir.Expr] = {}
    required = set(shape.required)
    for name in names:
        goals[name] = goal = _on_name(shape.members, name)
        values[name] = judge.goal(goal) if judge.allowed(shape.names, name) else ir.NEVER
        if name in required and values[name] is ir.NEVER:
            return None
    keys = _classes(shape, names, judge, place)
    open_: list[Denied] = []
    for denied in shape.denied:
        if any(values[name] is ir.NEVER for name in denied.required):
            continue  # a key that is never there fails already
        absent = [name for name in denied.required if name not in required]
        by_name = {
            name: found
            for name in names
            if denied.speaks_of(name)
            and values[name] is not ir.NEVER
            and (found := _witness(denied, _on_name(denied.members, name), goals[name], judge, name))
        }
        if any(found is ALWAYS and name in required for name, found in by_name.items()):
            continue
        elsewhere = any(key.witness(denied, judge) is not None for key in keys)
        if len(absent) + len(by_name) == 0 and not elsewhere:
            return None
        if elsewhere or len(absent) + len(by_name) > 1:
            open_.append(denied)
        elif absent:
            values[absent[0]] = ir.NEVER
        else:
            ((name, found),) = by_name.items()
            required.add(name)
            if isinstance(found, Node):
                goals[name] = (*goals[name], found)
                values[name] = judge.goal(goals[name])
                if values[name] is ir.NEVER:
                    return None
    if len(open_) > MAX_OBLIGATIONS:
        raise ConstraintTooLarge(
            "too many conditions on one object",
            Problem(place, f"{len(open_)} schemas that must not hold here; at most {MAX_OBLIGATIONS}"),
            action="simplify oneOf, not or if at this place",
        )
    written = [_declared(name, name in required, values[name], goals[name], open_, judge) for name in names]
    others = [key.other(open_, judge) for key in keys]
    return Obligations(written, others, len(open_))


def _bits(mask: int) -> Iterable[int]:
    return (bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def _on_name(parts: Sequence[Members], name: str) -> Goal:
    return tuple(dict.fromkeys(node for members in parts for node in members.on(name)))


def _witness(denied: Denied, nodes: Iterable[Node], goal: Goal, judge: Judge, name: str | None) -> Witness:
    """What fulfils an obligation at a key whose values have a goal; `nodes` are the denied schemas there."""
    if name is not None and denied.names:
        wrong_name = negated(together(judge.document, denied.names))
        if judge.allowed((wrong_name,), name):  # surely
            return ALWAYS
    wrong = [node for node in nodes if not allows_all(node) and not any(node.same(other) for other in goal)]
    if not wrong:
        return None
    if any(node.value is False for node in wrong) or judge.impossible((*goal, *wrong)):
        return ALWAYS
    found = negated(together(judge.document, wrong))
    return None if judge.impossible((*goal, found)) else found


def _able(
    base: ir.Expr, goal: Goal, wanted: dict[int, Node], judge: Judge
) -> tuple[int, Callable[[int], ir.Expr]]:
    """What the values of a goal can fulfil, and those that fulfil some of it."""
    known = {0: base}

    def value(mask: int) -> ir.Expr:
        if mask not in known:
            known[mask] = judge.goal((*goal, *(wanted[bit] for bit in _bits(mask))))
        return known[mask]

    return sum(1 << bit for bit in wanted if value(1 << bit) is not ir.NEVER), value


class _Fulfils(NamedTuple):
    """What a member fulfils by being there, what by its value, and the values for that; see `obliged.Declared`."""

    fulfils: int
    able: int
    value: Callable[[int], ir.Expr]
    one_of: dict[int, int]
    alike: dict[int, int]


def _fulfils(
    open_: Sequence[Denied], witness: Callable[[Denied], Witness], base: ir.Expr, goal: Goal, judge: Judge
) -> _Fulfils:
    fulfils = 0
    wanted: dict[int, Node] = {}
    for bit, denied in enumerate(open_):
        found = witness(denied)
        if found is ALWAYS:
            fulfils |= 1 << bit
        elif isinstance(found, Node):
            wanted[bit] = next((other for other in wanted.values() if _equal(other, found)), found)
    able, value = _able(base, goal, wanted, judge)
    alike = {
        bit: sum(1 << other for other in _bits(able) if wanted[other] is wanted[bit]) for bit in _bits(able)
    }
    one_of = _one_of({bit: wanted[bit].denies for bit in _bits(able)}, goal, judge)
    return _Fulfils(fulfils, able, value, one_of, alike)


def _equal(a: Node, b: Node) -> bool:
    """Whether two schemas plainly deny the same."""
    if a is b:
        return True
    first, second = (
        () if node is None else node.facts.also if node.made and node.facts else (node,)
        for node in (a.denies, b.denies)
    )
    return len(first) == len(second) > 0 and all(map(Node.same, first, second))


def _declared(
    name: str, required: bool, value: ir.Expr, goal: Goal, open_: Sequence[Denied], judge: Judge
) -> Declared:
    left_out = sum(1 << bit for bit, denied in enumerate(open_) if name in denied.required)
    if value is ir.NEVER:
        return Declared(name, required, 0, 0, left_out, lambda mask: ir.NEVER, {}, {})

    def witness(denied: Denied) -> Witness:
        if not denied.speaks_of(name):
            return None
        return _witness(denied, _on_name(denied.members, name), goal, judge, name)

    found = _fulfils(open_, witness, value, goal, judge)
    return Declared(
        name, required, found.fulfils, found.able, left_out, found.value, found.one_of, found.alike
    )


def _one_of(denied: dict[int, Node | None], goal: Goal, judge: Judge) -> dict[int, int]:
    """By what a value may fail to fulfil, what it then fulfils for certain: denied schemas that are apart."""
    certain = dict.fromkeys(denied, 0)
    for first, second in combinations(denied, 2):
        a, b = denied[first], denied[second]
        if a is not None and b is not None and a is not b and judge.impossible((*goal, a, b)):
            certain[first] |= 1 << second
            certain[second] |= 1 << first
    return certain


class _Keys(NamedTuple):
    """A class of keys that are not declared: which patterns they match, which denied names they break."""

    keys: ir.Regex
    goal: Goal
    value: ir.Expr
    matched: frozenset[Pattern]
    broken: frozenset[int]

    def witness(self, denied: Denied, judge: Judge) -> Witness:
        """What a member with such a key must have for a value to fulfil an obligation."""
        if id(denied) in self.broken:
            return ALWAYS
        return _witness(denied, goal_of_class(denied.members, self.matched), self.goal, judge, None)

    def other(self, open_: Sequence[Denied], judge: Judge) -> Other:
        """This class with what it fulfils."""
        return Other(
            self.keys,
            *_fulfils(open_, lambda denied: self.witness(denied, judge), self.value, self.goal, judge),
        )


def _classes(shape: Shape, names: Iterable[str], judge: Judge, place: str) -> list[_Keys]:
    """The keys that are not declared, in classes of which every schema here says the same."""
    parts = [shape.members, *(denied.members for denied in shape.denied)]
    patterns = list(
        dict.fromkeys(pattern for part in parts for members in part for pattern, _ in members.patterns)
    )

    found = []
    for class_ in classes(patterns, forbidden(shape.members), place):
        matched = frozenset(class_.matched)
        goal = goal_of_class(shape.members, matched)
        if any(node.value is False for node in goal):
            continue
        value = judge.goal(goal)
        if value is ir.NEVER:
            continue
        keys = class_.texts(list(names))
        split = [(judge.allowed_keys(shape.names, keys), frozenset[int]())]
        for denied in shape.denied:
            if denied.names:
                wrong = (negated(together(judge.document, denied.names)),)
                split = [
                    (judge.allowed_keys(goal_, keys), broken | more)
                    for keys, broken in split
                    for goal_, more in ((denied.names, frozenset[int]()), (wrong, frozenset((id(denied),))))
                ]
        found += [
            _Keys(keys, goal, value, matched, broken)
            for keys, broken in split
            if not isinstance(keys, ir.Nothing)
        ]
    return found
