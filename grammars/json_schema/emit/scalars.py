"""Null, booleans, numbers, strings and enumerated values: from constraints to terminals.

What schemas say about a string, or about a number, is a regular language, and so is every Boolean combination of such
schemas. `ScalarLanguages` therefore computes scalars under many alternatives as one regex of unions and intersections,
where `DnfExpansion` would multiply the alternatives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.emit.context import Context, rule_name
from constrained.grammars.json_schema.resolve.expand import DnfExpansion
from constrained.grammars.json_schema.resolve.negate import parse_schema
from constrained.grammars.json_schema.resolve.validate import InstanceValidator
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import Conjunction, TypeConstraints
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.json_schema.text import floats, numbers, strings
from constrained.grammars.json_schema.text.literals import value_expr, value_regex, values_regex
from constrained.grammars.json_schema.text.multiple_of import (
    UnsupportedMultiples,
    decimal_places,
    multiples_of,
    numbers_beyond,
)
from constrained.grammars.json_schema.text.numbers import (
    DECIMAL_NOTATION,
    decimal,
    decimal_spellings,
    exclude_numbers,
)
from constrained.grammars.json_schema.text.patterns import ENDLESS_DIGITS
from constrained.grammars.json_schema.text.strings import strings_excluding

SCALAR_TERM_THRESHOLD = 8
"""Combinations of alternatives from which on the scalars of a conjunction are one term instead of disjuncts."""
MULTIPLE_DISJUNCTS = 100
"""Combinations of alternatives up to which numbers with ``multipleOf`` are a union of disjuncts."""

NULL = ir.terminal("null")
_TRUE, _FALSE = ir.terminal("true"), ir.terminal("false")
BOOLEAN = ir.Terminal(ir.union(ir.literal("true"), ir.literal("false")))
STRING, NUMBER, INTEGER = (
    ir.Terminal(strings.ANY_STRING),
    ir.Terminal(numbers.ANY_NUMBER),
    ir.Terminal(numbers.ANY_INTEGER),
)
_STRINGS = ("min_length", "max_length", "patterns")
_SHOWN = {
    "min_length": "minLength",
    "max_length": "maxLength",
    "patterns": "a pattern or format",
    "not": "not",
}
_CANONICAL_CHARACTER = strings.CANONICAL_ESCAPES.unit(ir.ANY_CHAR.ranges)
_DIGIT, _SIGN = ir.Chars(((0x30, 0x39),)), ir.Chars(((0x20, 0x2F), (0x3A, 0x7E)))
_TIMES = frozenset(f"format {name}" for name in ENDLESS_DIGITS)


@cache
def unbounded_numbers(max_digits: int | None) -> tuple[ir.Expr, ir.Expr]:
    """Numbers and integers without bounds, of at most so many digits."""
    if max_digits is None:
        return NUMBER, INTEGER
    return (
        ir.Terminal(numbers.with_digits(max_digits, max_digits)),
        ir.Terminal(numbers.with_digits(max_digits, None)),
    )


class ScalarLanguages:
    """The language of one type of scalar under a conjunction of schemas.

    Args:
        expansion: the schemas.
        constraint_regex: the texts of this type under constraints.
        all_texts: all texts of this type.
    """

    def __init__(
        self,
        expansion: DnfExpansion,
        constraint_regex: Callable[[Conjunction, TypeConstraints], ir.Regex],
        all_texts: ir.Regex,
    ) -> None:
        self.expansion = expansion
        self.constraint_regex = constraint_regex
        self.all_texts = all_texts
        self.known: dict[SchemaNode, ir.Regex] = {}

    def of(self, conjunction: Conjunction) -> ir.Regex:
        """The texts of a non-empty conjunction."""
        stack: list[tuple[SchemaNode, bool]] = [(node, False) for node in conjunction]
        while stack:
            node, entered = stack.pop()
            if node in self.known:
                continue
            all_of, any_of = self.expansion.scalar_parts(node)
            if not entered:
                stack.append((node, True))
                stack += [(part, False) for branches in (all_of, *any_of) for part in branches]
                continue
            texts = [self.known[part] for part in all_of]
            texts += [ir.union(*(self.known[part] for part in branches)) for branches in any_of]
            parsed = parse_schema(node)
            if parsed.limits:
                texts.append(self.constraint_regex((node,), parsed.constraints))
            self.known[node] = self.intersection(texts)
        return self.intersection([self.known[node] for node in conjunction])

    def intersection(self, texts: list[ir.Regex]) -> ir.Regex:
        """The intersection of languages; `all_texts` for none."""
        less = dict.fromkeys(text for text in texts if text is not self.all_texts)
        return ir.intersection(*less) if less else self.all_texts


class ScalarLowering:
    """Lowers the scalars of one document.

    Attributes:
        any_string: a string without other constraints.
        bounded_string: such a string as a value, of at most `max_string_length` characters.
        any_number: a number without other constraints.
        any_integer: an integer without other constraints.
    """

    def __init__(self, context: Context) -> None:
        self.expansion = context.expansion
        self.diagnostics = context.diagnostics
        self.punctuation = context.punctuation
        self.rules = context.rules  # those of string contents are added
        self.options = context.options
        self.excluded = excluded = context.excluded
        self.validator = InstanceValidator(context.expansion)
        self.max_digits, most = self.options.max_digits, self.options.max_string_length
        self.any_number, self.any_integer = unbounded_numbers(self.max_digits)
        self.any_string = self.bounded_string = STRING
        if excluded.texts:
            self.any_string = self.bounded_string = ir.Terminal(excluded.within_quotes(strings.ANY_STRING))
        if most is not None:
            self.bounded_string = ir.Terminal(excluded.within_quotes(strings.string_of_length(0, most)))
        self.strings = ScalarLanguages(self.expansion, self.string_regex, self.any_string.regex)
        self.numbers = ScalarLanguages(self.expansion, self.number_regex, numbers.ANY_NUMBER)
        self.enum_exprs: dict[tuple[str, ...], ir.Expr] = {}

    def scalar_term(self, conjunction: Conjunction) -> ir.Expr | None:
        """One term for a conjunction of scalars with many combinations of alternatives; None for other conjunctions."""
        types, ways = self.expansion.types_and_branches(conjunction)
        if types & (f.ARRAY | f.OBJECT) or ways < SCALAR_TERM_THRESHOLD:
            return None
        contents = self.expansion.document.contents
        if contents is not None and contents.has_grammars:
            return None
        values: list[Any] = [None] if types & f.NULL else []
        values += [True, False] if types & f.BOOLEAN else []
        texts = [
            value_regex(value, self.punctuation)
            for value in values
            if self.validator.satisfies_all(conjunction, value)
        ]
        texts += [self.strings.of(conjunction)] if types & f.STRING else []
        texts += [self.number_texts(conjunction, types, ways)] if types & f.NUMBER else []
        texts = [text for text in texts if not isinstance(text, ir.EmptySet)]
        if not texts:
            self.diagnostics.conflict(conjunction, "schemas that must hold together exclude each other")
        return ir.choice(*map(ir.Terminal, texts))

    def number_texts(self, conjunction: Conjunction, types: int, ways: int) -> ir.Regex:
        """The numbers of a conjunction of scalars; those with ``multipleOf`` by disjuncts, if these are few.

        A disjunct has one least common multiple, where an intersection of unions is searched for a number in all of them.
        """
        if not types & ~f.NUMBER and ways <= MULTIPLE_DISJUNCTS:
            disjuncts = [
                (one, self.expansion.constraints_of(one)) for one in self.expansion.expand(conjunction)
            ]
            if any(found.divisors or found.non_divisors for _, found in disjuncts):
                return ir.union(*dict.fromkeys(itertools.starmap(self.number_regex, disjuncts)))
        return self.numbers.of(conjunction)

    def string_regex(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Regex:
        """The JSON strings of a disjunct, enumerated or not, for `ScalarLanguages`."""
        self.diagnostics.note_unsupported(constraints, f.STRING)
        if not constraints.types & f.STRING:
            return ir.EMPTY_SET
        if constraints.enum_values is not None:
            values = [v for v in self.validator.listed(constraints) if isinstance(v, str)]
            return ir.union(*map(strings.encode_json_string, filter(self.excluded.allow, values)))
        if constraints.contents:
            self.diagnostics.note_content_unsupported(disjunct, "is not supported for the names of members")
        expr = self.string(disjunct, constraints)
        return expr.regex if isinstance(expr, ir.Terminal) else ir.EMPTY_SET

    def number_regex(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Regex:
        """The numbers of a disjunct, for `ScalarLanguages`; enumerated ones also in decimal notation, to match ranges."""
        self.diagnostics.note_unsupported(constraints, f.NUMBER)
        if not constraints.types & f.NUMBER:
            return ir.EMPTY_SET
        if constraints.enum_values is None:
            expr = self.number(disjunct, constraints)
            return expr.regex if isinstance(expr, ir.Terminal) else ir.EMPTY_SET
        listed = [
            value for value in self.validator.listed(constraints) if type(value) in (int, float, Decimal)
        ]
        exponents = [decimal_spellings(decimal(value)) for value in listed if "e" in str(value)]
        return ir.union(*(value_regex(value, self.punctuation) for value in listed), *exponents)

    def enum_expr(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """The enumerated values that satisfy all other constraints."""
        try:
            return self._enumerated(disjunct, constraints)
        except RecursionError:
            raise ConstraintTooLarge(
                "an enumerated value is nested too deeply", Problem(rule_name(disjunct), "in enum or const")
            ) from None

    def _enumerated(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        if constraints.contents:
            self.diagnostics.note_content_unsupported(disjunct, "is not supported next to enumerated values")
            return ir.EMPTY_LANGUAGE
        plain = len(vars(constraints)) == 1 or (len(vars(constraints)) == 2 and constraints.types == f.STRING)
        if plain and set(map(type, constraints.enum_values or ())) == {
            str
        }:  # strings without other constraints need no validation
            key = tuple(constraints.enum_values or ())
            if self.excluded.texts:
                key = tuple(filter(self.excluded.allow, key))
            if not key:
                self.diagnostics.conflict(disjunct, "every enumerated value contains an excluded text")
                return ir.EMPTY_LANGUAGE
            if key not in self.enum_exprs:
                self.enum_exprs[key] = ir.Terminal(ir.union(*map(strings.encode_json_string, key)))
            return self.enum_exprs[key]
        values = list(filter(self.excluded.allow, self.validator.listed(constraints)))
        if not values:
            of_items = constraints.types == f.ARRAY and list not in map(type, constraints.enum_values or ())
            hint = ", which say array: to list the items, put the enum into items" if of_items else ""
            self.diagnostics.conflict(
                disjunct, f"none of the enumerated values satisfies the other keywords{hint}"
            )
            return ir.EMPTY_LANGUAGE
        return self.enum_values_expr(values)

    def enum_values_expr(self, values: Sequence[Any]) -> ir.Expr:
        """The texts of enumerated values."""
        if self.options.ordered:
            return ir.Terminal(values_regex(values, self.punctuation))
        return ir.choice(*(value_expr(value, self.punctuation) for value in values))

    def scalars(self, disjunct: Conjunction, constraints: TypeConstraints) -> list[ir.Expr]:
        """One expression for each scalar type of a disjunct."""
        parts: list[ir.Expr] = []
        if constraints.types & f.NULL:
            parts.append(NULL)
        if constraints.types & f.BOOLEAN:
            for value, text in ((True, _TRUE), (False, _FALSE)):
                if not any(other is value for other in constraints.excluded_values):
                    parts.append(text)
            if parts[-2:] == [_TRUE, _FALSE]:
                parts[-2:] = [BOOLEAN]
        if constraints.types & f.NUMBER:
            parts.append(self.number(disjunct, constraints))
        if constraints.types & f.STRING:
            parts.append(self.string(disjunct, self._bounded(constraints)))
        return parts

    def _bounded(self, constraints: TypeConstraints) -> TypeConstraints:
        """Strings with the bound of `max_string_length`, where nothing else bounds them."""
        most, low = self.options.max_string_length, constraints.min_length
        if most is None or constraints.max_length is not None or constraints.contents:
            return constraints
        if constraints.patterns:  # of several ones, or with a least length, the shortest string is not known
            if low or len(constraints.patterns) > 1 or constraints.patterns[0].longest is not None:
                return constraints
            low = constraints.patterns[0].shortest
        return TypeConstraints(**{**vars(constraints), "max_length": max(most, low)})

    def number(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """The numbers of a disjunct; ``multipleOf`` is left out and noted where it cannot be enforced."""
        try:
            return self._number(disjunct, constraints)
        except UnsupportedMultiples as error:
            self.diagnostics.note_multiples_unsupported(disjunct, str(error))
            kept = {
                name: value
                for name, value in vars(constraints).items()
                if name not in ("divisors", "non_divisors")
            }
            return self._number(disjunct, TypeConstraints(**kept))

    def _number(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        whole = not constraints.types & f.NON_INTEGER
        others = constraints.non_divisors
        steps = constraints.divisors or ((Decimal(1),) if whole and others else ())
        excluded = [
            floats.spellings(decimal(value))
            for value in constraints.excluded_values
            if type(value) in (int, float)
        ]
        if not constraints.types & f.INTEGER:
            integral = self.expansion.document.dialect.integral_floats
            if steps and integral:
                others = (*others, Decimal(1))
            else:
                excluded.append(
                    ir.difference(DECIMAL_NOTATION, floats.apart(0)) if integral else numbers.ANY_INTEGER
                )
        rest = self.included_numbers(disjunct, constraints.bounds, steps, others if steps else (), whole)
        if not isinstance(rest, ir.Terminal) or not (excluded or others):
            return rest
        if others and not steps:
            rest = ir.Terminal(self.without_multiples(constraints.bounds, others))
        if not excluded:
            return rest
        if steps or others:  # multiples have no exponents
            return ir.Terminal(ir.difference(rest.regex, ir.union(*excluded)))
        return ir.Terminal(exclude_numbers(rest.regex, excluded))

    def included_numbers(
        self,
        disjunct: Conjunction,
        bounds: numbers.Bounds,
        steps: tuple[Decimal, ...],
        others: tuple[Decimal, ...],
        whole: bool,
    ) -> ir.Expr:
        """The numbers within bounds that are multiples of all steps and of no other; `whole`: integers. Without steps no other is given."""
        if bounds.empty():
            self.diagnostics.conflict(disjunct, f"no number is {bounds}")
            return ir.EMPTY_LANGUAGE
        if steps:
            regex = self.limited_multiples(bounds, steps, others, whole)
        elif bounds == numbers.UNBOUNDED:
            return self.any_integer if whole else self.any_number
        else:
            regex = numbers.integers(bounds) if whole else self.floats_between(bounds)
        if isinstance(regex, ir.EmptySet):
            kind, none = "integer" if whole else "number", ", and of none that not excludes" if others else ""
            self.diagnostics.conflict(
                disjunct, f"no {kind} is {bounds} and a multiple of every multipleOf{none}"
            )
            return ir.EMPTY_LANGUAGE
        return ir.Terminal(regex if steps else self.with_few_digits(regex, bounds, whole))

    def floats_between(self, bounds: numbers.Bounds) -> ir.Regex:
        """The numbers within bounds, those that are read as floats with their floats; integers are read exactly."""
        found = floats.float_bounds(bounds)
        regex = ir.EMPTY_SET if found.empty() else numbers.numbers_between(found)
        limits = [bound for bound in (bounds.low, bounds.high) if bound is not None]
        if len(limits) == 2 and not bounds.contains_number(Decimal(0)) and 0 in limits:
            regex = ir.difference(regex, floats.TINY)
        exact = max(map(abs, limits)) <= floats.MOST_EXACT
        return regex if exact else ir.union(numbers.integers(bounds), regex)

    def without_multiples(self, bounds: numbers.Bounds, others: tuple[Decimal, ...]) -> ir.Regex:
        """The numbers within bounds that are multiples of no other, written without an exponent.

        They are multiples of a decimal place, or have further ones.
        """
        limits = [bound for bound in (bounds.low, bounds.high) if bound is not None]
        places = max(decimal_places(number) for number in (*others, *limits))
        unit = Decimal(1).scaleb(-places)
        closed, most = self.closed_bounds(bounds, (unit,))
        few = self.short_multiples((unit,), closed, most, others)
        return ir.union(few, ir.intersection(numbers_beyond(places, closed, most), floats.apart(places)))

    def with_few_digits(self, regex: ir.Regex, bounds: numbers.Bounds, whole: bool) -> ir.Regex:
        """Numbers with as many digits as `max_digits` and bounds allow; integers between two bounds stay."""
        closed = bounds.low is not None and bounds.high is not None
        if self.max_digits is None or (whole and closed):
            return regex
        before, after = numbers.digits_needed(bounds, (), self.max_digits)
        return ir.intersection(regex, numbers.with_digits(before, None if whole else after))

    def limited_multiples(
        self,
        bounds: numbers.Bounds,
        steps: tuple[Decimal, ...],
        others: tuple[Decimal, ...],
        whole: bool,
    ) -> ir.Regex:
        """The multiples of all steps, and of no other, with as many digits as `max_digits`, bounds and steps allow.

        A language of multiples counts digits by itself; an intersection with one of few digits would have to be searched for a
        multiple that is short enough.
        """
        closed, places = self.closed_bounds(bounds, steps)
        if whole:
            return multiples_of(steps, closed, whole, places, others)
        return self.short_multiples(steps, closed, places, others)

    def short_multiples(
        self,
        steps: tuple[Decimal, ...],
        bounds: numbers.Bounds,
        places: int | None,
        others: tuple[Decimal, ...],
    ) -> ir.Regex:
        """`multiples_of`, where a number with a fraction has so few digits that its float is a multiple, too."""
        short = max(floats.DIGITS - max(map(decimal_places, steps)), 1)
        regex = multiples_of(steps, bounds, False, places, others, short)
        limits = [abs(bound) for bound in (bounds.low, bounds.high) if bound is not None]
        if len(limits) == 2 and max(limits) < Decimal(10) ** short:
            return regex
        return ir.union(regex, multiples_of(steps, bounds, True, places, others))

    def closed_bounds(
        self, bounds: numbers.Bounds, steps: tuple[Decimal, ...]
    ) -> tuple[numbers.Bounds, int | None]:
        """The bounds, or those of numbers of so many digits, and most digits after the point."""
        if self.max_digits is None:
            return bounds, None
        before, after = numbers.digits_needed(bounds, steps, self.max_digits)
        most = Decimal(10**before - 1)
        low, high = bounds.low, bounds.high
        return replace(bounds, low=-most if low is None else low, high=most if high is None else high), after

    def string(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """The strings of a disjunct."""
        if constraints.contents:
            return self.content_string(disjunct, constraints)
        excluded = [value for value in constraints.excluded_values if isinstance(value, str)]
        if excluded:
            present = {name: vars(constraints)[name] for name in _STRINGS if name in vars(constraints)}
            rest = self.string(disjunct, TypeConstraints(**present))
            if not isinstance(rest, ir.Terminal):
                return rest
            return ir.Terminal(ir.intersection(rest.regex, strings_excluding(excluded)))
        low, high = constraints.min_length, constraints.max_length
        if high is not None and low > high:
            self.diagnostics.conflict(
                disjunct, f"no string is at least {low} and at most {high} characters long"
            )
            return ir.EMPTY_LANGUAGE
        if not constraints.patterns:
            if low == 0 and high is None:
                return self.any_string
            return ir.Terminal(self.excluded.within_quotes(strings.string_of_length(low, high)))
        least = max(pattern.shortest for pattern in constraints.patterns)
        most = min((p.longest for p in constraints.patterns if p.longest is not None), default=None)
        if (high is not None and least > high) or (most is not None and (most < low or most < least)):
            self.diagnostics.conflict(
                disjunct, "no string has this length and matches every pattern and format"
            )
            return ir.EMPTY_LANGUAGE
        bodies = [pattern.json_body for pattern in constraints.patterns]
        if low > least or (high is not None and (most is None or most > high)):
            bodies.append(ir.repeat(_CANONICAL_CHARACTER, low, high))
        if self.max_digits is not None and any(one.source in _TIMES for one in constraints.patterns):
            run = ir.repeat(_DIGIT, 0, max(self.max_digits, 4))  # a year has four
            bodies.append(ir.concat(ir.repeat(ir.concat(run, _SIGN), 0, None), run))
        regex = ir.concat(strings.QUOTE, ir.intersection(*bodies), strings.QUOTE)
        if isinstance(regex, ir.EmptySet):
            self.diagnostics.conflict(disjunct, "no string matches the pattern")
            return ir.EMPTY_LANGUAGE
        return ir.Terminal(regex)

    def content_string(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """The strings whose content is a grammar, which nothing else may limit: its language is not known to be regular."""
        content, *others = constraints.contents
        limits = [name for name in _STRINGS if vars(constraints).get(name)]
        limits += ["not"] if any(isinstance(value, str) for value in constraints.excluded_values) else []
        if others or limits:
            what = "another grammar" if others else " and ".join(_SHOWN[name] for name in limits)
            self.diagnostics.note_content_unsupported(
                disjunct, f"is a grammar, and cannot be combined with {what}"
            )
        rules = content.rules
        if rules.start not in self.rules:
            self.rules.update(rules.rules)
        return ir.sequence(ir.Terminal(strings.QUOTE), ir.Call(rules.start), ir.Terminal(strings.QUOTE))

    def key_allowed(self, names: Conjunction, key: str) -> bool:
        """Whether a key satisfies the schemas of ``propertyNames`` and contains nothing excluded."""
        return self.excluded.allow(key) and (not names or self.validator.satisfies_all(names, key))

    def allowed_keys(self, names: Conjunction, keys: ir.Regex) -> ir.Regex:
        """The keys of a language that satisfy the schemas of ``propertyNames`` and contain nothing excluded."""
        keys = self.excluded.within_quotes(keys)
        for node in names:
            keys = ir.intersection(keys, self.strings.of((node,)))
        return keys
