"""What is decided keeps to the schema, whatever its draft: decided members are narrowed in the words of the draft."""

from __future__ import annotations

import gzip
import json
import os
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import constrained
from constrained.errors import ConstrainedError
from constrained.extraction import Extractor, closed_members
from tests.extraction.test_phrases import Wishing

DATA = os.environ.get("CONSTRAINED_DATA")
TEXT = "Ada Lim of Lim Ltd ordered 3 lamps and two chairs on 4 August 2025, for 240 euros.\nItems:\n- lamp\n- chair"
MEMBERS: dict[str, Any] = {
    "name": {"type": "string"},
    "note": {"type": "string"},
    "paid": {"type": "boolean"},
    "kind": {"enum": ["order", "offer"]},
    "lamps": {"type": "integer"},
    "email": {"type": ["string", "null"]},
    "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SCHEMA = {
    "type": "object",
    "properties": MEMBERS,
    "required": ["name", "email"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "draft",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_decided_members_keep_to_schemas_of_all_drafts(draft: str) -> None:
    """``const`` says nothing in draft 4, and any value was written where true was decided."""
    schema = {"$schema": draft, **SCHEMA}
    found = Extractor(Wishing({"name": {"Ada Lim": 9.0}, "lamps": {"3": 9.0}}), schema)(TEXT)
    assert {"/paid", "/kind", "/name", "/note", "/email"} <= set(found.decisions)
    assert list(jsonschema.validators.validator_for(schema)(schema).iter_errors(found.value)) == []
    assert (found.value["name"], found.value["email"]) == ("Ada Lim", None)
    assert not {"note", "address"} & set(found.value)


@pytest.mark.ci
@pytest.mark.skipif(not DATA, reason="CONSTRAINED_DATA is not set")
@pytest.mark.parametrize("part", range(4))
def test_what_is_extracted_under_real_schemas_is_valid(part: int) -> None:
    model, judged = constrained.load(None), 0
    with gzip.open(Path(DATA or "") / "maskbench-dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        schemas = [json.loads(line)["schema"] for line in list(lines)[part::160] if len(line) < 20_000]
    for schema in schemas:
        try:
            extractor = Extractor(model, schema, on_limit="close", max_tokens=120)
            found = extractor(TEXT)
        except ConstrainedError:  # invalid, or no value of so few tokens
            continue
        assert extractor.generator.constraint.problems(found.text) == [], schema
        judged += 1
    assert judged > len(schemas) / 2


def test_a_type_with_very_many_members_is_written_by_the_model() -> None:
    """All of them are asked about in one pass: of 12,000 it would need gigabytes."""
    many = {f"member_{i}": {"type": "string"} for i in range(closed_members.MOST_MEMBERS + 1)}
    schema: Any = {"type": "object", "properties": many}
    few: Any = {"type": "object", "properties": dict(islice(many.items(), 20))}
    assert not Extractor(constrained.load(), schema, max_tokens=200)(TEXT).decisions
    assert Extractor(constrained.load(), few, max_tokens=200)(TEXT).decisions
