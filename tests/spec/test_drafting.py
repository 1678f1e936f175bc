"""The drafter: what each source proposes, the best-first tree, what is learned and kept, and the passes that this saves."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained.automaton import DEAD
from constrained.spec import _core
from constrained.spec.drafts import DrafterFactory, draft_counts
from constrained.spec.memory import DraftMemory, retokenizer
from constrained.spec.schema_warmup import SchemaWarmup
from constrained.spec.sources import DRAFT_SOURCES
from constrained.vocabulary import Vocabulary
from tests.spec.speculating import draft_passes
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "country": {"enum": ["Germany", "Ghana", "Greece"]},
        "visits": {"type": "array", "items": {"type": "object", "properties": {"year": {"type": "integer"}}}},
    },
    "required": ["city", "country"],
}
VALUES = [
    {"city": "Berlin", "country": "Germany", "visits": [{"year": 1999}, {"year": 2004}]},
    {"city": "Accra", "country": "Ghana", "visits": []},
    {"city": "Berlin-Mitte", "country": "Germany"},
    {"city": 'Say "Athens"\n', "country": "Greece", "visits": [{"year": 1}]},
]


@pytest.fixture(scope="module")
def automaton():
    return constrained.compile(SCHEMA, small_bpe_vocabulary())


def drafter_of(
    automaton, *sources: str, prompt: str = "", memory: DraftMemory | None = None
) -> _core.Drafter:
    """A drafter with some sources, behind a prompt."""
    factory = DrafterFactory(automaton, memory or DraftMemory(), "k", source_names=sources)
    return factory.new_drafter(automaton.vocabulary.encode(prompt))


def write(automaton, drafter: _core.Drafter, text: str) -> None:
    """Commits the tokens of a text."""
    for token in automaton.vocabulary.encode(text):
        drafter.commit(token)


def next_texts(automaton, drafter: _core.Drafter, text: str = "") -> list[str]:
    """The proposals behind a text, the likeliest first."""
    here = drafter.copy()
    write(automaton, here, text)
    return [automaton.vocabulary.tokens[token].decode() for token in here.draft(16, 1).token[1:]]


def paths(automaton, tree: _core.Tree) -> set[str]:
    """The texts of all paths of a tree."""
    pieces = automaton.vocabulary.tokens
    return {
        b"".join(pieces[tree.token[i]] for i in tree.path(node)).decode(errors="replace")
        for node in range(1, len(tree))
    }


# ---------------------------------------------------------------- sources


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ['{"city": "']),
        ('{"city', ['": "']),
        ('{"city": "x', ['", "country": "G']),
        ('{"city": "x", "country": "Germany', ['", "', '"}']),
        ('{"city":"x","country":"Germany', ['","', '"}']),
        ('{"city": "x", "country": "G', ["ermany", "hana", "reece"]),
    ],
)
def test_forced_text_runs_on_in_the_layout_of_the_text(automaton, text, wanted) -> None:
    drafter = drafter_of(automaton, "forced")
    write(automaton, drafter, text)
    drafted = paths(automaton, drafter.draft(64))
    for continuation in wanted:
        assert any(path.startswith(continuation) for path in drafted), drafted


def test_copying_finds_bytes_that_other_tokens_wrote(automaton) -> None:
    drafter = drafter_of(automaton, "prompt_lookup", prompt="We flew to Gießen-Nord last year.")
    assert "en-Nord last".startswith(next_texts(automaton, drafter, '{"city": "Gieß')[0])
    assert next_texts(automaton, drafter, '{"ci') == []  # names are not copied


def test_copied_text_is_escaped(automaton) -> None:
    drafter = drafter_of(automaton, "prompt_lookup", prompt='the so-called "quoted" thing')
    assert next_texts(automaton, drafter, '{"city": "so-called ')[0].startswith("\\")


def test_ngrams_prefer_the_longest_context(automaton) -> None:
    drafter = drafter_of(automaton, "ngram", prompt="zxBzxBzxBqxA")
    assert next_texts(automaton, drafter, '{"city": "qx') == ["A", "B"]


def test_what_an_assistant_would_write_is_a_path_as_far_as_the_automaton_allows_it(automaton) -> None:
    drafter, ids = drafter_of(automaton, "assistant"), automaton.vocabulary.ids_by_bytes
    write(automaton, drafter, '{"city": "x')
    text = [(ids[bytes([byte])], 0.9) for byte in b'yz", no']
    drafted = paths(automaton, drafter.draft(16, 16, text))
    assert {"y", "yz", 'yz"', 'yz",'} <= drafted
    assert all('yz", '.startswith(path) for path in drafted)  # a name follows
    assert paths(automaton, drafter.draft(16)) == set()  # it is asked before each pass


def test_an_assistant_that_names_no_token_is_refused(automaton) -> None:
    drafter = drafter_of(automaton, "assistant")
    with pytest.raises(IndexError, match="outside the vocabulary"):
        drafter.draft(16, 16, [(10**6, 0.5)])
    with pytest.raises(ValueError, match="above 0 and up to 1"):
        drafter.draft(16, 16, [(1, 0.0)])


def test_a_slot_has_the_tokens_that_stood_in_it(automaton) -> None:
    memory = DraftMemory()
    write(automaton, drafter_of(automaton, "slot_ngrams", memory=memory), '{"city": "Q", "country": "Ghana"}')
    drafter = drafter_of(automaton, "slot_ngrams", memory=memory)
    assert next_texts(automaton, drafter, '{"city": "')[0] == "Q"
    assert next_texts(automaton, drafter, '{"city": "other", "country": "')[0] in "Ghana"


def test_favourites_of_a_slot_are_asked_for_where_it_begins_and_proposed_in_it(automaton) -> None:
    vocabulary = automaton.vocabulary
    factory = DrafterFactory(automaton, DraftMemory(), "k", source_names=("slot_favourites",))
    opening = vocabulary.encode('{"city": "')
    factory.prime(vocabulary.encode("{"), [opening])
    drafter = factory.new_drafter([])
    probe = drafter.probe(9)
    assert [vocabulary.decode([probe.token[i] for i in probe.path(node)]) for node in probe.asked][
        -1
    ] == b'{"city": "'
    drafter.observe_slot(probe.asked[-1], [vocabulary.ids_by_bytes[b"Q"]], True)
    assert next_texts(automaton, drafter, '{"city": "') == ["Q"]
    write(automaton, drafter, "{")
    assert len(drafter.probe(9)) == 1  # nothing is asked behind the first token


# ---------------------------------------------------------------- trees


@pytest.mark.parametrize("chains", [False, True])
@pytest.mark.parametrize("names", [DRAFT_SOURCES, ("forced", "ngram"), ("prompt_lookup",)])
def test_a_tree_is_the_likeliest_that_the_automaton_allows(automaton, names, chains) -> None:
    memory, rng, vocabulary = DraftMemory(), random.Random(1), automaton.vocabulary
    factory = DrafterFactory(automaton, memory, "k", source_names=names, chain_drafts=chains)
    sizes = 0
    for value in VALUES * 2:
        drafter = factory.new_drafter(vocabulary.encode("Berlin, Germany, and Berlin-Mitte in 1999"))
        for token in vocabulary.encode(json.dumps(value, ensure_ascii=False)):
            nodes, depth = rng.choice([1, 5, 20, 64]), rng.choice([2, 40])
            tree, wide = drafter.copy().draft(nodes, depth), drafter.draft(64, depth)
            assert len(tree) <= nodes + 1
            assert max(tree.depth) <= depth
            # The best tree of fewer nodes is the beginning of that of more.
            assert list(tree.token) == list(wide.token)[: len(tree)]
            assert list(tree.path_probability) == sorted(tree.path_probability, reverse=True)
            for node in range(1, len(tree)):
                parent = tree.parent[node]
                assert parent < node
                assert tree.child(parent, tree.token[node]) == node
                assert tree.path(node) == [*tree.path(parent), node]
                assert tree.token[node] not in vocabulary.eos_ids
                assert tree.state[node] == automaton.next(tree.state[parent], tree.token[node]) != DEAD
                assert tree.sources[node]
            for parent in range(len(tree)):
                shares = [tree.path_probability[i] for i in range(1, len(tree)) if tree.parent[i] == parent]
                assert sum(shares) <= tree.path_probability[parent] + 1e-9
                assert not chains or len(shares) <= 1
            drafter.commit(token)
            sizes += len(tree) - 1
    assert sizes > 50


def test_a_source_that_is_always_wrong_is_not_believed(automaton) -> None:
    drafter, ids = drafter_of(automaton, "assistant"), automaton.vocabulary.ids_by_bytes
    write(automaton, drafter, '{"city": "x')
    promised = []
    for _ in range(200):
        promised.append(drafter.draft(1, 1, [(ids[b"y"], 0.9)]).path_probability[1:])
        write(automaton, drafter, "x")
    assert promised[0][0] > 0.1
    assert sum(promised[-1]) < 0.05


@given(st.lists(st.sampled_from(range(len(VALUES))), min_size=1, max_size=4))
def test_a_copy_drafts_what_the_original_would(order: list[int]) -> None:
    automaton = constrained.compile(SCHEMA, small_bpe_vocabulary())
    factory = DrafterFactory(automaton, DraftMemory(), "k")
    for number in order:
        drafter = factory.new_drafter([])
        write(automaton, drafter, json.dumps(VALUES[number])[:20])
        assert list(drafter.copy().draft(20).token) == list(drafter.draft(20).token)


# ---------------------------------------------------------------- bytes as tokens


@given(st.text(max_size=40), st.text(max_size=60))
def test_a_piece_begins_the_text_that_it_is_cut_from(before: str, text: str) -> None:
    vocabulary = small_bpe_vocabulary()
    piece = retokenizer(vocabulary).next(before.encode(), text.encode())
    assert (piece is None) == (not text)
    if piece is not None:
        assert text.encode().startswith(vocabulary.tokens[piece[0]])


def test_pieces_that_cross_words_are_found() -> None:
    rng = random.Random(5)
    alphabet = [bytes([byte]) for byte in b' \n",:{}aZ1' + "é".encode()]

    def some(longest: int) -> bytes:
        return b"".join(rng.choices(alphabet, k=rng.randrange(longest)))

    tokens = [bytes([byte]) for byte in range(256)]
    tokens += sorted({some(5) for _ in range(300)} | {some(80) for _ in range(60)} - {b"", *tokens})
    vocabulary = Vocabulary.from_bytes([*tokens, b"<end>"], [len(tokens)])
    native, crossed = retokenizer(vocabulary), 0
    for _ in range(2000):
        before = some(40)
        text = b"".join(rng.choices(tokens, k=rng.randrange(4)))[: rng.choice([3, 39, 40, 90])]
        piece = native.next(before, text)
        assert piece is None or text.startswith(vocabulary.tokens[piece[0]])
        crossed += piece is not None and len(vocabulary.tokens[piece[0]]) > 20
    assert crossed > 20


def test_pieces_are_mostly_what_the_tokenizer_writes() -> None:
    vocabulary = small_bpe_vocabulary()
    text = " ".join(json.dumps(value, ensure_ascii=False) for value in VALUES).encode()
    pieces, native, at = [], retokenizer(vocabulary), 0
    while at < len(text):
        pieces.append(native.next(text[:at], text[at:])[0])
        at += len(vocabulary.tokens[pieces[-1]])
    wanted = vocabulary.encode(text)
    assert vocabulary.decode(pieces) == text
    assert len(set(wanted) & set(pieces)) > 0.7 * len(set(wanted))


# ---------------------------------------------------------------- what is learned


@pytest.mark.parametrize("name", DRAFT_SOURCES)
def test_each_source_alone_is_accepted(automaton, name) -> None:
    """Over texts of one schema, behind a prompt that has their values."""
    vocabulary, memory = automaton.vocabulary, DraftMemory()
    factory = DrafterFactory(automaton, memory, "k", source_names=(name,))
    factory.prime(vocabulary.encode("{"), [vocabulary.encode('{"city": "')])
    accepted = 0
    for value in VALUES * 2:
        text = json.dumps(value, ensure_ascii=False)
        drafter = factory.new_drafter(vocabulary.encode(f"{value['city']}: a visit in 1999"))
        probe = drafter.probe(9)
        for node in probe.asked:
            drafter.observe_slot(node, vocabulary.encode(value["city"])[:1], True)
        tokens = vocabulary.encode(text)
        for at, token in enumerate(tokens):
            assisted = [(one, 0.5) for one in tokens[at:]]
            drafter.mark_verified(len(drafter.draft(16, assisted=assisted)) - 1)
            drafter.commit(token)
        counts = draft_counts(drafter)
        assert counts.accepted <= counts.drafted
        assert set(counts.by_source) <= {name}
        accepted += counts.accepted
    assert accepted > 0


def test_a_schema_seen_before_takes_few_passes(automaton) -> None:
    vocabulary = automaton.vocabulary
    drafts = DrafterFactory(automaton, DraftMemory(), "k")
    passes = []
    for number in range(6):
        value = VALUES[0] | {"city": f"Town {number}"}
        tokens, one, at = vocabulary.encode(json.dumps(value)), drafts.new_drafter([]), 0
        passes.append(0)
        while at < len(tokens):
            tree, node = one.draft(64), 0
            one.mark_verified(len(tree) - 1)
            passes[-1] += 1
            while at < len(tokens):
                one.commit(tokens[at])
                node = tree.child(node, tokens[at])
                at += 1
                if node < 0:
                    break
    assert passes[-1] * 3 < passes[0]
    assert passes[-1] <= 5


def test_trees_promise_about_as_many_tokens_as_come(automaton) -> None:
    """A ratchet: the sum of path probabilities against accepted draft tokens, once the mixture has learned."""
    vocabulary, rng = automaton.vocabulary, random.Random(5)
    drafts = DrafterFactory(automaton, DraftMemory(), "k")
    promised = accepted = 0.0
    for number in range(120):
        value = rng.choice(VALUES) | {
            "city": f"{rng.choice(['Old', 'New', 'Port'])} Town {rng.randrange(30)}"
        }
        tokens, one, at = vocabulary.encode(json.dumps(value)), drafts.new_drafter([]), 0
        while at < len(tokens):
            tree, node = one.draft(32), 0
            one.mark_verified(len(tree) - 1)
            promised += sum(tree.path_probability[1:]) if number >= 60 else 0
            while at < len(tokens) and node >= 0:
                one.commit(tokens[at])
                node = tree.child(node, tokens[at])
                accepted += node > 0 and number >= 60
                at += 1
    assert 0.5 < promised / accepted < 1.25


def test_the_tables_of_all_constraints_are_bounded(automaton, monkeypatch) -> None:
    memory = DraftMemory()
    text = automaton.vocabulary.encode(json.dumps(VALUES[0]))
    sizes = {}
    for name in "abcd":
        drafter = DrafterFactory(automaton, memory, name).new_drafter([])
        for token in text:
            drafter.commit(token)
        sizes[name] = memory.core.bytes_of(memory.for_constraint(name).core)
    assert sizes["a"] == sizes["d"] > 96 * len(text)
    kept = memory.for_constraint("a")
    monkeypatch.setattr("constrained.spec.memory.MAX_BYTES", 2 * sizes["a"])
    assert memory.for_constraint("a") is kept  # the most recently used one
    fresh = {name: memory.for_constraint(name).size < sizes["a"] for name in "adcb"}
    assert fresh == {"a": False, "d": False, "c": True, "b": True}
    monkeypatch.setattr("constrained.spec.memory.MAX_BYTES", 1)
    assert memory.for_constraint("a") is memory.for_constraint("a")


def test_tables_that_were_evicted_are_primed_again(automaton, monkeypatch) -> None:
    memory = DraftMemory()
    factory = DrafterFactory(automaton, memory, "a")
    openings = [automaton.vocabulary.encode('{"city": "')]
    factory.prime(automaton.vocabulary.encode("{"), openings)
    assert len(factory.new_drafter([]).probe(9)) > 1
    known = memory.for_constraint("a")
    monkeypatch.setattr("constrained.spec.memory.MAX_CONSTRAINTS", 1)
    DrafterFactory(automaton, memory, "b").new_drafter([])
    assert memory.for_constraint("a") is not known
    assert len(factory.new_drafter([]).probe(9)) > 1


def test_a_memory_is_kept_in_a_file(automaton, tmp_path) -> None:
    vocabulary = automaton.vocabulary

    learned = DraftMemory()
    for value in VALUES:
        one = DrafterFactory(automaton, learned, "k").new_drafter([])
        for token in vocabulary.encode(json.dumps(value)):
            one.commit(token)
    path = tmp_path / "memory.npz"
    learned.save(path, vocabulary.fingerprint)
    loaded = DraftMemory.load(path, vocabulary.fingerprint, vocabulary.size)
    assert loaded.core.dump_tables() == learned.core.dump_tables()
    assert loaded.core.dump_calibration()[1] == learned.core.dump_calibration()[1]
    tokens = vocabulary.encode(json.dumps(VALUES[0]))
    known, unknown = (draft_passes(automaton, one, "another key", tokens) for one in (loaded, DraftMemory()))
    assert known < unknown
    with pytest.raises(ValueError, match="another"):
        DraftMemory.load(path, "of another vocabulary", vocabulary.size)
    with pytest.raises(ValueError, match="table of counts"):
        DraftMemory.load(path, vocabulary.fingerprint, 5)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="is not a draft memory"):
        DraftMemory.load(path, vocabulary.fingerprint, vocabulary.size)


def test_the_names_of_a_schema_are_rehearsed_in_their_order() -> None:
    schema = {
        "$defs": {"place": {"properties": {"lat": {}, "lon": {}}, "required": ["lat"]}},
        "allOf": [{"$ref": "#/$defs/place"}, {"properties": {"name": {}}}],
        "properties": {"tags": {"items": {"anyOf": [{"properties": {"t": {}}}]}}, "again": {"$ref": "#"}},
    }
    value = SchemaWarmup(schema).example_value()
    assert list(value) == ["tags", "again", "lat", "lon", "name"]
    assert value["tags"] == [{"t": 0}, {"t": 0}]
    assert list(value["again"]) == list(value)
    endless = {"$ref": "#"}
    assert SchemaWarmup(endless).example_value() == 0
    assert SchemaWarmup(True).example_value() == 0
    wide = {"properties": {str(i): {"$ref": "#"} for i in range(20)}}
    assert SchemaWarmup(wide).example_value()


def test_a_rehearsed_schema_takes_fewer_passes(automaton) -> None:
    tokens = automaton.vocabulary.encode(json.dumps(VALUES[0]))
    rehearsed = DraftMemory()
    example = automaton.vocabulary.encode(json.dumps(SchemaWarmup(SCHEMA).example_value()))
    DrafterFactory(automaton, rehearsed, "k").prime(example)
    passes = [draft_passes(automaton, memory, "k", tokens) for memory in (rehearsed, DraftMemory())]
    assert passes[0] < passes[1]
