"""Strings that can be completed after any character: patterns that may match anywhere, with least lengths and each other."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from constrained.automaton import DEAD, compile
from constrained.automaton.bitmask import unpack_ids
from constrained.constraint import json_schema
from tests.support.finite import byte_vocabulary

SCHEMAS: dict[str, dict[str, Any]] = {
    "anywhere, not short": {"pattern": "a+-b*-c{2}", "minLength": 7},
    "two patterns anywhere": {"allOf": [{"pattern": "ab"}, {"pattern": "bc?a"}], "minLength": 3},
    "anywhere and at the end": {"allOf": [{"pattern": "ab"}, {"pattern": "b-?$"}]},
    "twice at the end": {"allOf": [{"pattern": "[ab]b$"}, {"pattern": "a[bc]$"}]},
    "never together": {"allOf": [{"pattern": "^[abc-]*$"}, {"pattern": "a"}, {"pattern": "c$"}]},
    "at the start or anywhere": {"pattern": "^a|cb-"},
    "one of several anywhere": {"pattern": "(a-|b-|^cc)c*a"},
    "an escaped character": {"pattern": "a\\\\+(b-)*c"},
    "but one word": {"allOf": [{"pattern": "b"}, {"not": {"enum": ["abc", "ab"]}}]},
    "at most once": {"pattern": "^[^a]*a[^a]*$", "minLength": 4},
    "counted": {"allOf": [{"pattern": "a.{3}b"}, {"pattern": "-{2}"}], "maxLength": 30},
}


def fulfils(text: str, schema: dict[str, Any]) -> bool:
    patterns = [schema.get("pattern", "")] + [part.get("pattern", "") for part in schema.get("allOf", ())]
    words = [word for part in schema.get("allOf", ()) for word in part.get("not", {}).get("enum", ())]
    return (
        all(re.search(pattern, text) for pattern in patterns)
        and schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 99)
        and text not in words
    )


@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_are_the_tokens_that_can_be_read(name: str) -> None:
    """Bytes are read one by one for `next`; the strings that may end are those that `re` finds right."""
    schema = {"type": "string", **SCHEMAS[name]}
    rng = random.Random(name)
    pieces = {"".join(rng.choices('aabbc-\\"', k=rng.randrange(2, 5))) for _ in range(250)}
    vocabulary = byte_vocabulary(*sorted(pieces))
    automaton = compile(json_schema(schema), vocabulary)
    mask = automaton.new_mask()
    texts = range(vocabulary.size - 1)
    seen = set()
    for _ in range(25):
        state, text = automaton.next(automaton.start, ord('"')), ""
        while state != DEAD and len(text) < 12:
            assert (automaton.next(state, ord('"')) != DEAD) == fulfils(text, schema)
            if state not in seen:
                automaton.fill_mask(state, mask)
                allowed = set(unpack_ids(mask).tolist()) - set(vocabulary.eos_ids)
                assert allowed == {token for token in texts if automaton.next(state, token) != DEAD}
                seen.add(state)
            text += (character := rng.choice("aabbc-\\"))
            for byte in json.dumps(character)[1:-1].encode():
                state = automaton.next(state, byte)
    assert len(seen) > 3
