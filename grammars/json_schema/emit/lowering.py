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
from grammars.json_schema.emit.contains import contains_array_expr
from grammars.json_schema.emit.lazy_rules import LazySchemaRules
from grammars.json_schema.emit.negated_objects.obligations import SchemaOracle, collect_obligations
from grammars.json_schema.emit.negated_objects.ordered import object_with_obligations
from grammars.json_schema.emit.objects import PropertyMember, array_expr, object_expr, unique_array_expr
from grammars.json_schema.emit.scalars import ScalarLanguages
from grammars.json_schema.resolve.disjoint import EmptinessProver
from grammars.json_schema.resolve.expand import DnfExpansion
from grammars.json_schema.resolve.validate import InstanceValidator
from grammars.json_schema.source import constraints as f
from grammars.json_schema.source.constraints import Conjunction, TypeConstraints, type_bit_of
from grammars.json_schema.source.document import SchemaDocument, SchemaNode, child_pointer
from grammars.json_schema.source.members import declared_names, key_classes, member_schemas
from grammars.json_schema.text import numbers, strings
from grammars.json_schema.text.excluded import INTEGRAL_NUMBER, decimal_spellings, exclude_numbers
from grammars.json_schema.text.literals import equality_key, value_expr, value_regex
from grammars.json_schema.text.multiple_of import multiples_of
from grammars.json_schema.text.numbers import decimal
from grammars.json_schema.text.punctuation import JsonPunctuation
from grammars.json_schema.text.strings import strings_excluding
from grammars.transform.interleave import MAX_DISTINCT_ENTRIES
from grammars.transform.lazy_rules import LazyRules

SCALAR_TERM_THRESHOLD = 8
"""From so many ways to pick its alternatives on, scalars of a goal are one term instead of cases."""
MAX_RULES = 200_000
"""Most rules of one grammar."""
MAX_NEGATED_OBJECTS = 500
"""Most objects of which something must fail."""

_NULL = ir.terminal("null")
_TRUE, _FALSE = ir.terminal("true"), ir.terminal("false")
_BOOLEAN = ir.Terminal(ir.union(ir.literal("true"), ir.literal("false")))
_STRING, _NUMBER, _INTEGER = (
    ir.Terminal(strings.ANY_STRING),
    ir.Terminal(numbers.ANY_NUMBER),
    ir.Terminal(numbers.ANY_INTEGER),
)
_STRINGS = ("min_length", "max_length", "patterns")
_TYPE_ALONE = {
    f.SINGLE_TYPE["null"]: _NULL,
    f.SINGLE_TYPE["boolean"]: _BOOLEAN,
    f.SINGLE_TYPE["string"]: _STRING,
    f.SINGLE_TYPE["number"]: _NUMBER,
    f.SINGLE_TYPE["integer"]: _INTEGER,
}
_ANYTHING: dict[tuple[JsonPunctuation, bool], ir.Expr] = {}
_CANONICAL_CHARACTER = strings.CANONICAL_ESCAPES.unit(ir.ANY_CHAR.ranges)


class SchemaLowering:
    """Lowers one document.

    Attributes:
        problems: keywords that cannot be enforced, by place.
        conflicts: places where nothing is left, by place, with the reason.
    """

    def __init__(
        self, document: SchemaDocument, layout: JsonPunctuation, *, ordered: bool = True, closed: bool = False
    ) -> None:
        self.document = document
        self.punctuation = layout
        self.ordered_members = ordered  # members come in the order of the schema
        self.closed_objects = (
            closed  # no undeclared keys where members are declared and none says anything of others
        )
        self.expansion = DnfExpansion(document)
        self.instance_validator = InstanceValidator(self.expansion)
        self.emptiness = EmptinessProver(self.expansion, self.instance_validator)
        self.expansion.are_disjoint = self.emptiness.apart
        self.strings = ScalarLanguages(self.expansion, self.string_regex, strings.ANY_STRING)
        self.numbers = ScalarLanguages(self.expansion, self.number_regex, numbers.ANY_NUMBER)
        self.rules: dict[str, ir.Expr] = {}
        self.queue: deque[tuple[str, Conjunction, TypeConstraints]] = deque()
        self.conjunction_exprs: dict[SchemaNode | frozenset[SchemaNode], ir.Expr] = {}
        self.disjunct_exprs: dict[SchemaNode | frozenset[SchemaNode], ir.Expr] = {}
        self.enum_exprs: dict[tuple[str, ...], ir.Expr] = {}
        self.problems: dict[str, Problem] = {}
        self.conflicts: dict[str, Problem] = {}
        self.negated_object_count = 0
        self.rule_dependencies: dict[str, list[str]] = {}  # rules that derive some text if these do
        self.lazy_rules: LazySchemaRules | None = None
        self.eager_exprs: dict[str, ir.Expr] = {}  # values that stand in bodies to come, and are not plain

    def run(self, put_off: LazySchemaRules | None = None) -> ir.Grammar:
        """The grammar of the document's root; branches that nothing completes are still in it.

        Args:
            put_off: keeps rules that may wait for their bodies. What a text begins with never waits.
        """
        start = self.conjunction_expr((self.document.root,))
        self.lazy_rules = put_off
        self.lower_queued()
        rules, name = self.rules, start.rule if isinstance(start, ir.Call) else "start"
        if not isinstance(start, ir.Call):
            rules = {"start": start, **rules}
        if put_off is None or not put_off.lengths:
            return ir.Grammar(rules, name)
        return ir.Grammar(LazyRules(rules, put_off.lengths, self.deferred_body, self.eager_exprs), name)

    def lower_queued(self) -> None:
        """Lowers all that is due, until nothing is."""
        due: deque[SchemaNode] = deque()
        while self.queue or due:
            if self.queue:
                name, case, shape = self.queue.popleft()
                self.rules[name] = self.containers(name, case, shape) if case else self.anything(name)
            else:
                node = due.popleft()
                self.eager_exprs[f"values of {node.pointer}"] = self.conjunction_expr((node,))
            if self.lazy_rules is not None:
                due.extend(self.lazy_rules.pending_eager())

    def deferred_body(self, name: str) -> ir.Expr:
        """The body of a rule that was put off."""
        assert self.lazy_rules is not None
        case, shape = self.lazy_rules.deferred_disjunct(name)
        if not case:
            return self.anything(name)
        body = self.containers(name, case, self.expansion.constraints_of(case) if shape is None else shape)
        if self.queue or any(self.lazy_rules.pending_eager()):
            raise RuntimeError(f"{name} was put off, and leads to what should not have been")
        return body

    def productive(self) -> set[str]:
        """Rules that derive some text, as far as can be seen without a walk over their expressions."""
        found: set[str] = set() if self.lazy_rules is None else set(self.lazy_rules.lengths)
        for name in reversed(self.rules):  # callers mostly come before the rules that they call
            needs = self.rule_dependencies.get(name)
            if needs is not None and found.issuperset(needs):
                found.add(name)
        return found

    # ------------------------------------------------------------ goals and cases

    def conjunction_expr(self, goal: Conjunction) -> ir.Expr:
        """The expression of the values that satisfy some schemas together."""
        key: SchemaNode | frozenset[SchemaNode]
        if len(goal) == 1:
            key = goal[0]
            if key.parsed is None and self.lazy_rules is not None:
                call = self.conjunction_exprs.get(key) or self.lazy_rules.deferred_call(key)
                if call is not None:
                    self.conjunction_exprs[key] = call
                    return call
            facts = key.parsed or self.expansion.parse_schema(key)
            if facts in _TYPE_ALONE:
                return _TYPE_ALONE[facts]
            if facts.is_flat:
                return self.disjunct_expr(goal if facts.limits else ())
        elif not goal:
            return self.disjunct_expr(())
        else:
            key = frozenset(goal)
        found = self.conjunction_exprs.get(key) or self.scalar_term(goal)
        if found is None:
            cases = self.expansion.expand(goal)
            found = (
                self.disjunct_expr(cases[0])
                if len(cases) == 1
                else ir.choice(*map(self.disjunct_expr, cases))
            )
            if not cases:
                self.conflict(goal, "schemas that must hold together exclude each other")
        self.conjunction_exprs[key] = found
        return found

    def disjunct_expr(self, case: Conjunction) -> ir.Expr:
        """Scalars of a case inline; a call of its rule for the rest."""
        key = case[0] if len(case) == 1 else frozenset(case)
        found = self.disjunct_exprs.get(key)
        if found is None:
            found = self.disjunct_exprs[key] = self._case(case, self.expansion.constraints_of(case))
        return found

    def _case(self, case: Conjunction, shape: TypeConstraints) -> ir.Expr:
        self.note_unsupported(shape)
        if not shape.types:
            self.conflict(case, _excluded(case))
            return ir.EMPTY_LANGUAGE
        if shape.enum_values is not None:
            return self.enum_expr(case, shape)
        parts = self.scalars(case, shape) if case else [_NULL, _BOOLEAN, _NUMBER, _STRING]
        if shape.types & (f.ARRAY | f.OBJECT):
            name = self.name(case)
            if self.lazy_rules is None or not self.lazy_rules.defer(name, case, shape):
                self.enqueue(name, case, shape)
            parts.append(ir.Call(name))
        return parts[0] if len(parts) == 1 else ir.choice(*parts)

    def enqueue(self, name: str, case: Conjunction, shape: TypeConstraints) -> None:
        """Makes the body of a rule due."""
        self.rules[name] = ir.EMPTY_LANGUAGE  # keeps the order of discovery; the body comes from the queue
        self.queue.append((name, case, shape))
        if len(self.rules) > MAX_RULES:
            raise ConstraintTooLarge(
                "the schema has too many parts",
                Problem(name, f"more than {MAX_RULES} rules by the time this place is reached"),
                action="split the schema",
            )

    def name(self, case: Conjunction) -> str:
        """The name of a case's rule."""
        return case[0].pointer if len(case) == 1 else " & ".join(node.pointer for node in case) or "any value"

    def note_unsupported(self, shape: TypeConstraints) -> None:
        """Keeps the keywords of a shape that cannot be enforced and matter to it."""
        for types, problem in shape.unsupported_keywords:
            if types & shape.types:
                self.problems.setdefault(problem.place, problem)

    def conflict(self, case: Conjunction, reason: str) -> None:
        """Keeps why a case has no value."""
        name = self.name(case)
        self.conflicts.setdefault(name, Problem(name, reason))

    # ------------------------------------------------------------ scalars

    def scalar_term(self, goal: Conjunction) -> ir.Expr | None:
        """A goal that only scalars satisfy, by one of many combinations of alternatives; None for other goals."""
        types, ways = self.expansion.types_and_branches(goal)
        if types & (f.ARRAY | f.OBJECT) or ways < SCALAR_TERM_THRESHOLD:
            return None
        values: list[Any] = [None] if types & f.NULL else []
        values += [True, False] if types & f.BOOLEAN else []
        texts = [
            value_regex(value, self.punctuation)
            for value in values
            if self.instance_validator.satisfies_all(goal, value)
        ]
        texts += [self.strings.of(goal)] if types & f.STRING else []
        texts += [self.numbers.of(goal)] if types & f.NUMBER else []
        texts = [text for text in texts if not isinstance(text, ir.EmptySet)]
        if not texts:
            self.conflict(goal, "schemas that must hold together exclude each other")
        return ir.choice(*map(ir.Terminal, texts))

    def string_regex(self, case: Conjunction, shape: TypeConstraints) -> ir.Regex:
        """The JSON strings of a shape."""
        self.note_unsupported(
            TypeConstraints(types=shape.types & f.STRING, unsupported_keywords=shape.unsupported_keywords)
        )
        return self.enum_string_regex(case, shape)

    def number_regex(self, case: Conjunction, shape: TypeConstraints) -> ir.Regex:
        """The numbers of a shape; those that are listed without exponent, too, as most others are."""
        self.note_unsupported(
            TypeConstraints(types=shape.types & f.NUMBER, unsupported_keywords=shape.unsupported_keywords)
        )
        if not shape.types & f.NUMBER:
            return ir.EMPTY_SET
        if shape.enum_values is None:
            expr = self.number(case, shape)
            return expr.regex if isinstance(expr, ir.Terminal) else ir.EMPTY_SET
        listed = [value for value in self.instance_validator.listed(shape) if type(value) in (int, float)]
        exponents = [decimal_spellings(decimal(value)) for value in listed if "e" in json.dumps(value)]
        return ir.union(*(value_regex(value, self.punctuation) for value in listed), *exponents)

    def enum_expr(self, case: Conjunction, shape: TypeConstraints) -> ir.Expr:
        """The listed values that satisfy everything else, in one terminal."""
        try:
            return self._enumerated(case, shape)
        except RecursionError:
            raise ConstraintTooLarge(
                "a listed value is nested too deeply", Problem(self.name(case), "in enum or const")
            ) from None

    def _enumerated(self, case: Conjunction, shape: TypeConstraints) -> ir.Expr:
        plain = len(vars(shape)) == 1 or (len(vars(shape)) == 2 and shape.types == f.STRING)
        if plain and set(map(type, shape.enum_values or ())) == {
            str
        }:  # any number of names, and nothing else is said
            key = tuple(shape.enum_values or ())
            if key not in self.enum_exprs:
                self.enum_exprs[key] = ir.Terminal(ir.union(*map(strings.encode_json_string, key)))
            return self.enum_exprs[key]
        values = self.instance_validator.listed(shape)
        if not values:
            self.conflict(case, "none of the listed values satisfies the other keywords")
            return ir.EMPTY_LANGUAGE
        return self.enum_values_expr(values)

    def enum_values_expr(self, values: Sequence[Any]) -> ir.Expr:
        """The texts of values that stand in the schema."""
        if self.ordered_members:
            return ir.Terminal(ir.union(*(value_regex(value, self.punctuation) for value in values)))
        return ir.choice(*(value_expr(value, self.punctuation) for value in values))

    def scalars(self, case: Conjunction, shape: TypeConstraints) -> list[ir.Expr]:
        """Null, booleans, numbers and strings of a shape."""
        parts: list[ir.Expr] = []
        if shape.types & f.NULL:
            parts.append(_NULL)
        if shape.types & f.BOOLEAN:
            for value, text in ((True, _TRUE), (False, _FALSE)):
                if not any(other is value for other in shape.excluded_values):
                    parts.append(text)
            if parts[-2:] == [_TRUE, _FALSE]:
                parts[-2:] = [_BOOLEAN]
        if shape.types & f.NUMBER:
            parts.append(self.number(case, shape))
        if shape.types & f.STRING:
            parts.append(self.string(case, shape))
        return parts

    def number(self, case: Conjunction, shape: TypeConstraints) -> ir.Expr:
        """Numbers of a shape."""
        excluded = [
            decimal_spellings(decimal(value))
            for value in shape.excluded_values
            if type(value) in (int, float)
        ]
        if not shape.types & f.INTEGER:
            excluded.append(INTEGRAL_NUMBER if self.document.dialect.integral_floats else numbers.ANY_INTEGER)
        for number in shape.non_divisors:
            excluded.append(self.multiples(case, (number,), numbers.UNBOUNDED, whole=False))
        if excluded:
            types = f.NUMBER if shape.types & f.NON_INTEGER else f.INTEGER
            rest = self.number(
                case, TypeConstraints(types=types, bounds=shape.bounds, divisors=shape.divisors)
            )
            return (
                ir.Terminal(exclude_numbers(rest.regex, excluded)) if isinstance(rest, ir.Terminal) else rest
            )
        whole = not shape.types & f.NON_INTEGER
        if shape.bounds.empty():
            self.conflict(case, f"no number is {shape.bounds}")
            return ir.EMPTY_LANGUAGE
        if shape.divisors:
            regex = self.multiples(case, shape.divisors, shape.bounds, whole)
        elif whole:
            if shape.bounds == numbers.UNBOUNDED:
                return _INTEGER
            regex = numbers.integers(shape.bounds)
        elif shape.bounds == numbers.UNBOUNDED:
            return _NUMBER
        else:
            regex = numbers.numbers_between(shape.bounds)
        if isinstance(regex, ir.EmptySet):
            self.conflict(
                case, f"no {'integer' if whole else 'number'} is {shape.bounds} and a multiple as asked"
            )
            return ir.EMPTY_LANGUAGE
        return ir.Terminal(regex)

    def multiples(
        self, case: Conjunction, steps: Sequence[Decimal], bounds: numbers.Bounds, whole: bool
    ) -> ir.Regex:
        """The multiples of all steps; what is wrong with them is told with its places."""
        try:
            return multiples_of(tuple(steps), bounds, whole)
        except ConstraintTooLarge as error:
            reason = error.problems[0].reason
            problems = [
                Problem(
                    child_pointer(part.pointer, "multipleOf"), reason, part.value["multipleOf"], "multipleOf"
                )
                for node in case
                for part in (node, node.negates)
                if part is not None and isinstance(part.value, dict) and "multipleOf" in part.value
            ]
            raise ConstraintTooLarge(error.summary, problems or error.problems, action=error.action) from None

    def string(self, case: Conjunction, shape: TypeConstraints) -> ir.Expr:
        """Strings of a shape."""
        excluded = [value for value in shape.excluded_values if isinstance(value, str)]
        if excluded:
            said = {name: vars(shape)[name] for name in _STRINGS if name in vars(shape)}
            rest = self.string(case, TypeConstraints(**said))
            if not isinstance(rest, ir.Terminal):
                return rest
            return ir.Terminal(ir.intersection(rest.regex, strings_excluding(excluded)))
        low, high = shape.min_length, shape.max_length
        if high is not None and low > high:
            self.conflict(case, f"no string is at least {low} and at most {high} characters long")
            return ir.EMPTY_LANGUAGE
        if not shape.patterns:
            return _STRING if low == 0 and high is None else ir.Terminal(strings.string_of_length(low, high))
        least = max(pattern.shortest for pattern in shape.patterns)
        most = min((p.longest for p in shape.patterns if p.longest is not None), default=None)
        if (high is not None and least > high) or (most is not None and (most < low or most < least)):
            self.conflict(case, "no string has this length and matches every pattern and format")
            return ir.EMPTY_LANGUAGE
        bodies = [pattern.json_body for pattern in shape.patterns]
        if low > least or (high is not None and (most is None or most > high)):
            bodies.append(ir.repeat(_CANONICAL_CHARACTER, low, high))
        regex = ir.concat(strings.QUOTE, ir.intersection(*bodies), strings.QUOTE)
        if isinstance(regex, ir.EmptySet):
            self.conflict(case, "no string matches the pattern")
            return ir.EMPTY_LANGUAGE
        return ir.Terminal(regex)

    # ------------------------------------------------------------ objects and arrays

    def containers(self, name: str, case: Conjunction, shape: TypeConstraints) -> ir.Expr:
        """Objects and arrays of a shape."""
        parts: list[ir.Expr] = []
        if shape.types & f.OBJECT:
            parts.append(self.object(name, case, shape))
        if shape.types & f.ARRAY:
            parts.append(self.array(case, shape))
            if shape.min_items == 0 and not shape.contains_constraints:
                self.rule_dependencies[name] = []
        return parts[0] if len(parts) == 1 else ir.choice(*parts)

    def anything(self, name: str) -> ir.Expr:
        """Objects and arrays of which nothing is said: the same in every document."""
        found = _ANYTHING.get((self.punctuation, self.ordered_members))
        if found is None:
            found = _ANYTHING[self.punctuation, self.ordered_members] = self.containers(
                name, (), TypeConstraints()
            )
        self.rule_dependencies[name] = []
        return found

    def object(self, rule: str, case: Conjunction, shape: TypeConstraints) -> ir.Expr:
        """Objects of a shape."""
        place = case[0].pointer if case else "#"
        names = declared_names(shape)
        required = frozenset(shape.required)
        members: list[PropertyMember] = []
        needs: list[str] = []
        goal = self.conjunction_expr
        if shape.negated_objects:
            return self.negated_object_expr(case, shape, place)
        for name in names:
            allowed = not shape.property_names or self.instance_validator.satisfies_all(
                shape.property_names, name
            )
            value = goal(member_schemas(shape, name)) if allowed else ir.EMPTY_LANGUAGE
            asked = name in required
            if asked:
                if value is ir.EMPTY_LANGUAGE:
                    self.conflict(case, f"the property {name!r} is required, and no value of it is allowed")
                    return ir.EMPTY_LANGUAGE
                needs += _needed(value)
            members.append(PropertyMember(name, asked, value))
        low, high = shape.min_properties, shape.max_properties
        if high is not None and max(low, len(required)) > high:
            self.conflict(
                case, f"at most {high} properties are allowed, and at least {max(low, len(required))} asked"
            )
            return ir.EMPTY_LANGUAGE
        others = [
            (self.allowed_keys(shape.property_names, keys), self.conjunction_expr(goal))
            for keys, goal in key_classes(shape, names, place)
            if goal or not (self.closed_objects and shape.members)
        ]
        if others:
            self.check_distinct_count(case, "minProperties", low - len(required))
        expr = object_expr(members, others, low, high, self.punctuation, ordered=self.ordered_members)
        if low <= len(required):
            self.rule_dependencies[rule] = needs
        return expr

    def negated_object_expr(self, case: Conjunction, shape: TypeConstraints, place: str) -> ir.Expr:
        """Objects of a shape in which something denied must fail."""
        self.negated_object_count += 1
        if self.negated_object_count > MAX_NEGATED_OBJECTS:
            raise ConstraintTooLarge(
                "too many conditions on objects",
                Problem(
                    place,
                    f"more than {MAX_NEGATED_OBJECTS} objects with some by the time this place is reached",
                ),
                action="simplify oneOf, not or if",
            )
        judge = SchemaOracle(
            self.document,
            self.conjunction_expr,
            self.emptiness.is_empty,
            self.instance_validator.satisfies_all,
            self.allowed_keys,
        )
        found = collect_obligations(shape, judge, place)
        if found is None:
            self.conflict(case, "what is denied of objects always holds")
            return ir.EMPTY_LANGUAGE
        return object_with_obligations(
            *found,
            shape.min_properties,
            shape.max_properties,
            self.punctuation,
            shape.negated_objects[0].place,
            ordered=self.ordered_members,
        )

    def allowed_keys(self, names: Conjunction, keys: ir.Regex) -> ir.Regex:
        """Keys of a class that ``propertyNames`` allows."""
        for node in names:
            keys = ir.intersection(keys, self.strings.of((node,)))
        return keys

    def enum_string_regex(self, case: Conjunction, shape: TypeConstraints) -> ir.Regex:
        """The JSON strings of a case."""
        if not shape.types & f.STRING:
            return ir.EMPTY_SET
        if shape.enum_values is not None:
            values = [v for v in self.instance_validator.listed(shape) if isinstance(v, str)]
            return ir.union(*(strings.encode_json_string(value) for value in values))
        expr = self.string(case, shape)
        return expr.regex if isinstance(expr, ir.Terminal) else ir.EMPTY_SET

    def array(self, case: Conjunction, shape: TypeConstraints) -> ir.Expr:
        """Arrays of a shape."""
        if shape.max_items is not None and shape.min_items > shape.max_items:
            self.conflict(case, f"at least {shape.min_items} and at most {shape.max_items} items are asked")
            return ir.EMPTY_LANGUAGE
        unique = shape.unique_items and (shape.max_items is None or shape.max_items > 1)
        if shape.contains_constraints:
            if unique:
                self.note_unique_unsupported(case, "next to contains")
                return ir.EMPTY_LANGUAGE
            expr = contains_array_expr(
                shape, self.conjunction_expr, self.emptiness.is_empty, self.punctuation
            )
            if expr is ir.EMPTY_LANGUAGE:
                self.conflict(case, "no items are as many as are asked")
            return expr
        size = max((len(items.prefix) for items in shape.items), default=0)
        if shape.max_items is not None:
            size = min(size, shape.max_items)

        def item(index: int) -> ir.Expr:
            return self.conjunction_expr(
                tuple(dict.fromkeys(node for items in shape.items for node in items.schemas_at(index)))
            )

        if unique:
            different = self.unique_array(case, shape, size)
            if different is not None:
                return different
        prefix = [item(i) for i in range(size)]
        expr = array_expr(prefix, lambda: item(size), shape.min_items, shape.max_items, self.punctuation)
        if expr is ir.EMPTY_LANGUAGE:
            self.conflict(case, f"at least {shape.min_items} items are asked, and not as many are allowed")
        return expr

    def unique_array(self, case: Conjunction, shape: TypeConstraints, size: int) -> ir.Expr | None:
        """Arrays of a shape whose items must differ; None, with a problem noted, where that cannot be told."""
        goal = tuple(dict.fromkeys(node for items in shape.items for node in items.schemas_at(size)))
        kinds = self.distinct_items(goal) if size == 0 else "next to a list of schemas for the first items"
        if isinstance(kinds, str):
            self.note_unique_unsupported(case, kinds)
            return None
        listed, scalars = kinds
        if scalars:
            self.check_distinct_count(case, "minItems", shape.min_items)
        expr = unique_array_expr(listed, scalars, shape.min_items, shape.max_items, self.punctuation)
        if expr is ir.EMPTY_LANGUAGE:
            self.conflict(case, f"{shape.min_items} different items are asked, and not as many are allowed")
        return expr

    def keyword_pointer(self, case: Conjunction, keyword: str) -> str:
        """Where a case says a keyword, or its name."""
        asking = [node for node in case if isinstance(node.value, dict) and node.value.get(keyword)]
        return child_pointer(asking[0].pointer, keyword) if asking else self.name(case)

    def note_unique_unsupported(self, case: Conjunction, where: str) -> None:
        """Notes that items of an array cannot be told apart."""
        place = self.keyword_pointer(case, "uniqueItems")
        self.problems[place] = Problem(place, f"is not supported {where}", True, "uniqueItems")

    def check_distinct_count(self, case: Conjunction, keyword: str, count: int) -> None:
        """Refuses to look for too many values that all differ."""
        if count > MAX_DISTINCT_ENTRIES:
            place = self.keyword_pointer(case, keyword)
            reason = (
                f"asks for {count} that differ from each other; at most {MAX_DISTINCT_ENTRIES} are looked for"
            )
            raise ConstraintTooLarge(
                "too many different items or keys are asked for",
                Problem(place, reason, count, keyword),
                action="ask for fewer",
            )

    def distinct_items(self, goal: Conjunction) -> tuple[list[ir.Expr], list[ir.Regex]] | str:
        """The values of a goal: each listed one, and languages of scalars; or why they cannot be told apart."""
        values: dict[Hashable, list[Any]] = {}
        languages: dict[int, list[ir.Regex]] = {f.STRING: [], f.NUMBER: []}
        for case in self.expansion.expand(goal):
            shape = self.expansion.constraints_of(case)
            self.note_unsupported(shape)
            if shape.enum_values is not None:
                found = self.instance_validator.listed(shape)
            elif shape.types & (f.ARRAY | f.OBJECT):
                return "for items that are arrays or objects, unless they are listed"
            else:
                found = [None] if shape.types & f.NULL else []
                found += [True, False] if shape.types & f.BOOLEAN else []
                for kind, lower in ((f.NUMBER, self.number), (f.STRING, self.string)):
                    if shape.types & kind and isinstance(expr := lower(case, shape), ir.Terminal):
                        languages[kind].append(expr.regex)
            for value in found:
                values.setdefault(equality_key(value), []).append(value)
        listed: list[ir.Expr] = []
        for equal in values.values():
            kind = type_bit_of(equal[0], whole_floats=True)
            language = languages[f.STRING if kind == f.STRING else f.NUMBER] if kind & _SCALAR else []
            if language:  # more of the same type may come: they are compared as texts
                language += [value_regex(value, self.punctuation) for value in equal]
            else:
                listed.append(self.enum_values_expr(equal))
        scalars = []
        for kind, language in languages.items():
            if language:
                regex = ir.union(*language)
                plain = regex is numbers.ANY_INTEGER or kind == f.STRING
                scalars.append(regex if plain else ir.intersection(regex, numbers.DECIMAL_CHARACTERS))
        return listed, scalars


_SCALAR = f.STRING | f.NUMBER


def _needed(value: ir.Expr) -> Iterable[str]:
    """A rule that must derive some text for a value to do so, if it takes one."""
    if isinstance(value, ir.Call):
        return (value.rule,)
    if isinstance(value, ir.Choice) and not any(isinstance(part, ir.Terminal) for part in value.parts):
        return _needed(value.parts[0])
    return ()


def _excluded(case: Conjunction) -> str:
    """Why no type of value is left."""
    if any(node.value is False for node in case):
        return "the schema false allows nothing"
    types = [json.dumps(node.value["type"]) for node in case if "type" in node.value]
    if len(types) > 1:
        return f"the types {' and '.join(types)} exclude each other"
    return "what must hold here and what must not exclude each other"
