from __future__ import annotations

import gzip
import json
import random
from importlib import resources

import pytest

from constrained.automaton import compile
from constrained.bench.prior.counts import common_counts, events
from constrained.bench.replay.slots import ORDERS, openings
from constrained.constraint import json_schema
from constrained.spec import _core
from constrained.spec.drafts import DrafterFactory
from constrained.spec.memory import DraftMemory, retokenizer
from constrained.spec.packing import packed, unpacked
from constrained.spec.prior import DraftPrior, new_memory, shipped_prior
from tests.spec.speculating import draft_passes
from tests.support.structural_tags import BYTES as VOCABULARY

VALUES = (
    {"name": 'Ada "L." \\ ä', "at": {"lat": -1.5, "tags": ["a", "Bc 1", ["x"], {"k": None}]}, "n": 12345},
    [
        {"id": 1, "on": True, "text": "The end of the line, at last: 12 of 12 and a good deal more"},
        [],
        {},
        "",
    ],
)


def _table(numbers: list[int]) -> dict[int, dict[int, int]]:
    """Key -> token -> count."""
    width = 2 + 2 * 10
    rows = [numbers[at : at + width] for at in range(0, len(numbers), width)]
    return {row[0]: dict(zip(row[2 : 2 + 2 * row[1] : 2], row[3::2], strict=False)) for row in rows}


def _learned(texts: list[str]) -> tuple[dict[int, dict[int, int]], dict[int, dict[int, int]]]:
    """The tables of a drafter that read the texts token by token: n-grams and slots."""
    memory = DraftMemory()
    automaton = compile(json_schema({}), VOCABULARY)
    for text in texts:
        one = DrafterFactory(automaton, memory, "k").new_drafter([])
        for token in VOCABULARY.encode(text):
            one.commit(token)
    ngrams, slots = memory.core.dump_tables()
    return _table(ngrams), _table(slots)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("indent", [None, 2])
def test_openings_end_in_the_slots_that_drafters_learn(value, indent) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    _, slots = _learned([text])
    pieces = retokenizer(VOCABULARY)
    for order in ORDERS:
        taught = _core.Memory()
        for word, found in openings(text):
            if order in found:
                # The shape of a place stands for those behind it, too, which differ in length.
                taught.teach_slots(pieces, order, found[order], [(word if order < 5 else word[0], 1)])
        table = _table(taught.dump_tables()[1])
        assert len(table) > 5
        for key, tokens in table.items():
            assert key in slots, "no drafter looks there"
            for token, count in tokens.items():
                # The least frequent of more than ten tokens leave an entry, so counts are compared where none did.
                assert len(slots[key]) == 10 or slots[key][token] >= count


def test_ngrams_are_taught_as_drafters_learn_them() -> None:
    text = json.dumps(VALUES[1])
    ngrams, _ = _learned([text])
    taught = _core.Memory()
    for order, before, word in events(text):
        if order == 0:
            first, _, rest = before.partition("\0")
            taught.teach_ngrams(retokenizer(VOCABULARY), first + rest, len(first), [(word, 1)])
    table = _table(taught.dump_tables()[0])
    assert len(table) > 100
    for key, tokens in table.items():
        assert len(ngrams[key]) == 10 or tokens == ngrams[key]


def test_only_what_occurs_under_several_schemas_is_kept() -> None:
    rng = random.Random(3)
    words = ["red", "green", "blue", "violet"]
    schemas = [[json.dumps({"colour": rng.choice(words), f"own{i}": i}) for _ in range(3)] for i in range(12)]
    kept = common_counts(schemas, 4, 16)
    seen: dict[tuple[int, str, str], set[int]] = {}
    count: dict[tuple[int, str, str], int] = {}
    for i, texts in enumerate(schemas):
        for text in texts:
            for event in events(text):
                seen.setdefault(event, set()).add(i)
                count[event] = count.get(event, 0) + 1
    found = {
        (o, opening, word): n
        for o, by in kept.items()
        for opening, ws in by.items()
        for word, n in ws.items()
    }
    assert found == {event: count[event] for event, under in seen.items() if len(under) >= 4}
    assert "own" in "".join(seen_word for _, _, seen_word in seen)
    assert not any('own1"' in opening + word for _, opening, word in found)


@pytest.mark.parametrize("seed", range(20))
def test_packed_counts_are_the_counts(seed: int) -> None:
    rng = random.Random(seed)
    words = ["a", "b", "ab", "ba", "\0", "ä\n"]
    table = {
        "".join(rng.choices(words, k=rng.randrange(5))): {
            word: rng.randrange(1, 9) for word in rng.sample(words, rng.randrange(1, 4))
        }
        for _ in range(rng.randrange(40))
    }
    columns = json.loads(json.dumps(packed(table)))
    assert unpacked(columns) == table
    assert packed(dict(reversed(table.items()))) == columns
    for name, column in columns.items():
        if column:
            with pytest.raises(ValueError, match=r"short|long"):
                unpacked(columns | {name: column[:-1]})
            with pytest.raises(ValueError, match=r"short|long"):
                unpacked(columns | {name: [*column, column[-1]]})


def test_the_prior_of_the_library_is_small() -> None:
    assert resources.files("constrained.spec").joinpath("prior.json.gz").stat().st_size <= 300_000
    assert sum(map(len, shipped_prior().slots.values())) > 20_000


def test_a_prior_is_kept_in_a_file(tmp_path) -> None:
    kept = common_counts([[json.dumps(value)] for value in VALUES] * 2, 2, 16)
    prior = DraftPrior({"a": 1}, frozenset({7}), {o: kept[o] for o in ORDERS}, kept[0], ((3, 1.5, 2.0),), ())
    path = tmp_path / "prior.json.gz"
    prior.save(path)
    loaded = DraftPrior.load(path.read_bytes())
    assert loaded == prior
    assert loaded.memory(VOCABULARY).core.dump_tables() == prior.memory(VOCABULARY).core.dump_tables()
    for broken in (path.read_bytes()[:-9], b"", gzip.compress(b"[1]"), gzip.compress(b'{"format": 9}')):
        with pytest.raises(ValueError, match="not a draft prior"):
            DraftPrior.load(broken)


def test_the_prior_of_the_library_is_small_and_saves_passes() -> None:
    prior = shipped_prior()
    assert len(prior.learned) > 1000
    assert sum(map(len, prior.slots.values())) > 5000
    schema = {
        "properties": {"name": {"type": "string"}, "email": {"type": "string"}, "count": {"type": "integer"}}
    }
    automaton = compile(json_schema(schema), VOCABULARY)
    tokens = VOCABULARY.encode('{"name": "John Smith", "email": "john.smith@example.com", "count": 10}')
    known, unknown = (
        draft_passes(automaton, memory, "k", tokens) for memory in (new_memory(VOCABULARY), DraftMemory())
    )
    assert known < 0.8 * unknown


def test_memories_that_begin_with_the_prior_are_independent() -> None:
    begun = new_memory(VOCABULARY).core.dump_tables()
    one = new_memory(VOCABULARY)
    automaton = compile(json_schema({}), VOCABULARY)
    drafter = DrafterFactory(automaton, one, "k").new_drafter([])
    for token in VOCABULARY.encode('{"zzz": 1}'):
        drafter.commit(token)
    assert one.core.dump_tables() != begun
    assert new_memory(VOCABULARY).core.dump_tables() == begun
