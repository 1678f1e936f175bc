"""Hypothesis strategies for constraints as users write them: often well-formed, sometimes not."""

from __future__ import annotations

from typing import Any, Literal, Optional

from hypothesis import strategies as st

_CHARACTERS = 'ab1é€😀 "\\\n'
texts = st.text(_CHARACTERS, max_size=3)
_numbers = st.one_of(
    st.integers(-12, 12),
    st.sampled_from([0.5, -1.25, 1e-3, 1e300, -0.0]),
    st.sampled_from([10**9, 10**30, -(10**400), 2**31 - 1, 2**63]),
)
_counts = st.one_of(
    st.integers(0, 4), st.integers(0, 4), st.sampled_from([-1, 17, 10**9, 10**30, 1.5, 2.0, "3", None, True])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

# ---------------------------------------------------------------- patterns

_atoms = st.one_of(
    st.sampled_from(
        [
            *"ab1é€😀",
            ".",
            r"\d",
            r"\w",
            r"\S",
            r"\b",
            "^",
            "$",
            "[a-c]",
            "[^a]",
            r"\n",
            r"\u00e9",
            r"\x41",
            r"\p{L}",
        ]
    ),
    st.sampled_from(["(", ")", "[", "\\", "*", "{2", r"\1", "(?>a)", "[z-a]", r"\q", "\ud800", "\0"]),
)
_QUANTIFIERS = ("", "", "*", "+", "?", "*?", "{2}", "{0,3}", "{1,}", "{5,400}", "{3,1}", "{1000000000}")
_GROUPS = ("({})", "(?:{})", "(?={})", "(?!{})", "(?<={})", "(?i:{})", "{}|{}")
patterns = st.recursive(
    st.builds(str.__add__, st.one_of(st.sampled_from("ab€."), _atoms), st.sampled_from(_QUANTIFIERS)),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.builds(
            lambda shape, part, other, count: shape.format(part, other) + count,
            st.sampled_from(_GROUPS),
            inner,
            inner,
            st.sampled_from(_QUANTIFIERS),
        ),
    ),
    max_leaves=6,
)

# ---------------------------------------------------------------- JSON Schema


def _keywords(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(texts, inner, max_size=3)
    count = dict.fromkeys(
        (
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "minContains",
            "maxContains",
        ),
        _counts,
    )
    bounds = dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _numbers
    )
    one = dict.fromkeys(
        (
            "not",
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "if",
            "then",
            "else",
            "unevaluatedItems",
            "unevaluatedProperties",
        ),
        inner,
    )
    return {
        **count,
        **bounds,
        **one,
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
        **dict.fromkeys(("properties", "dependentSchemas", "$defs"), named),
        "type": st.one_of(
            st.sampled_from(_TYPES), st.lists(st.sampled_from(_TYPES), min_size=1, max_size=3, unique=True)
        ),
        "enum": st.lists(values, max_size=4),
        "const": values,
        "pattern": patterns,
        "format": st.sampled_from(["date", "uuid", "ipv4", "email", "date-time", "regex", "none"]),
        "required": st.lists(texts, max_size=3),
        "uniqueItems": st.booleans(),
        "patternProperties": st.dictionaries(patterns, inner, max_size=2),
        "dependentRequired": st.dictionaries(texts, st.lists(texts, max_size=2), max_size=2),
        "$ref": st.sampled_from(
            ["#", "#/$defs/a", "#/properties/a", "#/items", "http://example.com/x", "#a", "%"]
        ),
        "x-unknown": values,
    }


def _schema(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    known = _keywords(inner)
    chosen = st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=4, unique=True)
    sound = chosen.flatmap(lambda names: st.fixed_dictionaries({name: known[name] for name in names}))
    spoilt = st.builds(
        lambda schema, name, value: {**schema, name: value}, sound, st.sampled_from(sorted(known)), values
    )
    return st.one_of(sound, sound, sound, spoilt)


schemas = st.recursive(
    st.one_of(st.booleans(), st.sampled_from(_TYPES).map(lambda name: {"type": name})), _schema, max_leaves=5
)

# ---------------------------------------------------------------- grammars

_RULES = ("root", "a", "b")


def _bodies(literal: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    leaves = st.one_of(
        literal,
        literal,
        st.sampled_from(_RULES),
        st.sampled_from(["[a-c]", "[^b]", "[é€]", '""', "missing", "[", '"', "\\"]),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(" ".join),
            st.lists(inner, min_size=1, max_size=3).map(" | ".join),
            st.builds(
                lambda part, count: f"({part}){count}",
                inner,
                st.sampled_from(["", "*", "+", "?", "{2}", "{0,3}", "{2,}"]),
            ),
        ),
        max_leaves=5,
    )


grammars = st.tuples(*[_bodies(st.sampled_from(['"a"', '"b"', '"é"', '"ab"'])) for _ in _RULES]).map(
    lambda bodies: "\n".join(f"{name} ::= {body}" for name, body in zip(_RULES, bodies, strict=True))
)

# ---------------------------------------------------------------- Python types

_HINTS: st.SearchStrategy[Any] = st.sampled_from(
    [int, float, str, bool, None, bytes, complex, object, Any, Literal["a", 1, None]]
)
python_types = st.recursive(
    _HINTS,
    lambda inner: st.one_of(
        inner.map(lambda part: list[part]),  # type: ignore[valid-type]
        inner.map(lambda part: dict[str, part]),  # type: ignore[valid-type]
        inner.map(lambda part: Optional[part]),  # noqa: UP045 - the argument is a value here
        st.tuples(inner, inner).map(lambda parts: tuple[parts]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda parts: dict[parts[0], parts[1]]),  # type: ignore[valid-type]
    ),
    max_leaves=4,
)
