"""From the schema of a tool's arguments to the grammar of its parameters in the markup of a model family.

The objects of the schema's root are written parameter by parameter. A string stands as it is, up to the closing text, which it
cannot contain; every other value is JSON, except that some families write objects and arrays inside in markup too.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem, UnsupportedConstraint
from constrained.grammars.json_schema.emit.arrays import ArrayLowering
from constrained.grammars.json_schema.emit.context import Context, empty_types_reason, rule_name
from constrained.grammars.json_schema.emit.lowering import SchemaLowering
from constrained.grammars.json_schema.emit.objects import ObjectLowering, PropertyMember
from constrained.grammars.json_schema.options import PropertyOrder
from constrained.grammars.json_schema.parameters.punctuation import (
    ParameterPunctuation,
    punctuation_of,
    quoted,
)
from constrained.grammars.json_schema.parameters.styles import OTHERS, Kind, ParameterStyle
from constrained.grammars.json_schema.source import constraints as f
from constrained.grammars.json_schema.source.constraints import Conjunction, TypeConstraints
from constrained.grammars.json_schema.source.document import SchemaNode
from constrained.grammars.json_schema.text.excluded_substrings import ExcludedSubstrings
from constrained.grammars.transform.imports import fresh_name

_CONTAINERS = f.ARRAY | f.OBJECT


class ParameterLowering:
    """Lowers one document to parameters.

    Args:
        lowering: of the same document, for the values that are JSON. Its strings exclude what would end a parameter.
        style: the markup.
    """

    def __init__(self, lowering: SchemaLowering, style: ParameterStyle) -> None:
        options = lowering.context.options
        self.json = lowering
        self.style = style
        self.gap = gap = options.gap
        self.excluded = ExcludedSubstrings(options.excludes)
        ending = [style.excluded] if style.excluded else []
        self.ending = ExcludedSubstrings(ending)
        self.both = ExcludedSubstrings((*ending, *options.excludes))
        self.free = self.both.without(ir.TEXT)
        order: PropertyOrder = "any" if style.any_order else options.property_order
        options = replace(options, property_order=order, distinct_names=False, max_items=None)
        self.objects, self.inner = (
            _ParameterObjects(
                replace(
                    lowering.context, options=options, punctuation=punctuation_of(style, gap, inner=inner)
                ),
                self,
            )
            for inner in (False, True)
        )
        within = replace(
            lowering.context,
            options=options,
            punctuation=punctuation_of(style, gap, items=True),
            conjunction_expr=self.item,
        )
        self.arrays = ArrayLowering(within, lowering.scalars)
        self.values: dict[tuple[SchemaNode | frozenset[SchemaNode], str | None], ir.Expr] = {}
        self.queue: deque[tuple[str, Conjunction, TypeConstraints]] = deque()

    def run(self) -> ir.Grammar:
        """The grammar of the parameters.

        Raises:
            UnsupportedConstraint: the schema allows no object, or lists its values.
        """
        root = self.json.document.root
        bodies = []
        cases = self.json.expansion.expand((root,))
        for disjunct in cases:
            constraints = self.json.expansion.constraints_of(disjunct)
            self.json.diagnostics.note_unsupported(constraints)
            if not constraints.types & f.OBJECT:
                continue
            if constraints.enum_values is not None:
                raise self.unsupported(
                    rule_name(disjunct), "lists whole values, which have no markup of their own"
                )
            bodies.append(self.objects.object(disjunct, constraints))
        if cases and not bodies:
            raise self.unsupported("#", "allows no object, and only an object has parameters")
        rules = self.json.rules
        name = fresh_name("parameters", rules)
        rules[name] = ir.EMPTY_LANGUAGE
        while self.queue or self.json.queue:
            self.json.lower_queued()
            if self.queue:
                nested, disjunct, constraints = self.queue.popleft()
                lower = self.inner.object if constraints.types & f.OBJECT else self._array
                rules[nested] = lower(disjunct, constraints)
        rules[name] = ir.choice(*bodies)
        return ir.Grammar(rules, name)

    def _array(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        if constraints.unique_items and (constraints.max_items is None or constraints.max_items > 1):
            self.json.diagnostics.note_unique_unsupported(disjunct, f"in the style {self.style.name}")
            return ir.EMPTY_LANGUAGE
        return self.arrays.array(disjunct, constraints)

    # ------------------------------------------------------------ values

    def item(self, conjunction: Conjunction) -> ir.Expr:
        """An item of an array in markup."""
        assert self.style.item is not None
        value = self.value(conjunction, None)
        if not self.style.item:
            return value
        return ir.sequence(ir.Terminal(self.style.markup(self.style.item)), value)

    def value(self, conjunction: Conjunction, name: str | None) -> ir.Expr:
        """What follows a parameter's name, or the text before an item: the type, the value and the closing text."""
        which = conjunction[0] if len(conjunction) == 1 else frozenset(conjunction)
        key = which, name if "{name}" in self.style.close else None
        expr = self.values.get(key)
        if expr is None:
            expr = self.values[key] = self._value(conjunction, name)
        return expr

    def _value(self, conjunction: Conjunction, name: str | None) -> ir.Expr:
        cases = self.json.expansion.expand(conjunction)
        if not cases:
            self.json.diagnostics.conflict(
                conjunction, "schemas that apply to the same value exclude each other"
            )
        free: list[ir.Regex] = []  # by kind of text, so that alternatives of one kind share a terminal
        limited: list[ir.Regex] = []
        options: list[ir.Expr] = []
        for disjunct in cases:
            constraints = self.json.expansion.constraints_of(disjunct)
            self.json.diagnostics.note_unsupported(constraints)
            if not constraints.types:
                self.json.diagnostics.conflict(disjunct, empty_types_reason(disjunct))
                continue
            if constraints.enum_values is not None:
                strings, others = self._enumerated(disjunct, constraints)
                limited += strings
                options += [self._option(kind, expr, name) for kind, expr in others]
                continue
            if constraints.types & f.STRING:
                text = self._string(disjunct, constraints)
                (free if text is self.free else limited).append(text)
            options += [self._option(kind, expr, name) for kind, expr in self._others(disjunct, constraints)]
        return ir.choice(*self._strings(free[:1], limited, name), *options)

    def _strings(self, free: list[ir.Regex], limited: list[ir.Regex], name: str | None) -> Iterable[ir.Expr]:
        opening, close = self.style.opening("string", self.gap), self.style.closing(name, "string")
        limited = [text for text in limited if not isinstance(text, ir.EmptySet)]
        if self.style.quotes:
            texts = free or (limited[:1] and [ir.union(*limited)])
            yield from (ir.Terminal(quoted(text, self.style.quotes)) for text in texts)
            return
        if limited and not free:
            gap = self.gap if self.style.spaced_strings else ir.EMPTY_STRING
            yield ir.Terminal(ir.concat(opening, gap, ir.union(*limited), gap, close))
        for text in free:  # contains the limited ones, with the white space around them
            yield ir.sequence(ir.Terminal(opening), ir.Terminal(ir.concat(text, close)))

    def _option(self, kind: Kind, expr: ir.Expr, name: str | None) -> ir.Expr:
        close = self.style.closing(name, kind)
        gap = self.gap if self.style.spaced_values else ir.EMPTY_STRING
        if kind in ("object", "array") and self.style.nested:
            gap = ir.EMPTY_STRING  # white space is part of the markup
        opening = ir.Terminal(ir.concat(self.style.opening(kind, self.gap), gap))
        return ir.sequence(opening, expr, ir.Terminal(ir.concat(gap, close)))

    # ------------------------------------------------------------ strings

    def _string(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Regex:
        """The raw texts of the strings of a disjunct."""
        if constraints.contents:
            self.json.diagnostics.note_content_unsupported(
                disjunct, f"is not supported in the style {self.style.name}"
            )
            return ir.EMPTY_SET
        if not isinstance(self.json.scalars.string(disjunct, constraints), ir.Terminal):
            return ir.EMPTY_SET  # and the reason is noted
        low, high, patterns = constraints.min_length, constraints.max_length, constraints.patterns
        unlike = [value for value in constraints.excluded_values if isinstance(value, str)]
        if not (low or high is not None or patterns or unlike):
            return self.free
        texts: list[ir.Regex] = [ir.TEXT, *(pattern.value_language for pattern in patterns)]
        if low or high is not None:
            texts.append(ir.repeat(ir.ANY_CHAR, low, high))
        texts += [ir.complement(_text(value)) for value in unlike]
        return (self.ending if patterns else self.both).without(ir.intersection(*texts))

    def _enumerated(
        self, disjunct: Conjunction, constraints: TypeConstraints
    ) -> tuple[list[ir.Regex], list[tuple[Kind, ir.Expr]]]:
        """Enumerated values: raw strings, and the others by kind."""
        strings: list[ir.Regex] = []
        others: dict[Kind, list[Any]] = {}
        for value in self.json.scalars.validator.listed(constraints):
            if isinstance(value, str):
                if not any(text in value for text in self.both.texts):
                    strings.append(_text(value))
            elif self.excluded.allow(value):
                others.setdefault(_kind(value), []).append(value)
        if not strings and not others:
            self.json.diagnostics.conflict(disjunct, "none of the enumerated values can be written")
        return strings, [(kind, self._listed(kind, values)) for kind, values in others.items()]

    # ------------------------------------------------------------ other values

    def _listed(self, kind: Kind, values: Sequence[Any]) -> ir.Expr:
        if kind in ("object", "array") and self.style.nested:
            try:
                return ir.choice(*map(self._literal, values))
            except RecursionError:
                raise ConstraintTooLarge("an enumerated value is nested too deeply") from None
        if kind in ("boolean", "null") and self.style.words:
            return ir.Terminal(ir.union(*(self.style.spellings(json.dumps(value)) for value in values)))
        return self.json.scalars.enum_values_expr(values)

    def _literal(self, value: Any) -> ir.Expr:
        """An object or array in markup."""
        parts: list[ir.Expr] = []
        if isinstance(value, dict):
            space = self.inner.punctuation.comma
            heads: list[tuple[str | None, ir.Terminal, Any]] = [
                (name, self.inner.key_of(name), item) for name, item in value.items()
            ]
        else:
            space = self.arrays.punctuation.comma
            heads = [(None, ir.Terminal(self.style.markup(self.style.item or "")), item) for item in value]
        for name, head, item in heads:
            kind = _kind(item)
            if kind == "string":
                body = ir.choice(*self._strings([], [_text(item)], name))
            else:
                body = self._option(kind, self._listed(kind, [item]), name)
            parts += [*([space] if parts else []), head, body]
        if not parts:
            return self.objects.punctuation.empty_object
        return ir.sequence(
            self.objects.punctuation.open_object, *parts, self.objects.punctuation.close_object
        )

    def _others(self, disjunct: Conjunction, constraints: TypeConstraints) -> Iterable[tuple[Kind, ir.Expr]]:
        """The values of a disjunct that are no strings, by the text that precedes them."""
        groups: dict[tuple[str, ...], list[Kind]] = {}
        for kind in OTHERS:
            if constraints.types & f.TYPES[kind]:
                alone = (kind,) if self.style.nested and kind in ("object", "array") else ()
                groups.setdefault(self.style.types[kind] + alone, []).append(kind)
        for kinds in groups.values():
            types = 0
            for kind in kinds:
                types |= f.TYPES[kind]
            narrowed = TypeConstraints(**{**vars(constraints), "types": constraints.types & types})
            if self.style.nested and kinds[0] in ("object", "array"):
                yield kinds[0], self._nested(kinds[0], disjunct, narrowed)
                continue
            parts = self._scalars(disjunct, narrowed)
            if narrowed.types & _CONTAINERS:
                parts.append(self._containers(disjunct, narrowed))
            yield kinds[0], ir.choice(*parts)

    def _scalars(self, disjunct: Conjunction, constraints: TypeConstraints) -> list[ir.Expr]:
        """Numbers, booleans and null, spelled as the style spells them."""
        if not self.style.words:
            return self.json.scalars.scalars(disjunct, constraints)
        words = [None] if constraints.types & f.NULL else []
        booleans = [True, False] if constraints.types & f.BOOLEAN else []
        excluded = constraints.excluded_values
        allowed = [word for word in (*words, *booleans) if not any(one is word for one in excluded)]
        parts: list[ir.Expr] = [ir.Terminal(self.style.spellings(json.dumps(word))) for word in allowed]
        if constraints.types & f.NUMBER:
            parts.append(self.json.scalars.number(disjunct, constraints))
        return parts

    def _nested(self, kind: Kind, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """Objects or arrays in markup."""
        name = f"{rule_name(disjunct)} as {kind} of {self.style.name}"
        if name not in self.json.rules:
            self.json.rules[name] = ir.EMPTY_LANGUAGE
            self.queue.append((name, disjunct, constraints))
        return ir.Call(name)

    def _containers(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """Objects and arrays as JSON."""
        name = f"{rule_name(disjunct)} as JSON {constraints.types & _CONTAINERS}"
        if name not in self.json.rules:
            self.json.rules[name] = ir.EMPTY_LANGUAGE
            self.json.rules[name] = self.json.containers(disjunct, constraints)
        return ir.Call(name)

    def unsupported(self, place: str, reason: str) -> UnsupportedConstraint:
        """That the markup cannot write what stands at a place."""
        return UnsupportedConstraint(
            f"the schema cannot be written in the style {self.style.name}",
            Problem(place, reason),
            action='use "style": "json"',
        )


class _ParameterObjects(ObjectLowering):
    """Objects whose members are parameters."""

    def __init__(self, context: Context, outer: ParameterLowering) -> None:
        oracle = outer.json.oracle
        super().__init__(oracle._replace(conjunction_expr=lambda nodes: outer.value(nodes, "")), context)
        self.value = outer.value
        self.refused = outer.unsupported
        assert isinstance(context.punctuation, ParameterPunctuation)
        self.punctuation: ParameterPunctuation = context.punctuation
        self.any_name = self.punctuation.style.other_names is not None
        self.place = "#"

    def object(self, disjunct: Conjunction, constraints: TypeConstraints) -> ir.Expr:
        """The objects of a disjunct, parameter by parameter."""
        self.place = rule_name(disjunct)
        if constraints.negated_objects:
            raise self.refused(constraints.negated_objects[0].place, "says what the parameters must not be")
        named = any(
            members.patterns or (members.additional is not None and members.additional.value is not False)
            for members in constraints.members
        )
        if named and not self.any_name:
            raise self.refused(
                self.place, "allows names that are not declared, which this markup cannot close"
            )
        return super().object(disjunct, constraints)

    def key_of(self, name: str) -> ir.Terminal:
        """The text up to the end of a name that can be read back."""
        if self.punctuation.style.ambiguous(name):
            raise self.refused(self.place, f"has the name {name!r}, whose end cannot be seen in this markup")
        return self.punctuation.property_key(name)

    def member_value(self, name: str, schemas: Conjunction) -> ir.Expr:
        """What follows the name of a declared parameter."""
        self.key_of(name)
        return self.value(schemas, name)

    def object_of(
        self,
        members: Sequence[PropertyMember],
        others: Sequence[tuple[ir.Regex, ir.Expr]],
        low: int,
        high: int | None,
    ) -> ir.Expr:
        """Declared parameters, and others where the style allows them; a name that is not declared may come twice."""
        needed = [slot for slot, member in enumerate(members) if member.required]
        others = others if self.any_name else []
        if not others or (self.options.ordered and low <= len(needed) + 1):
            return super().object_of(members, others, low, high)
        if low > len(needed) + 1:
            raise self.refused(
                self.place, "counts names that are not declared (minProperties), which may come twice"
            )
        return self.interleaved(members, others, low, high, repeats=True)


def _text(value: str) -> ir.Regex:
    """One raw text; a lone surrogate has no UTF-8, so such a text cannot be written."""
    try:
        return ir.literal(value)
    except UnicodeEncodeError:
        return ir.EMPTY_SET


def _kind(value: Any) -> Kind:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (dict, list)):
        return "object" if isinstance(value, dict) else "array"
    if value is None:
        return "null"
    return "string" if isinstance(value, str) else "number"
