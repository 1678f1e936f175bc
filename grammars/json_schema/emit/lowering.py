"""The work-list from schemas to rules: one rule for each case that may be an object or an array.

Scalars stand inline, so a small schema is few rules. A rule's body is lowered from a queue, never by recursion:
schemas may be nested as deep as they like.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from grammars import ir
from grammars.errors import ConstraintTooLarge, Problem
from grammars.json_schema.emit.contains import counted_array
from grammars.json_schema.emit.lazy_rules import PutOff
from grammars.json_schema.emit.negated_objects.obligations import Judge, obligations
from grammars.json_schema.emit.negated_objects.ordered import obliged_object
from grammars.json_schema.emit.objects import Member, array_expr, object_expr, unique_array_expr
from grammars.json_schema.emit.scalars import Languages
from grammars.json_schema.resolve.disjoint import Disjoint
from grammars.json_schema.resolve.expand import Cases
from grammars.json_schema.resolve.validate import Admits
from grammars.json_schema.source import constraints as f
from grammars.json_schema.source.constraints import Goal, Shape, type_of
from grammars.json_schema.source.document import Document, Node, step
from grammars.json_schema.source.members import declared_names, goal_of, key_classes
from grammars.json_schema.text import numbers, strings
from grammars.json_schema.text.excluded import WHOLE, numbers_without, spelled
from grammars.json_schema.text.literals import expr_of, key_of, text_of
from grammars.json_schema.text.multiple_of import multiples_of
from grammars.json_schema.text.numbers import decimal
from grammars.json_schema.text.punctuation import Layout
from grammars.json_schema.text.strings import other_keys
from grammars.transform.interleave import MAX_DIFFERENT
from grammars.transform.lazy_rules import Deferred

MANY_WAYS = 8
"""From so many ways to pick its alternatives on, scalars of a goal are one term instead of cases."""
MAX_RULES = 200_000
"""Most rules of one grammar."""
MAX_OBLIGED = 500
"""Most objects of which something must fail."""

_NULL = ir.terminal("null")
_TRUE, _FALSE = ir.terminal("true"), ir.terminal("false")
_BOOLEAN = ir.Terminal(ir.union(ir.literal("true"), ir.literal("false")))
_STRING, _NUMBER, _INTEGER = (
    ir.Terminal(strings.STRING),
    ir.Terminal(numbers.NUMBER),
    ir.Terminal(numbers.INTEGER),
)
_STRINGS = ("min_length", "max_length", "patterns")
_TYPE_ALONE = {
    f.TYPE_ALONE["null"]: _NULL,
    f.TYPE_ALONE["boolean"]: _BOOLEAN,
    f.TYPE_ALONE["string"]: _STRING,
    f.TYPE_ALONE["number"]: _NUMBER,
    f.TYPE_ALONE["integer"]: _INTEGER,
}
_ANYTHING: dict[tuple[Layout, bool], ir.Expr] = {}
_CANONICAL_CHARACTER = strings.CANONICAL.unit(ir.ANY_CHAR.ranges)


class Lowering:
    """Lowers one document.

    Attributes:
        problems: keywords that cannot be enforced, by place.
        conflicts: places where nothing is left, by place, with the reason.
    """

    def __init__(
        self, document: Document, layout: Layout, *, ordered: bool = True, closed: bool = False
    ) -> None:
        self.document = document
        self.layout = layout
        self.ordered = ordered  # members come in the order of the schema
        self.closed = closed  # no undeclared keys where members are declared and none says anything of others
        self.cases = Cases(document)
        self.admits = Admits(self.cases)
        self.disjoint = Disjoint(self.cases, self.admits)
        self.cases.apart = self.disjoint.apart
        self.strings = Languages(self.cases, self.string_texts, strings.STRING)
        self.numbers = Languages(self.cases, self.number_texts, numbers.NUMBER)
        self.rules: dict[str, ir.Expr] = {}
        self.queue: deque[tuple[str, Goal, Shape]] = deque()
        self.goals: dict[Node | frozenset[Node], ir.Expr] = {}
        self.case_exprs: dict[Node | frozenset[Node], ir.Expr] = {}
        self.listed: dict[tuple[str, ...], ir.Expr] = {}
        self.problems: dict[str, Problem] = {}
        self.conflicts: dict[str, Problem] = {}
        self.obliged_count = 0
        self.needs: dict[str, list[str]] = {}  # rules that derive some text if these do
        self.put_off: PutOff | None = None
        self.aside: dict[str, ir.Expr] = {}  # values that stand in bodies to come, and are not plain

    def run(self, put_off: PutOff | None = None) -> ir.Grammar:
        """The grammar of the document's root; branches that nothing completes are still in it.

        Args:
            put_off: keeps rules that may wait for their bodies. What a text begins with never waits.
        """
        start = self.goal((self.document.root,))
        self.put_off = put_off
        self.lower_queued()
        rules, name = self.rules, start.rule if isinstance(start, ir.Call) else "start"
        if not isinstance(start, ir.Call):
            rules = {"start": start, **rules}
        if put_off is None or not put_off.lengths:
            return ir.Grammar(rules, name)
        return ir.Grammar(Deferred(rules, put_off.lengths, self.body, self.aside), name)

    def lower_queued(self) -> None:
        """Lowers all that is due, until nothing is."""
        due: deque[Node] = deque()
        while self.queue or due:
            if self.queue:
                name, case, shape = self.queue.popleft()
                self.rules[name] = self.containers(name, case, shape) if case else self.anything(name)
            else:
                node = due.popleft()
                self.aside[f"values of {node.pointer}"] = self.goal((node,))
            if self.put_off is not None:
                due.extend(self.put_off.owed())

    def body(self, name: str) -> ir.Expr:
        """The body of a rule that was put off."""
        assert self.put_off is not None
        case, shape = self.put_off.waiting(name)
        if not case:
            return self.anything(name)
        body = self.containers(name, case, self.cases.shape(case) if shape is None else shape)
        if self.queue or any(self.put_off.owed()):
            raise RuntimeError(f"{name} was put off, and leads to what should not have been")
        return body

    def productive(self) -> set[str]:
        """Rules that derive some text, as far as can be seen without a walk over their expressions."""
        found: set[str] = set() if self.put_off is None else set(self.put_off.lengths)
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
            if key.facts is None and self.put_off is not None:
                call = self.goals.get(key) or self.put_off.call(key)
                if call is not None:
                    self.goals[key] = call
                    return call
            facts = key.facts or self.cases.facts(key)
            if facts in _TYPE_ALONE:
                return _TYPE_ALONE[facts]
            if facts.plain:
                return self.case(goal if facts.limits else ())
        elif not goal:
            return self.case(())
        else:
            key = frozenset(goal)
        found = self.goals.get(key) or self.combined(goal)
        if found is None:
            cases = self.cases.expand(goal)
            found = self.case(cases[0]) if len(cases) == 1 else ir.choice(*map(self.case, cases))
            if not cases:
                self.conflict(goal, "schemas that must hold together exclude each other")
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
            if self.put_off is None or not self.put_off.takes(name, case, shape):
                self.enqueue(name, case, shape)
            parts.append(ir.Call(name))
        return parts[0] if len(parts) == 1 else ir.choice(*parts)

    def enqueue(self, name: str, case: Goal, shape: Shape) -> None:
        """Makes the body of a rule due."""
        self.rules[name] = ir.NEVER  # keeps the order of discovery; the body comes from the queue
        self.queue.append((name, case, shape))
        if len(self.rules) > MAX_RULES:
            raise ConstraintTooLarge(
                "the schema has too many parts",
                Problem(name, f"more than {MAX_RULES} rules by the time this place is reached"),
                action="split the schema",
            )

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

    # ------------------------------------------------------------ scalars

    def combined(self, goal: Goal) -> ir.Expr | None:
        """A goal that only scalars satisfy, by one of many combinations of alternatives; None for other goals."""
        types, ways = self.cases.outline(goal)
        if types & (f.ARRAY | f.OBJECT) or ways < MANY_WAYS:
            return None
        values: list[Any] = [None] if types & f.NULL else []
        values += [True, False] if types & f.BOOLEAN else []
        texts = [text_of(value, self.layout) for value in values if self.admits.goal(goal, value)]
        texts += [self.strings.of(goal)] if types & f.STRING else []
        texts += [self.numbers.of(goal)] if types & f.NUMBER else []
        texts = [text for text in texts if not isinstance(text, ir.Nothing)]
        if not texts:
            self.conflict(goal, "schemas that must hold together exclude each other")
        return ir.choice(*map(ir.Terminal, texts))

    def string_texts(self, case: Goal, shape: Shape) -> ir.Regex:
        """The JSON strings of a shape."""
        self.note_problems(Shape(types=shape.types & f.STRING, problems=shape.problems))
        return self.enumerated_names(case, shape)

    def number_texts(self, case: Goal, shape: Shape) -> ir.Regex:
        """The numbers of a shape; those that are listed without exponent, too, as most others are."""
        self.note_problems(Shape(types=shape.types & f.NUMBER, problems=shape.problems))
        if not shape.types & f.NUMBER:
            return ir.NOTHING
        if shape.values is None:
            expr = self.number(case, shape)
            return expr.regex if isinstance(expr, ir.Terminal) else ir.NOTHING
        listed = [value for value in self.admits.listed(shape) if type(value) in (int, float)]
        exponents = [spelled(decimal(value)) for value in listed if "e" in json.dumps(value)]
        return ir.union(*(text_of(value, self.layout) for value in listed), *exponents)

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
        return self.listed_values(values)

    def listed_values(self, values: Sequence[Any]) -> ir.Expr:
        """The texts of values that stand in the schema."""
        if self.ordered:
            return ir.Terminal(ir.union(*(text_of(value, self.layout) for value in values)))
        return ir.choice(*(expr_of(value, self.layout) for value in values))

    def scalars(self, case: Goal, shape: Shape) -> list[ir.Expr]:
        """Null, booleans, numbers and strings of a shape."""
        parts: list[ir.Expr] = []
        if shape.types & f.NULL:
            parts.append(_NULL)
        if shape.types & f.BOOLEAN:
            for value, text in ((True, _TRUE), (False, _FALSE)):
                if not any(other is value for other in shape.excluded):
                    parts.append(text)
            if parts[-2:] == [_TRUE, _FALSE]:
                parts[-2:] = [_BOOLEAN]
        if shape.types & f.NUMBER:
            parts.append(self.number(case, shape))
        if shape.types & f.STRING:
            parts.append(self.string(case, shape))
        return parts

    def number(self, case: Goal, shape: Shape) -> ir.Expr:
        """Numbers of a shape."""
        excluded = [spelled(decimal(value)) for value in shape.excluded if type(value) in (int, float)]
        if not shape.types & f.INTEGER:
            excluded.append(WHOLE if self.document.draft.whole_floats else numbers.INTEGER)
        for number in shape.indivisible:
            excluded.append(self.multiples(case, (number,), numbers.UNBOUNDED, whole=False))
        if excluded:
            types = f.NUMBER if shape.types & f.FRACTION else f.INTEGER
            rest = self.number(case, Shape(types=types, bounds=shape.bounds, multiples=shape.multiples))
            return (
                ir.Terminal(numbers_without(rest.regex, excluded)) if isinstance(rest, ir.Terminal) else rest
            )
        whole = not shape.types & f.FRACTION
        if shape.bounds.empty():
            self.conflict(case, f"no number is {shape.bounds}")
            return ir.NEVER
        if shape.multiples:
            regex = self.multiples(case, shape.multiples, shape.bounds, whole)
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

    def multiples(
        self, case: Goal, steps: Sequence[Decimal], bounds: numbers.Bounds, whole: bool
    ) -> ir.Regex:
        """The multiples of all steps; what is wrong with them is told with its places."""
        try:
            return multiples_of(tuple(steps), bounds, whole)
        except ConstraintTooLarge as error:
            reason = error.problems[0].reason
            problems = [
                Problem(step(part.pointer, "multipleOf"), reason, part.value["multipleOf"], "multipleOf")
                for node in case
                for part in (node, node.denies)
                if part is not None and isinstance(part.value, dict) and "multipleOf" in part.value
            ]
            raise ConstraintTooLarge(error.summary, problems or error.problems, action=error.action) from None

    def string(self, case: Goal, shape: Shape) -> ir.Expr:
        """Strings of a shape."""
        excluded = [value for value in shape.excluded if isinstance(value, str)]
        if excluded:
            said = {name: vars(shape)[name] for name in _STRINGS if name in vars(shape)}
            rest = self.string(case, Shape(**said))
            if not isinstance(rest, ir.Terminal):
                return rest
            return ir.Terminal(ir.intersection(rest.regex, other_keys(excluded)))
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
            if shape.min_items == 0 and not shape.counted:
                self.needs[name] = []
        return parts[0] if len(parts) == 1 else ir.choice(*parts)

    def anything(self, name: str) -> ir.Expr:
        """Objects and arrays of which nothing is said: the same in every document."""
        found = _ANYTHING.get((self.layout, self.ordered))
        if found is None:
            found = _ANYTHING[self.layout, self.ordered] = self.containers(name, (), Shape())
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
        if shape.denied:
            return self.obliged(case, shape, place)
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
            (self.allowed_keys(shape.names, keys), self.goal(goal))
            for keys, goal in key_classes(shape, names, place)
            if goal or not (self.closed and shape.members)
        ]
        if others:
            self.check_different(case, "minProperties", low - len(required))
        expr = object_expr(members, others, low, high, self.layout, ordered=self.ordered)
        if low <= len(required):
            self.needs[rule] = needs
        return expr

    def obliged(self, case: Goal, shape: Shape, place: str) -> ir.Expr:
        """Objects of a shape in which something denied must fail."""
        self.obliged_count += 1
        if self.obliged_count > MAX_OBLIGED:
            raise ConstraintTooLarge(
                "too many conditions on objects",
                Problem(
                    place, f"more than {MAX_OBLIGED} objects with some by the time this place is reached"
                ),
                action="simplify oneOf, not or if",
            )
        judge = Judge(self.document, self.goal, self.disjoint.empty, self.admits.goal, self.allowed_keys)
        found = obligations(shape, judge, place)
        if found is None:
            self.conflict(case, "what is denied of objects always holds")
            return ir.NEVER
        return obliged_object(
            *found,
            shape.min_members,
            shape.max_members,
            self.layout,
            shape.denied[0].place,
            ordered=self.ordered,
        )

    def allowed_keys(self, names: Goal, keys: ir.Regex) -> ir.Regex:
        """Keys of a class that ``propertyNames`` allows."""
        for node in names:
            keys = ir.intersection(keys, self.strings.of((node,)))
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
        unique = shape.unique and (shape.max_items is None or shape.max_items > 1)
        if shape.counted:
            if unique:
                self.refuse_unique(case, "next to contains")
                return ir.NEVER
            expr = counted_array(shape, self.goal, self.disjoint.empty, self.layout)
            if expr is ir.NEVER:
                self.conflict(case, "no items are as many as are asked")
            return expr
        size = max((len(items.prefix) for items in shape.items), default=0)
        if shape.max_items is not None:
            size = min(size, shape.max_items)

        def item(index: int) -> ir.Expr:
            return self.goal(tuple(dict.fromkeys(node for items in shape.items for node in items.on(index))))

        if unique:
            different = self.unique_array(case, shape, size)
            if different is not None:
                return different
        prefix = [item(i) for i in range(size)]
        expr = array_expr(prefix, lambda: item(size), shape.min_items, shape.max_items, self.layout)
        if expr is ir.NEVER:
            self.conflict(case, f"at least {shape.min_items} items are asked, and not as many are allowed")
        return expr

    def unique_array(self, case: Goal, shape: Shape, size: int) -> ir.Expr | None:
        """Arrays of a shape whose items must differ; None, with a problem noted, where that cannot be told."""
        goal = tuple(dict.fromkeys(node for items in shape.items for node in items.on(size)))
        kinds = self.distinct_items(goal) if size == 0 else "next to a list of schemas for the first items"
        if isinstance(kinds, str):
            self.refuse_unique(case, kinds)
            return None
        listed, scalars = kinds
        if scalars:
            self.check_different(case, "minItems", shape.min_items)
        expr = unique_array_expr(listed, scalars, shape.min_items, shape.max_items, self.layout)
        if expr is ir.NEVER:
            self.conflict(case, f"{shape.min_items} different items are asked, and not as many are allowed")
        return expr

    def asked_at(self, case: Goal, keyword: str) -> str:
        """Where a case says a keyword, or its name."""
        asking = [node for node in case if isinstance(node.value, dict) and node.value.get(keyword)]
        return step(asking[0].pointer, keyword) if asking else self.name(case)

    def refuse_unique(self, case: Goal, where: str) -> None:
        """Notes that items of an array cannot be told apart."""
        place = self.asked_at(case, "uniqueItems")
        self.problems[place] = Problem(place, f"is not supported {where}", True, "uniqueItems")

    def check_different(self, case: Goal, keyword: str, count: int) -> None:
        """Refuses to look for too many values that all differ."""
        if count > MAX_DIFFERENT:
            place = self.asked_at(case, keyword)
            reason = f"asks for {count} that differ from each other; at most {MAX_DIFFERENT} are looked for"
            raise ConstraintTooLarge(
                "too many different items or keys are asked for",
                Problem(place, reason, count, keyword),
                action="ask for fewer",
            )

    def distinct_items(self, goal: Goal) -> tuple[list[ir.Expr], list[ir.Regex]] | str:
        """The values of a goal: each listed one, and languages of scalars; or why they cannot be told apart."""
        values: dict[Hashable, list[Any]] = {}
        languages: dict[int, list[ir.Regex]] = {f.STRING: [], f.NUMBER: []}
        for case in self.cases.expand(goal):
            shape = self.cases.shape(case)
            self.note_problems(shape)
            if shape.values is not None:
                found = self.admits.listed(shape)
            elif shape.types & (f.ARRAY | f.OBJECT):
                return "for items that are arrays or objects, unless they are listed"
            else:
                found = [None] if shape.types & f.NULL else []
                found += [True, False] if shape.types & f.BOOLEAN else []
                for kind, lower in ((f.NUMBER, self.number), (f.STRING, self.string)):
                    if shape.types & kind and isinstance(expr := lower(case, shape), ir.Terminal):
                        languages[kind].append(expr.regex)
            for value in found:
                values.setdefault(key_of(value), []).append(value)
        listed: list[ir.Expr] = []
        for equal in values.values():
            kind = type_of(equal[0], whole_floats=True)
            language = languages[f.STRING if kind == f.STRING else f.NUMBER] if kind & _SCALAR else []
            if language:  # more of the same type may come: they are compared as texts
                language += [text_of(value, self.layout) for value in equal]
            else:
                listed.append(self.listed_values(equal))
        scalars = []
        for kind, language in languages.items():
            if language:
                regex = ir.union(*language)
                plain = regex is numbers.INTEGER or kind == f.STRING
                scalars.append(regex if plain else ir.intersection(regex, numbers.WITHOUT_EXPONENT))
        return listed, scalars


_SCALAR = f.STRING | f.NUMBER


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
    if len(types) > 1:
        return f"the types {' and '.join(types)} exclude each other"
    return "what must hold here and what must not exclude each other"
