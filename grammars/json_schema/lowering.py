"""The work-list from schemas to rules: one rule for each case that may be an object or an array.

Scalars stand inline, so a small schema is few rules. A rule's body is lowered from a queue, never by recursion:
schemas may be nested as deep as they like.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence

from grammars import ir
from grammars.errors import ConstraintTooLarge, Problem
from grammars.json_schema import facts as f
from grammars.json_schema import numbers, strings
from grammars.json_schema.admits import Admits
from grammars.json_schema.cases import Cases
from grammars.json_schema.disjoint import Disjoint
from grammars.json_schema.document import Document, Node, step
from grammars.json_schema.facts import Goal, Shape
from grammars.json_schema.layout import Layout
from grammars.json_schema.multiples import multiples_of
from grammars.json_schema.objects import (
    CountedKeys,
    Member,
    array_expr,
    declared_names,
    goal_of,
    key_classes,
    object_expr,
)
from grammars.json_schema.values import text_of

MAX_RULES = 200_000
"""Most rules of one grammar."""
MAX_BRANCHES = 200
"""Most branches of a ``oneOf`` that are compared in pairs."""

_NULL = ir.terminal("null")
_BOOLEAN = ir.Terminal(ir.union(ir.literal("true"), ir.literal("false")))
_STRING, _NUMBER, _INTEGER = (
    ir.Terminal(strings.STRING),
    ir.Terminal(numbers.NUMBER),
    ir.Terminal(numbers.INTEGER),
)
_TYPE_ALONE = {
    f.TYPE_ALONE["null"]: _NULL,
    f.TYPE_ALONE["boolean"]: _BOOLEAN,
    f.TYPE_ALONE["string"]: _STRING,
    f.TYPE_ALONE["number"]: _NUMBER,
    f.TYPE_ALONE["integer"]: _INTEGER,
}
_ANYTHING: dict[Layout, ir.Expr] = {}
_CANONICAL_CHARACTER = strings.CANONICAL.unit(ir.ANY_CHAR.ranges)


class Lowering:
    """Lowers one document.

    Attributes:
        problems: keywords that cannot be enforced, by place.
        conflicts: places where nothing is left, by place, with the reason.
    """

    def __init__(self, document: Document, layout: Layout) -> None:
        self.document = document
        self.layout = layout
        self.cases = Cases(document)
        self.admits = Admits(self.cases)
        self.disjoint = Disjoint(self.cases, self.admits)
        self.rules: dict[str, ir.Expr] = {}
        self.queue: deque[tuple[str, Goal, Shape]] = deque()
        self.goals: dict[Node | frozenset[Node], ir.Expr] = {}
        self.case_exprs: dict[Node | frozenset[Node], ir.Expr] = {}
        self.listed: dict[tuple[str, ...], ir.Expr] = {}
        self.problems: dict[str, Problem] = {}
        self.conflicts: dict[str, Problem] = {}
        self.needs: dict[str, list[str]] = {}  # rules that derive some text if these do

    def run(self) -> ir.Grammar:
        """The grammar of the document's root; branches that nothing completes are still in it."""
        start = self.goal((self.document.root,))
        while self.queue:
            name, case, shape = self.queue.popleft()
            self.rules[name] = self.containers(name, case, shape) if case else self.anything(name)
        self.check_exclusive()
        if isinstance(start, ir.Call):
            return ir.Grammar(self.rules, start.rule)
        return ir.Grammar({"start": start, **self.rules}, "start")

    def productive(self) -> set[str]:
        """Rules that derive some text, as far as can be seen without a walk over their expressions."""
        found: set[str] = set()
        for name in reversed(self.rules):  # callers mostly come before the rules that they call
            needs = self.needs.get(name)
            if needs is not None and found.issuperset(needs):
                found.add(name)
        return found

    # ------------------------------------------------------------ goals and cases

    def goal(self, goal: Goal) -> ir.Expr:
        """The expression of the values that satisfy some schemas together."""
        key: Node | frozenset[Node]
        if len(goal) == 1:
            key = goal[0]
            facts = key.facts or self.cases.facts(key)
            if facts in _TYPE_ALONE:
                return _TYPE_ALONE[facts]
            if not (facts.also or facts.either or facts.one):
                return self.case(goal if facts.limits else ())
        elif not goal:
            return self.case(())
        else:
            key = frozenset(goal)
        found = self.goals.get(key)
        if found is None:
            cases = self.cases.expand(goal)
            found = self.case(cases[0]) if len(cases) == 1 else ir.choice(*map(self.case, cases))
            self.goals[key] = found
        return found

    def case(self, case: Goal) -> ir.Expr:
        """Scalars of a case inline; a call of its rule for the rest."""
        key = case[0] if len(case) == 1 else frozenset(case)
        found = self.case_exprs.get(key)
        if found is None:
            found = self.case_exprs[key] = self._case(case, self.cases.shape(case))
        return found

    def _case(self, case: Goal, shape: Shape) -> ir.Expr:
        self.note_problems(shape)
        if not shape.types:
            self.conflict(case, _excluded(case))
            return ir.NEVER
        if shape.values is not None:
            return self.enumerated(case, shape)
        parts = self.scalars(case, shape) if case else [_NULL, _BOOLEAN, _NUMBER, _STRING]
        if shape.types & (f.ARRAY | f.OBJECT):
            name = self.name(case)
            self.rules[name] = ir.NEVER  # keeps the order of discovery; the body comes from the queue
            self.queue.append((name, case, shape))
            if len(self.rules) > MAX_RULES:
                raise ConstraintTooLarge(
                    "the schema has too many parts",
                    Problem(name, f"more than {MAX_RULES} rules by the time this place is reached"),
                    action="split the schema",
                )
            parts.append(ir.Call(name))
        return parts[0] if len(parts) == 1 else ir.choice(*parts)

    def name(self, case: Goal) -> str:
        """The name of a case's rule."""
        return case[0].pointer if len(case) == 1 else " & ".join(node.pointer for node in case) or "any value"

    def note_problems(self, shape: Shape) -> None:
        """Keeps the keywords of a shape that cannot be enforced and matter to it."""
        for types, problem in shape.problems:
            if types & shape.types:
                self.problems.setdefault(problem.place, problem)

    def conflict(self, case: Goal, reason: str) -> None:
        """Keeps why a case has no value."""
        name = self.name(case)
        self.conflicts.setdefault(name, Problem(name, reason))

    def check_exclusive(self) -> None:
        """``oneOf`` is lowered as any of its branches, which is right where no two have a value in common."""
        for node in list(self.cases.read_nodes):
            for branches in node.facts.one if node.facts else ():
                shared = self.overlap(branches)
                if shared is not None:
                    place = step(node.pointer, "oneOf")
                    reason = f"branches {shared[0]} and {shared[1]} may both hold; they cannot be told apart"
                    self.problems.setdefault(place, Problem(place, reason, node.value["oneOf"], "oneOf"))

    def overlap(self, branches: Sequence[Node]) -> tuple[int, int] | None:
        """The first two branches that are not proved to have no value in common."""
        if len(branches) > MAX_BRANCHES:
            return 0, MAX_BRANCHES
        for i, branch in enumerate(branches):
            for j in range(i):
                if not self.disjoint.empty((branches[j], branch)):
                    return j, i
        return None

    # ------------------------------------------------------------ scalars

    def enumerated(self, case: Goal, shape: Shape) -> ir.Expr:
        """The listed values that satisfy everything else, in one terminal."""
        try:
            return self._enumerated(case, shape)
        except RecursionError:
            raise ConstraintTooLarge(
                "a listed value is nested too deeply", Problem(self.name(case), "in enum or const")
            ) from None

    def _enumerated(self, case: Goal, shape: Shape) -> ir.Expr:
        plain = len(vars(shape)) == 1 or (len(vars(shape)) == 2 and shape.types == f.STRING)
        if plain and set(map(type, shape.values or ())) == {
            str
        }:  # any number of names, and nothing else is said
            key = tuple(shape.values or ())
            if key not in self.listed:
                self.listed[key] = ir.Terminal(ir.union(*map(strings.declared, key)))
            return self.listed[key]
        values = self.admits.listed(shape)
        if not values:
            self.conflict(case, "none of the listed values satisfies the other keywords")
            return ir.NEVER
        return ir.Terminal(ir.union(*(text_of(value, self.layout) for value in values)))

    def scalars(self, case: Goal, shape: Shape) -> list[ir.Expr]:
        """Null, booleans, numbers and strings of a shape."""
        parts: list[ir.Expr] = []
        if shape.types & f.NULL:
            parts.append(_NULL)
        if shape.types & f.BOOLEAN:
            parts.append(_BOOLEAN)
        if shape.types & f.NUMBER:
            parts.append(self.number(case, shape))
        if shape.types & f.STRING:
            parts.append(self.string(case, shape))
        return parts

    def number(self, case: Goal, shape: Shape) -> ir.Expr:
        """Numbers of a shape."""
        whole = not shape.types & f.FRACTION
        if shape.bounds.empty():
            self.conflict(case, f"no number is {shape.bounds}")
            return ir.NEVER
        if shape.multiples:
            regex = multiples_of(shape.multiples, shape.bounds, whole)
            if regex is None:
                for node in case:
                    if isinstance(node.value, dict) and "multipleOf" in node.value:
                        place = step(node.pointer, "multipleOf")
                        reason = "is supported for powers of ten, and where bounds leave few values"
                        self.problems[place] = Problem(place, reason, node.value["multipleOf"], "multipleOf")
                return _NUMBER
        elif whole:
            if shape.bounds == numbers.UNBOUNDED:
                return _INTEGER
            regex = numbers.integers(shape.bounds)
        elif shape.bounds == numbers.UNBOUNDED:
            return _NUMBER
        else:
            regex = numbers.numbers(shape.bounds)
        if isinstance(regex, ir.Nothing):
            self.conflict(
                case, f"no {'integer' if whole else 'number'} is {shape.bounds} and a multiple as asked"
            )
            return ir.NEVER
        return ir.Terminal(regex)

    def string(self, case: Goal, shape: Shape) -> ir.Expr:
        """Strings of a shape."""
        low, high = shape.min_length, shape.max_length
        if high is not None and low > high:
            self.conflict(case, f"no string is at least {low} and at most {high} characters long")
            return ir.NEVER
        if not shape.patterns:
            return _STRING if low == 0 and high is None else ir.Terminal(strings.bounded(low, high))
        least = max(pattern.shortest for pattern in shape.patterns)
        most = min((p.longest for p in shape.patterns if p.longest is not None), default=None)
        if (high is not None and least > high) or (most is not None and (most < low or most < least)):
            self.conflict(case, "no string has this length and matches every pattern and format")
            return ir.NEVER
        bodies = [pattern.body for pattern in shape.patterns]
        if low > least or (high is not None and (most is None or most > high)):
            bodies.append(ir.repeat(_CANONICAL_CHARACTER, low, high))
        regex = ir.concat(strings.QUOTE, ir.intersection(*bodies), strings.QUOTE)
        if isinstance(regex, ir.Nothing):
            self.conflict(case, "no string matches the pattern")
            return ir.NEVER
        return ir.Terminal(regex)

    # ------------------------------------------------------------ objects and arrays

    def containers(self, name: str, case: Goal, shape: Shape) -> ir.Expr:
        """Objects and arrays of a shape."""
        parts: list[ir.Expr] = []
        if shape.types & f.OBJECT:
            parts.append(self.object(name, case, shape))
        if shape.types & f.ARRAY:
            parts.append(self.array(case, shape))
            if shape.min_items == 0:
                self.needs[name] = []
        return parts[0] if len(parts) == 1 else ir.choice(*parts)

    def anything(self, name: str) -> ir.Expr:
        """Objects and arrays of which nothing is said: the same in every document."""
        found = _ANYTHING.get(self.layout)
        if found is None:
            found = _ANYTHING[self.layout] = self.containers(name, (), Shape())
        self.needs[name] = []
        return found

    def object(self, rule: str, case: Goal, shape: Shape) -> ir.Expr:
        """Objects of a shape."""
        place = case[0].pointer if case else "#"
        names = declared_names(shape)
        required = frozenset(shape.required)
        members: list[Member] = []
        needs: list[str] = []
        goal = self.goal
        for name in names:
            allowed = not shape.names or self.admits.goal(shape.names, name)
            value = goal(goal_of(shape, name)) if allowed else ir.NEVER
            asked = name in required
            if asked:
                if value is ir.NEVER:
                    self.conflict(case, f"the property {name!r} is required, and no value of it is allowed")
                    return ir.NEVER
                needs += _needed(value)
            members.append(Member(name, asked, value))
        low, high = shape.min_members, shape.max_members
        if high is not None and max(low, len(required)) > high:
            self.conflict(
                case, f"at most {high} properties are allowed, and at least {max(low, len(required))} asked"
            )
            return ir.NEVER
        others = [
            (self.allowed_keys(shape, keys), self.goal(goal))
            for keys, goal in key_classes(shape, names, place)
        ]
        try:
            expr = object_expr(members, others, low, high, self.layout)
            if low <= len(required):
                self.needs[rule] = needs
            return expr
        except CountedKeys:
            asking = [node for node in case if node.value.get("minProperties") == low]
            place = step(asking[0].pointer, "minProperties")
            reason = "asks for several properties that are not declared, and they must differ"
            self.problems[place] = Problem(place, reason, low, "minProperties")
            return ir.NEVER

    def allowed_keys(self, shape: Shape, keys: ir.Regex) -> ir.Regex:
        """Keys of a class that ``propertyNames`` allows."""
        for node in shape.names:
            options = []
            for case in self.cases.expand((node,)):
                names = self.cases.shape(case)
                self.note_problems(names)
                expr = self.enumerated_names(case, names)
                options.append(expr)
            keys = ir.intersection(keys, ir.union(*options))
        return keys

    def enumerated_names(self, case: Goal, shape: Shape) -> ir.Regex:
        """The JSON strings of a case."""
        if not shape.types & f.STRING:
            return ir.NOTHING
        if shape.values is not None:
            values = [v for v in self.admits.listed(shape) if isinstance(v, str)]
            return ir.union(*(strings.declared(value) for value in values))
        expr = self.string(case, shape)
        return expr.regex if isinstance(expr, ir.Terminal) else ir.NOTHING

    def array(self, case: Goal, shape: Shape) -> ir.Expr:
        """Arrays of a shape."""
        if shape.max_items is not None and shape.min_items > shape.max_items:
            self.conflict(case, f"at least {shape.min_items} and at most {shape.max_items} items are asked")
            return ir.NEVER
        size = max((len(items.prefix) for items in shape.items), default=0)
        if shape.max_items is not None:
            size = min(size, shape.max_items)

        def item(index: int) -> ir.Expr:
            return self.goal(tuple(dict.fromkeys(node for items in shape.items for node in items.on(index))))

        prefix = [item(i) for i in range(size)]
        expr = array_expr(prefix, lambda: item(size), shape.min_items, shape.max_items, self.layout)
        if expr is ir.NEVER:
            self.conflict(case, f"at least {shape.min_items} items are asked, and not as many are allowed")
        return expr


def _needed(value: ir.Expr) -> Iterable[str]:
    """A rule that must derive some text for a value to do so, if it takes one."""
    if isinstance(value, ir.Call):
        return (value.rule,)
    if isinstance(value, ir.Choice) and not any(isinstance(part, ir.Terminal) for part in value.parts):
        return _needed(value.parts[0])
    return ()


def _excluded(case: Goal) -> str:
    """Why no type of value is left."""
    if any(node.value is False for node in case):
        return "the schema false allows nothing"
    types = [json.dumps(node.value["type"]) for node in case if "type" in node.value]
    return f"the types {' and '.join(types)} exclude each other"
