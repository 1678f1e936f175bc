"""The documentation says what the library does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from constrained import UnsupportedConstraint, json_schema
from constrained.cli.exit_status import EXIT_CODES
from constrained.grammars.json_schema import SCHEMA_DIALECTS
from constrained.grammars.json_schema.text.patterns import FORMATS
from tests.tools import support_table

DOCS = Path(__file__).parent.parent / "docs"
ROWS = dict(
    re.findall(
        r"^\| `([^`]+)` \| (\w+) \|",
        (DOCS / "json-schema.md").read_text("utf-8").partition("\n## ")[0],
        re.MULTILINE,
    )
)

# A schema in which the keyword limits something.
ENFORCED: dict[str, Any] = {
    "type": ["string", "null"],
    "enum": [1, {"a": []}],
    "const": {"a": 1},
    "minimum": 1,
    "maximum": 1,
    "exclusiveMinimum": 1,
    "exclusiveMaximum": 1,
    "minLength": 1,
    "maxLength": 1,
    "format": "date",
    "prefixItems": [{"type": "null"}],
    "items": {"type": "null"},
    "minItems": 1,
    "maxItems": 1,
    "properties": {"a": {"type": "null"}},
    "required": ["a"],
    "additionalProperties": False,
    "patternProperties": {"^a": {"type": "null"}},
    "multipleOf": 0.25,
    "propertyNames": {"maxLength": 3},
    "minProperties": 2,
    "maxProperties": 1,
    "dependentRequired": {"a": ["b"]},
    "dependentSchemas": {"a": {"required": ["b"]}},
    "contains": {"type": "null"},
    "unevaluatedItems": False,
    "unevaluatedProperties": False,
    "allOf": [{"type": "null"}],
    "anyOf": [{"type": "null"}, {"type": "string"}],
    "oneOf": [{"type": "string"}, {"minLength": 2}],
}
OLD: dict[str, dict[str, Any]] = {
    "additionalItems": {"items": [{}], "additionalItems": False},
    "dependencies": {"dependencies": {"a": ["b"]}},
}
WHOLE: dict[str, dict[str, Any]] = {
    "$ref": {"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}},
    "$dynamicRef": {"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", "type": "null"}}},
    "$recursiveRef": {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "properties": {"a": {"$recursiveRef": "#"}},
    },
    "minContains": {"contains": {"type": "null"}, "minContains": 2},
    "maxContains": {"contains": {"type": "null"}, "maxContains": 2},
    "if": {"if": {"type": "null"}, "then": False},
    "then": {"if": {"type": "null"}, "then": False},
    "else": {"if": {"type": "null"}, "else": False},
}
# What is accepted, and what is refused.
PARTLY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "pattern": ({"type": "string", "pattern": "^a|b$"}, {"type": "string", "pattern": r"(a)\1"}),
    "uniqueItems": (
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        {"type": "array", "items": {"type": "object"}, "uniqueItems": True, "minItems": 100},
    ),
    "not": ({"not": {"type": "null"}}, {"maxItems": 9, "not": {"uniqueItems": True}}),
}


def statuses(schema: dict[str, Any]) -> dict[str, str]:
    return {entry.pointer: entry.status for entry in json_schema(schema).report}


def test_the_table_names_every_keyword_of_every_draft_and_no_other() -> None:
    keywords = {keyword for draft in SCHEMA_DIALECTS.values() for keyword in draft.handlers}
    own = {keyword for keyword in keywords if keyword.startswith("x-")}
    assert set(ROWS) == keywords - own
    section = (DOCS / "json-schema.md").read_text("utf-8").partition("## Keywords of this library")[2]
    assert own == set(re.findall("`(x-[a-z]+)`", section.partition("\n## ")[0]))


def test_every_row_is_tested() -> None:
    tested = {
        "enforced": {*ENFORCED, *OLD, *WHOLE},
        "partly": set(PARTLY),
        "refused": set(),
    }
    for status, keywords in tested.items():
        assert keywords == {
            keyword for keyword, documented_status in ROWS.items() if documented_status == status
        }, status


@pytest.mark.parametrize("keyword", [*ENFORCED, *OLD, *WHOLE])
def test_what_is_called_enforced_is(keyword: str) -> None:
    schema = WHOLE.get(keyword) or {keyword: ENFORCED.get(keyword)}
    if keyword in OLD:
        schema = {"$schema": "http://json-schema.org/draft-07/schema#", **OLD[keyword]}
    assert {
        documented_status
        for place, documented_status in statuses(schema).items()
        if place.endswith(f"/{keyword}")
    } == {"enforced"}


@pytest.mark.parametrize("keyword", PARTLY)
def test_what_is_called_partly_enforced_is_enforced_or_refused(keyword: str) -> None:
    accepted, refused = PARTLY[keyword]
    assert statuses(accepted)[f"#/{keyword}"] == "enforced"
    with pytest.raises(UnsupportedConstraint, match=f"#/{re.escape(keyword)}"):
        statuses(refused)


@pytest.mark.parametrize(
    "keyword", [keyword for keyword, documented_status in ROWS.items() if documented_status == "annotation"]
)
def test_what_is_called_an_annotation_limits_nothing(keyword: str) -> None:
    from constrained.grammars.json_schema.source.keywords import annotation

    assert {draft.handlers[keyword] for draft in SCHEMA_DIALECTS.values() if keyword in draft.handlers} == {
        annotation
    }


def test_the_formats_of_the_page_are_those_that_are_enforced() -> None:
    page = (DOCS / "json-schema.md").read_text("utf-8").partition("## Formats")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE) == list(FORMATS)


@pytest.mark.skipif(not support_table.RATCHET.exists(), reason="no ratchet of the official suite")
def test_the_table_of_the_official_suite_is_the_one_of_the_ratchet() -> None:
    ratchet = json.loads(support_table.RATCHET.read_text("utf-8"))
    page = support_table.PAGE.read_text("utf-8")
    assert support_table.written(page) == support_table.table(ratchet), (
        "run python tests/tools/support_table.py"
    )


def test_a_table_of_two_cases() -> None:
    rows = support_table.table(
        {"7": {"not": "ar", "optional/x": "a"}, "2020-12": {"not": "aaa"}}
    ).splitlines()
    assert rows[2] == "| not |  |  | 1 of 2 |  | all |"
    assert rows[-2:] == [
        "| optional/x |  |  | all |  |  |",
        "| all | 0 of 0 | 0 of 0 | 2 of 3 | 0 of 0 | all |",
    ]


def test_the_exit_codes_of_the_page_are_those_of_the_help() -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    documented = dict(re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE))
    helped = dict(re.findall(r"^ *(\d+)  (.+)$", EXIT_CODES, re.MULTILINE))
    assert {code: text.replace("`", "") for code, text in documented.items()} == helped
    assert len(helped) == 9


def test_links_between_pages_lead_somewhere() -> None:
    root = DOCS.parent
    for page in [root / "README.md", root / "CONTRIBUTING.md", *DOCS.glob("*.md"), DOCS / "llms.txt"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
