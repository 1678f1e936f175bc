"""Random JSON Schemas over every keyword of a draft, with instances that come near them.

Names, strings and numbers are drawn from few, so that keywords meet in the same values.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

NAMES = ("a", "b", "ab", "é")
STRINGS = ("", "a", "b", "ab", "ba", "é", "2024-02-29", "10.0.0.1", "[1]")
NUMBERS = (-2, -1, 0, 1, 2, 3, 4, 6, 10, 0.5, -1.5, 2.25, 0.1, 9007199254740993)
PATTERNS = ("^a", "b$", "^.$", "a|é", "^[ab]*$", "[0-9]")
FORMATS = ("date", "ipv4")
"""Those that both judges check alike."""
ESCAPED = "e~f/%"
"""The name of a definition that is escaped in a pointer."""
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


class RandomSchemas:
    """Draws schemas of one draft and instances for them.

    Args:
        rng: of all draws.
        draft: "4", "6", "7", "2019-09" or "2020-12".
    """

    def __init__(self, rng: random.Random, draft: str) -> None:
        self.rng = rng
        self.draft = draft
        self._number = ("4", "6", "7", "2019-09", "2020-12").index(draft)
        # In 2019-09 only `items` and `additionalItems` evaluate items (9.3.1.3); the judges count `contains`, too: one of the two.
        self._left_out = rng.choice(("contains", "unevaluatedItems")) if draft == "2019-09" else None
        self._definitions = "$defs" if self._number >= 3 else "definitions"

    def schema(self) -> dict[str, Any]:
        """A schema with some definitions, one of which may refer to itself inside its parts."""
        root = self._object(3)
        definitions = root[self._definitions] = {
            name: self._schema(1, named=False) for name in ("x", "y", ESCAPED)
        }
        inner = self._reference("z") if self.rng.random() < 0.5 else True if self._number else {}
        key = "items" if self.rng.random() < 0.5 else "additionalProperties"
        definitions["z"] = {"type": ["array", "object", "integer"], key: inner}
        definitions["anchored"] = {**self._object(1, named=False), **self._anchor("here")}
        # A resource of its own: the pointer inside it begins at its root, a dynamic reference at that of the outermost one.
        own = {"type": ["array", "object", "integer"], key: self._inside("#")}
        definitions["own"] = {**own, "id" if not self._number else "$id": "https://own.example/"}
        if self._number == 3:
            definitions["own"] |= {"$recursiveAnchor": True}
            if self.rng.random() < 0.5:
                root |= {"$recursiveAnchor": True}
        if self._number == 4:
            definitions["own"] |= {"$dynamicAnchor": "node"}
            if self.rng.random() < 0.5:
                root |= {"$dynamicAnchor": "node"}
        return root

    def _anchor(self, name: str) -> dict[str, Any]:
        if self._number >= 3:
            return {"$anchor": name}
        return {"$id" if self._number else "id": f"#{name}"}

    def _inside(self, pointer: str) -> dict[str, Any]:
        """A reference from a resource of its own to itself, or dynamically to the outermost one."""
        if self._number < 3 or self.rng.random() < 0.4:
            return {"$ref": pointer}
        return {"$recursiveRef": "#"} if self._number == 3 else {"$dynamicRef": "#node"}

    def instance(self, depth: int = 2) -> Any:
        """A value of few names, strings and numbers."""
        kind = self.rng.choice(TYPES if depth else TYPES[:5])
        if kind == "array":
            return [self.instance(depth - 1) for _ in range(self.rng.randrange(4))]
        if kind == "object":
            names = self.rng.sample(NAMES, self.rng.randrange(4))
            return {name: self.instance(depth - 1) for name in names}
        return self._scalar(kind)

    def near(self, schema: Any, depth: int = 4) -> Any:
        """A value that what a schema says of enumerated values, names and types makes likely to be valid."""
        if not isinstance(schema, dict) or not depth or self.rng.random() < 0.1:
            return self.instance(1)
        for key in ("enum", "const", "anyOf", "oneOf", "allOf"):
            if key in schema and self.rng.random() < 0.7:
                if key == "const":
                    return schema[key]
                chosen = self.rng.choice(schema[key])
                return chosen if key == "enum" else self.near(chosen, depth - 1)
        types = schema.get("type", self.rng.choice(("object", "array", "string", "number")))
        kind = self.rng.choice(types) if isinstance(types, list) else types
        if kind == "object":
            parts = schema.get("properties", {})
            names = {*schema.get("required", ()), *(name for name in NAMES if self.rng.random() < 0.4)}
            made = [
                (name, self.near(parts.get(name, schema.get("additionalProperties")), depth - 1))
                for name in names
            ]
            self.rng.shuffle(made)
            return dict(made)
        if kind == "array":
            first, rest = schema.get("prefixItems", ()), schema.get("items")
            if isinstance(rest, list):
                first, rest = rest, schema.get("additionalItems")
            count = self.rng.randrange(4)
            return [self.near(first[i] if i < len(first) else rest, depth - 1) for i in range(count)]
        return self._scalar(kind)

    def _scalar(self, kind: str) -> Any:
        if kind == "string":
            return self.rng.choice(STRINGS)
        if kind in ("integer", "number"):
            return self.rng.choice([one for one in NUMBERS if kind == "number" or isinstance(one, int)])
        return None if kind == "null" else self.rng.random() < 0.5

    def _reference(self, name: str) -> dict[str, Any]:
        if name in ("here", "own"):
            return {"$ref": "#here" if name == "here" else "https://own.example/"}
        escaped = name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
        return {"$ref": f"#/{self._definitions}/{escaped}"}

    def _schema(self, depth: int, *, named: bool = True) -> Any:
        chance = self.rng.random()
        if chance < 0.1 and self._number:
            return chance < 0.07
        if chance < 0.2 and named:
            return self._reference(self.rng.choice(("x", "y", "z", "here", "own", ESCAPED)))
        return self._object(depth, named=named)

    def _schemas(self, depth: int, named: bool, least: int = 1) -> list[Any]:
        return [self._schema(depth - 1, named=named) for _ in range(self.rng.randrange(least, 4))]

    def _object(self, depth: int, *, named: bool = True) -> dict[str, Any]:
        """A schema of one to four keywords, with what belongs to them."""
        rng, made = self.rng, dict[str, Any]()
        keywords = [*self._limits(), *(self._applicators(depth, named) if depth else ())]
        for draw in rng.sample(keywords, rng.randrange(1, 5)):
            made.update(draw())
        made.pop(self._left_out, None)
        return made

    def _count(self, name: str) -> dict[str, Any]:
        low, high = sorted((self.rng.randrange(3), self.rng.randrange(4)))
        both = {f"min{name}": low, f"max{name}": high}
        return {key: value for key, value in both.items() if self.rng.random() < 0.6}

    def _bounds(self) -> dict[str, Any]:
        low, high = sorted((self.rng.choice(NUMBERS), self.rng.choice(NUMBERS)))
        made: dict[str, Any] = {"minimum": low} if self.rng.random() < 0.6 else {}
        made |= {"maximum": high} if self.rng.random() < 0.6 else {}
        for key in ("minimum", "maximum"):
            if key in made and self.rng.random() < 0.4:
                exclusive = f"exclusive{key.title()}"
                made |= {exclusive: True} if not self._number else {exclusive: made.pop(key)}
        return made

    def _limits(self) -> list[Callable[[], dict[str, Any]]]:
        rng = self.rng
        kinds = lambda: rng.choice(TYPES) if rng.random() < 0.6 else rng.sample(TYPES, 2)  # noqa: E731
        found: list[Callable[[], dict[str, Any]]] = [
            lambda: {"type": kinds()},
            lambda: {"type": kinds()},
            lambda: {"type": kinds()},
            lambda: {"enum": self._listed(rng.randrange(1, 5))},
            self._bounds,
            lambda: {"multipleOf": rng.choice((1, 2, 3, 0.5, 1.5, 0.1, 0.25))},
            lambda: self._count("Length"),
            lambda: {"pattern": rng.choice(PATTERNS)},
            lambda: {"format": rng.choice(FORMATS)},
            lambda: self._count("Items"),
            lambda: {"uniqueItems": True},
            lambda: self._count("Properties"),
            lambda: {"required": rng.sample(NAMES, rng.randrange(1, 3))},
        ]
        if self._number:
            found.append(lambda: {"const": self._listed(1)[0]})
        dependent = "dependentRequired" if self._number >= 3 else "dependencies"
        found.append(lambda: {dependent: {rng.choice(NAMES): rng.sample(NAMES, rng.randrange(1, 3))}})
        return found

    def _listed(self, count: int) -> list[Any]:
        values: list[Any] = []
        while len(values) < count:
            value = (
                self.rng.choice((3.0, {"a": 1.0}, [2.0])) if self.rng.random() < 0.05 else self.instance(1)
            )
            values += [value] if all(value is not other and value != other for other in values) else []
        return values

    def _applicators(self, depth: int, named: bool) -> list[Callable[[], dict[str, Any]]]:
        rng = self.rng
        one = lambda: self._schema(depth - 1, named=named)  # noqa: E731
        some = lambda names: {name: one() for name in rng.sample(names, rng.randrange(1, 3))}  # noqa: E731
        first = "prefixItems" if self._number == 4 else "items"
        found: list[Callable[[], dict[str, Any]]] = [
            *(lambda key=key: {key: self._schemas(depth, named)} for key in ("allOf", "anyOf", "oneOf")),
            lambda: {"not": one()},
            lambda: {"properties": some(NAMES)},
            lambda: {"properties": some(NAMES), "required": rng.sample(NAMES, 1)},
            lambda: {"patternProperties": some(PATTERNS)},
            lambda: {"additionalProperties": one() if self._number else rng.choice((True, False, one()))},
            lambda: {"items": one()},
            lambda: {"items": one(), "uniqueItems": True},
            lambda: {"items": one(), "uniqueItems": True, "minItems": rng.randrange(2, 4)},
            lambda: {"patternProperties": some(PATTERNS), "additionalProperties": rng.random() < 0.3},
            lambda: {"contentMediaType": "application/json"},
        ]
        if self._number < 4:
            found.append(lambda: {"items": self._schemas(depth, named), "additionalItems": one()})
        else:
            found.append(lambda: {"prefixItems": self._schemas(depth, named)})
        if self._number >= 1:
            found += [
                lambda: {"contains": one()},
                lambda: {"contains": one(), "uniqueItems": True},
                lambda: {"propertyNames": one()},
                lambda: {"propertyNames": one(), "patternProperties": some(PATTERNS)},
            ]
        if self._number >= 2:
            found.append(lambda: {"if": one(), "then": one(), "else": one()})
        if self._number >= 3:
            found += [
                lambda: {"contains": one(), **self._count("Contains")},
                lambda: {"contains": one(), "minContains": 2, "uniqueItems": True},
                lambda: {"dependentSchemas": some(NAMES)},
                lambda: {"unevaluatedProperties": one(), "properties": some(NAMES)},
                lambda: {"anyOf": [{"properties": some(NAMES)}, one()], "unevaluatedProperties": False},
                lambda: {"unevaluatedItems": one()},
                lambda: {"anyOf": [{first: self._schemas(depth, named)}, one()], "unevaluatedItems": False},
            ]
        else:
            found.append(lambda: {"dependencies": some(NAMES)})
        return found
