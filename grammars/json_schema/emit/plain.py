"""Small plain schemas, lowered in one walk.

Most schemas consist of objects, arrays, references within the document and scalars, each alone at its place: nothing needs to be
conjoined, expanded or proved. For them the nodes, parsed schemas and caches of `SchemaLowering` cost more than the grammar.
`PlainLowering` reads such a schema directly and gives the grammar that `SchemaLowering` gives, rule by rule, or none at all:
whatever it does not know, and every error, is left to `SchemaLowering`, which is also its judge in the tests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from grammars import ir
from grammars.errors import ConstraintError, ConstraintTooLarge
from grammars.json_pointer import unescape
from grammars.json_schema.emit.arrays import array_expr
from grammars.json_schema.emit.lowering import SchemaLowering, productive_names
from grammars.json_schema.emit.objects import PropertyMember, called_rules, object_expr
from grammars.json_schema.emit.scalars import BOOLEAN, NULL, STRING, unbounded_numbers
from grammars.json_schema.source import constraints as f
from grammars.json_schema.source.dialects import SchemaDialect
from grammars.json_schema.source.document import SchemaNode, child_pointer
from grammars.json_schema.text.punctuation import JsonPunctuation
from grammars.json_schema.text.strings import ANY_STRING, encode_json_string, strings_excluding

_OBJECTS = frozenset({"properties", "required", "additionalProperties"})
_ARRAYS = frozenset({"items", "minItems", "maxItems", "uniqueItems"})
_CONTAINERS = _OBJECTS | _ARRAYS
_LISTED = frozenset({"enum", "const"})
_SCALARS = frozenset(
    {
        "minLength", "maxLength", "pattern", "format",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    }
)  # fmt: skip
_ANY_VALUE = "any value"  # the rule of arrays and objects without constraints, see `rule_name`
_MAX_REFERENCES = 100

_ScalarKey = tuple[str, "int | None", JsonPunctuation, bool, str]
_scalar_exprs: dict[_ScalarKey, ir.Expr] = {}
"""Scalars with constraints, by content: the same formats, patterns and bounds recur in other schemas."""
_MAX_SCALARS, _LONGEST_SCALAR = 10_000, 1_000


class NotPlain(Exception):
    """The schema contains what only `SchemaLowering` knows."""


class PlainLowering:
    """Lowers one document.

    Args:
        schema: the document; valid in its dialect.
        dialect: one of `SCHEMA_DIALECTS`.
        punctuation: terminals of the punctuation.
        ordered: members come in the order of the schema.
        max_digits: bound on the digits of numbers that have no bound.
        general: makes the lowering that knows everything.
    """

    def __init__(
        self,
        schema: Any,
        dialect: SchemaDialect,
        punctuation: JsonPunctuation,
        *,
        ordered: bool,
        max_digits: int | None,
        general: Callable[[], SchemaLowering],
    ) -> None:
        self.root = schema
        self.dialect = dialect
        self.punctuation = punctuation
        self.ordered_members = ordered
        self.max_digits = max_digits
        number, integer = unbounded_numbers(max_digits)
        self.single_types: dict[str, ir.Expr] = {
            "null": NULL, "boolean": BOOLEAN, "string": STRING, "number": number, "integer": integer,
        }  # fmt: skip
        self.every_scalar = (NULL, BOOLEAN, number, STRING)
        self.limiting = dialect.assertion_keywords
        self.rules: dict[str, ir.Expr] = {}
        self.rule_dependencies: dict[str, list[str]] = {}
        self.queue: deque[tuple[str, Mapping[str, Any], int]] = deque()
        self._new_general = general
        self._general: SchemaLowering | None = None
        self._any: ir.Expr | None = None

    def run(self) -> ir.Grammar | None:
        """The grammar; None if the schema is not plain, or has no values."""
        try:
            start = self.value(self.root, "#")
            while self.queue:
                name, schema, types = self.queue.popleft()
                self.rules[name] = (
                    self.any_container() if name == _ANY_VALUE else self.containers(name, schema, types)
                )
        except (NotPlain, RecursionError):  # an enumerated value may be nested deeply
            return None
        rules, name = self.rules, start.rule if isinstance(start, ir.Call) else "start"
        if not productive_names(rules, self.rule_dependencies).issuperset(rules):
            return None
        return ir.Grammar(rules if isinstance(start, ir.Call) else {"start": start, **rules}, name)

    # ------------------------------------------------------------ one schema

    def value(self, schema: Any, pointer: str) -> ir.Expr:
        """The values of a schema, as `SchemaLowering.conjunction_expr` has them."""
        if schema is True:
            return self.any_value()
        if schema is False:
            raise NotPlain
        keywords = self.limiting.keys() & schema.keys()
        if self.dialect.id_keyword in schema and schema is not self.root:
            raise NotPlain  # references below it start there
        if not keywords:
            return self.any_value()
        name = schema.get("type") if len(keywords) == 1 else None
        if isinstance(name, str):
            return self.single_types.get(name) or self.container(schema, pointer, f.TYPES[name], ())
        if "$ref" in keywords:
            if len(keywords) > 1 and not self.dialect.ref_overrides_siblings:
                raise NotPlain
            return self.reference(schema["$ref"])
        if "type" not in keywords:
            types = f.EVERY_TYPE
        else:
            types = 0
            for one in (schema["type"],) if isinstance(schema["type"], str) else schema["type"]:
                types |= f.TYPES[one]
        others = keywords - {"type"}
        if others & _LISTED:
            return self.listed(schema, others, types)
        if not types & (f.ARRAY | f.OBJECT):
            if not others:
                return self.alone_or_choice(self.scalars(types))
            return self.scalar(schema, others)
        if not others <= _CONTAINERS or (
            types == f.EVERY_TYPE and not others & {"properties", "additionalProperties", "items"}
        ):
            raise NotPlain
        if (others & _OBJECTS and not types & f.OBJECT) or (others & _ARRAYS and not types & f.ARRAY):
            raise NotPlain
        return self.container(schema, pointer, types, self.scalars(types))

    def any_value(self) -> ir.Expr:
        """Every value."""
        if self._any is None:
            self.enqueue(_ANY_VALUE, {}, f.ARRAY | f.OBJECT)
            self._any = ir.Choice((*self.every_scalar, ir.Call(_ANY_VALUE)))
        return self._any

    def scalars(self, types: int) -> tuple[ir.Expr, ...]:
        """The scalars of some types, without other constraints."""
        number = self.single_types["number" if types & f.NON_INTEGER else "integer"]
        present = (types & f.NULL, types & f.BOOLEAN, types & f.NUMBER, types & f.STRING)
        return tuple(expr for expr, has in zip((NULL, BOOLEAN, number, STRING), present, strict=True) if has)

    def alone_or_choice(self, parts: tuple[ir.Expr, ...]) -> ir.Expr:
        """One of the parts."""
        return parts[0] if len(parts) == 1 else ir.choice(*parts)

    def listed(self, schema: Mapping[str, Any], others: set[str], types: int) -> ir.Expr:
        """Enumerated values."""
        if len(others) == 1 and types in (f.STRING, f.EVERY_TYPE):
            values = schema["enum"] if "enum" in others else [schema["const"]]
            if set(map(type, values)) == {str}:
                return ir.Terminal(ir.union(*map(encode_json_string, values)))
        return self.scalar(schema, others)

    def scalar(self, schema: Mapping[str, Any], others: set[str]) -> ir.Expr:
        """Scalars with constraints, and enumerated values of any type."""
        if not others <= (_SCALARS | _LISTED):
            raise NotPlain
        content = repr([(keyword, value) for keyword, value in schema.items() if keyword in self.limiting])
        key = self.dialect.name, self.max_digits, self.punctuation, self.ordered_members, content
        expr = _scalar_exprs.get(key)
        if expr is None:
            expr = self._scalar(schema)
            if len(content) <= _LONGEST_SCALAR and len(_scalar_exprs) < _MAX_SCALARS:
                _scalar_exprs[key] = expr
        return expr

    def _scalar(self, schema: Mapping[str, Any]) -> ir.Expr:
        if self._general is None:
            self._general = self._new_general()
        general = self._general
        root = general.document.root
        try:
            expr = general.conjunction_expr((SchemaNode(schema, "#/a scalar", root, root.base),))
        except (ConstraintError, ConstraintTooLarge):
            raise NotPlain from None
        if general.rules or general.diagnostics.problems or general.diagnostics.conflicts:
            raise NotPlain
        return expr

    def reference(self, reference: str) -> ir.Expr:
        """The values of the target of a reference, directly or through other references."""
        for _ in range(_MAX_REFERENCES):
            target, pointer = self.resolve(reference)
            if not isinstance(target, dict) or "$ref" not in target:
                return self.value(target, pointer)
            if not self.dialect.ref_overrides_siblings and len(self.limiting.keys() & target.keys()) > 1:
                break
            if self.dialect.id_keyword in target and target is not self.root:
                break
            reference = target["$ref"]
        raise NotPlain

    def resolve(self, reference: str) -> tuple[Any, str]:
        """The target of a reference within the document, and its pointer."""
        if reference == "#":
            return self.root, "#"
        if not reference.startswith("#/") or "%" in reference:
            raise NotPlain
        value, pointer = self.root, "#"
        for raw in reference[2:].split("/"):
            token = unescape(raw)
            if type(value) is not dict or token not in value:
                raise NotPlain
            if self.dialect.id_keyword in value and value is not self.root:
                raise NotPlain
            value, pointer = value[token], child_pointer(pointer, token)
        if not isinstance(value, (dict, bool)):
            raise NotPlain
        return value, pointer

    # ------------------------------------------------------------ arrays and objects

    def container(
        self, schema: Mapping[str, Any], pointer: str, types: int, scalars: tuple[ir.Expr, ...]
    ) -> ir.Expr:
        """Arrays and objects as a rule of their own, next to scalars."""
        if pointer not in self.rules:
            self.enqueue(pointer, schema, types)
        return self.alone_or_choice((*scalars, ir.Call(pointer)))

    def enqueue(self, name: str, schema: Mapping[str, Any], types: int) -> None:
        """Queues a rule, whose body is made later."""
        self.rules[name] = ir.EMPTY_LANGUAGE  # keeps the order of discovery
        self.queue.append((name, schema, types))

    def any_container(self) -> ir.Expr:
        """Arrays and objects without constraints."""
        self.rule_dependencies[_ANY_VALUE] = []
        value = self.any_value()
        objects = object_expr(
            (), [(ANY_STRING, value)], 0, None, self.punctuation, ordered=self.ordered_members
        )
        return ir.Choice(
            (
                objects,
                array_expr((), lambda: value, 0, None, self.punctuation.array, self.punctuation.empty_array),
            )
        )

    def containers(self, name: str, schema: Mapping[str, Any], types: int) -> ir.Expr:
        """The body of the rule of a schema, as `SchemaLowering.containers` has it."""
        parts: list[ir.Expr] = []
        if types & f.OBJECT:
            parts.append(self.object(name, schema))
        if types & f.ARRAY:
            parts.append(self.array(name, schema))
        return parts[0] if len(parts) == 1 else ir.choice(*parts)

    def object(self, rule: str, schema: Mapping[str, Any]) -> ir.Expr:
        """The objects of a schema."""
        properties: Mapping[str, Any] = schema.get("properties", {})
        required = dict.fromkeys(schema.get("required", ()))
        additional = schema.get("additionalProperties", True)
        place, rest = f"{rule}/properties", f"{rule}/additionalProperties"
        names = [*properties, *(name for name in required if name not in properties)]
        members: list[PropertyMember] = []
        dependencies: list[str] = []
        for name in names:
            if name not in properties:
                value = self.value(additional, rest)
            elif "~" in name or "/" in name:
                value = self.value(properties[name], child_pointer(place, name))
            else:
                value = self.value(properties[name], f"{place}/{name}")
            if name in required:
                dependencies += called_rules(value)
            members.append(PropertyMember(name, name in required, value))
        others = [] if additional is False else [(strings_excluding(names), self.value(additional, rest))]
        self.rule_dependencies[rule] = dependencies
        return object_expr(members, others, 0, None, self.punctuation, ordered=self.ordered_members)

    def array(self, rule: str, schema: Mapping[str, Any]) -> ir.Expr:
        """The arrays of a schema."""
        items, low, high = schema.get("items", True), schema.get("minItems", 0), schema.get("maxItems")
        if isinstance(items, list) or schema.get("uniqueItems", False) or (high is not None and low > high):
            raise NotPlain
        low, high = int(low), None if high is None else int(high)
        if low > ir.MAX_COUNT:
            raise NotPlain
        item = ir.EMPTY_LANGUAGE if high == 0 else self.value(items, f"{rule}/items")
        if low == 0:
            self.rule_dependencies[rule] = []
        else:
            self.rule_dependencies.setdefault(rule, [*called_rules(item)])
        return array_expr((), lambda: item, low, high, self.punctuation.array, self.punctuation.empty_array)
