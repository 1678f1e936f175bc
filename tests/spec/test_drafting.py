"""The reference drafter: its sources and its best-first tree; the native drafter builds equal trees."""

from __future__ import annotations

import functools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained.spec.drafts import DrafterFactory, DrafterProtocol, draft_counts
from constrained.spec.memory import DraftMemory, retokenizer
from constrained.spec.rehearsal import SchemaWarmup
from constrained.spec.sources import DRAFT_SOURCES
from constrained.vocabulary import Vocabulary
from tests.reference.spec.builder import build_draft
from tests.reference.spec.calibration import AcceptanceCalibration
from tests.reference.spec.context import DraftContext, DraftRequest
from tests.reference.spec.drafter import ReferenceDrafter
from tests.reference.spec.json_path import JSON_START, advance
from tests.reference.spec.layout import USUAL, LayoutReader, read_layout
from tests.reference.spec.memory import ReferenceMemory
from tests.reference.spec.mixer import Mixer
from tests.reference.spec.retokenizer import Retokenizer
from tests.reference.spec.sources import (
    DocumentSpans,
    DraftSource,
    ForcedTokens,
    MemberNames,
    PromptLookup,
    TokenNGrams,
)
from tests.reference.spec.sources.counts import ContextCounts, witten_bell_blend
from tests.reference.spec.tree import ReferenceDraftTree
from tests.spec.speculating import draft_passes
from tests.support.paths import ROOT
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


def place(automaton, text: str = "", prompt: str = "") -> DraftContext:
    vocabulary = automaton.vocabulary
    request = DraftRequest(automaton, Retokenizer(vocabulary))
    here = DraftContext.start(request, automaton.start, tuple(vocabulary.encode(prompt)))
    for token in vocabulary.encode(text):
        here = here.advance(token, automaton.next(here.state, token))
    return here


def proposed_texts(automaton, draft_tokens) -> set[bytes]:
    return {automaton.vocabulary.tokens[token] for token, _, _ in draft_tokens}


class Fixed(DraftSource):
    """Equal proposals everywhere."""

    def __init__(self, *draft_tokens: tuple[int, float]) -> None:
        self.proposals = [(token, p, 0) for token, p in draft_tokens]

    def propose(self, place):
        return self.proposals


class Free:
    """An automaton that allows every token but one."""

    start = 1

    def __init__(self, vocabulary, refused: int) -> None:
        self.vocabulary, self.refused = vocabulary, refused

    def next(self, state, token):
        return 0 if token == self.refused else 1

    def accepts(self, state):
        return True

    def forced(self, state):
        return b""


@given(st.lists(st.tuples(st.integers(1, 20), st.floats(0.01, 0.99)), min_size=1, max_size=5, unique_by=lambda g: g[0]),
       st.integers(1, 30), st.integers(1, 5))  # fmt: skip
def test_the_tree_holds_the_likeliest_nodes(draft_tokens, nodes, depth) -> None:
    automaton = Free(small_bpe_vocabulary(), refused=7)
    here = DraftContext.start(DraftRequest(automaton, Retokenizer(automaton.vocabulary)), 1)
    tree = build_draft(here, [Fixed(*draft_tokens)], AcceptanceCalibration(), Mixer(), nodes, depth).tree
    assert len(tree) <= nodes + 1
    assert max(tree.depth) <= depth
    assert 7 not in tree.token
    assert tree.path_probability == sorted(tree.path_probability, reverse=True)
    # By exhaustion: no path that was left out is likelier than the least one that is in.
    total = sum(p for _, p in draft_tokens)
    if total > 1:  # the tokens share: those that are refused leave first, if they are worth the question
        total = max(1.0, sum(p for token, p in draft_tokens if token != 7 or p < 0.02))
    able = [(token, p / max(1.0, total)) for token, p in draft_tokens if token != 7]
    paths: list[float] = []
    layer = [1.0]
    for _ in range(depth):
        layer = [pi * p for pi in layer for _, p in able]
        layer = sorted(layer, reverse=True)[: nodes + 1]
        paths += [pi for pi in layer if pi >= 1e-5]
    assert sorted(tree.path_probability[1:]) == pytest.approx(sorted(sorted(paths, reverse=True)[:nodes]))


def test_two_sources_that_say_the_same_are_one_node() -> None:
    automaton = Free(small_bpe_vocabulary(), refused=7)
    here = DraftContext.start(DraftRequest(automaton, Retokenizer(automaton.vocabulary)), 1)
    draft = build_draft(
        here, [Fixed((3, 0.5)), Fixed((3, 0.6), (4, 0.1))], AcceptanceCalibration(), Mixer(), 2, 1
    )
    tree = draft.tree
    node = tree.child(0, 3)
    assert tree.path_probability[node] == pytest.approx(0.6)
    assert tree.sources[node] == 0b11
    assert tree.sources[tree.child(0, 4)] == 0b10


def test_a_tree_is_walked_along_its_children() -> None:
    tree = ReferenceDraftTree(1)
    a = tree.add(0, 10, 1, 0.9)
    b = tree.add(0, 11, 1, 0.5)
    c = tree.add(a, 11, 1, 0.4)
    assert (tree.child(0, 10), tree.child(0, 11), tree.child(a, 11), tree.child(b, 11)) == (a, b, c, -1)
    assert tree.path(c) == [a, c]
    assert tree.follow([10, 11, 12]) == [a, c]
    assert sorted(tree.children(0)) == [a, b]


def test_calibration_believes_what_happened() -> None:
    calibration = AcceptanceCalibration()
    assert calibration.probability(1, 0.9) == 0.9
    for _ in range(100):
        calibration.record(1, accepted=False)
    assert calibration.probability(1, 0.9) < 0.05
    for _ in range(20_000):
        calibration.record(1, accepted=True)
    assert calibration.probability(1, 0.1) > 0.95  # old failures are outweighed
    assert calibration.probability(2, 0.3) == 0.3


def test_forced_proposes_forced_tokens_and_literals_alternatives(automaton) -> None:
    forced = ForcedTokens()
    assert proposed_texts(automaton, forced.propose(place(automaton, '{"ci'))) == {b"ty"} or proposed_texts(
        automaton, forced.propose(place(automaton, '{"ci'))
    )
    draft_tokens = proposed_texts(automaton, forced.propose(place(automaton, '{"city": "x", "country": "')))
    assert all(
        any(name.startswith(draft_token) for name in (b"Germany", b"Ghana", b"Greece"))
        for draft_token in draft_tokens
    )
    assert draft_tokens
    free = proposed_texts(automaton, forced.propose(place(automaton, '{"city": "x')))
    assert all(token.startswith(b'"') for token in free)  # free text, that may end


@pytest.mark.parametrize(
    ("text", "layout", "wanted"),
    [
        ("", USUAL, [('{"city": "', 1)]),
        ('{"city', USUAL, [('": "', 1)]),
        ('{"city": "x', USUAL, [('", "country": "G', 0), ('", "country": "G', 0)]),
        ('{"city": "x", "country": "Germany', USUAL, [('", "', 1), ('"}', 1)]),
        ('{"city":"x","country":"Germany', (b"",) * 5, [('","', 1), ('"}', 1)]),
        ('{"city": "x", "country": "Gh', USUAL, [('ana", "', 4), ('ana"}', 4)]),
        ('{"city": "x", "country": "G', USUAL, [("ermany", 0), ("hana", 0), ("reece", 0)]),
        ('{\n  "city": "x"', (b" ", b"\n", b"\n", b"\n", b"\n"), [(",", 0)]),
    ],
)
def test_continuations_run_on_in_the_layout_of_the_text(automaton, text, layout, wanted) -> None:
    found = ForcedTokens(layout).continuations(place(automaton, text))
    for start, forced in wanted:
        assert any(one.text.startswith(start.encode()) and one.forced == forced for one in found), found


def test_the_layout_is_that_of_the_text_so_far() -> None:
    text = b'{\n  "a": "x, y: [z", "b": [1,2]}'
    assert read_layout(LayoutReader(), USUAL, text) == (b" ", b"", b"\n", b"", b"")
    assert read_layout(LayoutReader(), USUAL, text[:20]) == (b" ", b" ", b"\n", b"", b"")


def test_copying_finds_bytes_that_other_tokens_wrote(automaton) -> None:
    source = PromptLookup("We flew to Gießen-Nord last year.".encode())
    here = place(automaton, '{"city": "Gie')
    draft_tokens = source.propose(here)
    assert draft_tokens
    token = automaton.vocabulary.tokens[draft_tokens[0][0]]
    assert "ßen-Nord last".encode().startswith(token)
    assert not source.propose(place(automaton, '{"ci'))  # names are not copied


def test_copied_text_is_escaped(automaton) -> None:
    source = PromptLookup(b'the so-called "quoted" thing')
    draft_tokens = source.propose(place(automaton, '{"city": "so-called '))
    assert automaton.vocabulary.tokens[draft_tokens[0][0]].startswith(b"\\")


def test_names_are_those_that_can_still_come(automaton) -> None:
    objects = {(b"",): [(b'"city"', True), (b'"name"', False), (b'"visits"', True), (b'"note"', False)]}
    source = MemberNames(objects, lambda: USUAL)
    for text, wanted in (
        ('{"', ["city", "name", "visits", "note"]),
        ('{"city": "x", "', ["name", "visits", "note"]),
        ('{"city": "x", "n', ["ame", "ote"]),
        ('{"other": "x", "', ["city", "name", "visits", "note"]),
        ('{"city": "x"', []),
        ('{"visits": [{"', []),
    ):
        found = [
            automaton.vocabulary.tokens[token].decode()
            for token, _, _ in source.propose(place(automaton, text))
        ]
        assert len(found) <= len(wanted)
        assert all(any(name.startswith(one) for name in wanted) for one in found), (text, found)
        assert bool(found) == bool(wanted)
        assert not wanted or wanted[0].startswith(found[0])


def test_spans_are_words_that_no_value_has_used(automaton) -> None:
    vocabulary, shapes = automaton.vocabulary, {}
    source = DocumentSpans(
        b"Zoe went to Bonn on 2004-01-02 and paid 1,234 to xyz@example.org.", shapes, lambda: USUAL
    )

    def found(text: str) -> list[bytes]:
        return [vocabulary.tokens[token] for token, _, _ in source.propose(place(automaton, text))]

    def write(text: str, more: str) -> None:
        here = place(automaton, text)
        for token in vocabulary.encode(more):
            source.learn(here, token)
            here = here.advance(token, here.state)

    assert b"Zoe".startswith(found('{"city": "')[0])
    assert all(
        b"1234 ".lstrip().startswith(one.strip()) for one in found('{"city": "x", "visits": [{"year":')
    )
    assert not found('{"ci')
    assert not found('{"city": "Z')
    write('{"city": "', 'Zoe"')
    assert shapes == {b'"city"': [0, 0, 0, 0, 0, 1, 0]}
    assert b"Bonn".startswith(found('{"city": "')[0])  # the other capitalised word
    write('{"city": "x", "visits": [{"year": ', "1234}")
    assert not found('{"city": "x", "visits": [{"year":')


def test_ngrams_prefer_the_longest_context(automaton) -> None:
    source = TokenNGrams(ContextCounts())
    source.learn_prompt([1, 2, 3, 9, 2, 3, 8, 1, 2, 3])
    request = DraftRequest(automaton, Retokenizer(automaton.vocabulary))
    draft_tokens = source.propose(DraftContext(request, 1, (1, 2, 3), b"", None))
    assert draft_tokens[0][0] == 9
    assert {token for token, _, _ in draft_tokens} == {9, 8}
    assert sum(p for _, p, _ in draft_tokens) < 1


def test_a_blend_is_a_distribution_with_mass_for_other_tokens() -> None:
    entries = [(2, {5: 3, 6: 1}), (1, {5: 10, 7: 2})]
    draft_tokens = witten_bell_blend(entries, 0)
    assert [token for token, _, _ in draft_tokens] == [5, 6, 7]
    assert 0 < sum(p for _, p, _ in draft_tokens) < 1


def test_tables_are_bounded() -> None:
    counts = ContextCounts(100)
    for key in range(1000):
        for token in range(30):
            counts.learn(key, token)
    assert len(counts.entries) <= 100
    assert all(len(entry) <= 10 for entry in counts.entries.values())
    assert 999 in counts.entries


@given(st.recursive(st.integers() | st.text(max_size=5) | st.booleans(),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)),
       st.integers(1, 7))  # fmt: skip
def test_a_path_does_not_depend_on_how_the_text_is_cut(value, step) -> None:
    text = json.dumps(value).encode()
    whole = advance(JSON_START, text)
    path = JSON_START
    for at in range(0, len(text), step):
        path = advance(path, text[at : at + step])
    assert path == whole
    assert whole.names == ()
    assert not whole.quoted


def test_elements_of_an_array_share_their_slots() -> None:
    one, two = (
        advance(JSON_START, b'{"a": [{"b": 1, "c": '),
        advance(JSON_START, b'{"a": [{"b": 1}, {"b": "x", "c": '),
    )
    assert one == two
    assert one != advance(JSON_START, b'{"a": [{"b": 1, "d": ')


@functools.cache
def both_pieces() -> tuple[Any, Any, Retokenizer]:
    vocabulary = small_bpe_vocabulary()
    return vocabulary, retokenizer(vocabulary), Retokenizer(vocabulary)


@given(st.text(max_size=40), st.text(max_size=60))
def test_pieces_are_cut_alike_by_both(before, after_) -> None:
    vocabulary, native, plain = both_pieces()
    one, two = before.encode(), after_.encode()
    found = plain.next_token(one, two)
    assert native.next(one, two) == found
    if found is not None:
        assert two.startswith(vocabulary.tokens[found[0]])


def test_pieces_that_cross_words_are_cut_alike_by_both() -> None:
    rng = random.Random(5)
    alphabet = [bytes([byte]) for byte in b' \n",:{}aZ1' + "é".encode()]

    def some(longest: int) -> bytes:
        return b"".join(rng.choices(alphabet, k=rng.randrange(longest)))

    tokens = [bytes([byte]) for byte in range(256)]
    tokens += sorted({some(5) for _ in range(300)} | {some(80) for _ in range(60)} - {b"", *tokens})
    vocabulary = Vocabulary.from_bytes([*tokens, b"<end>"], [len(tokens)])
    native, plain = retokenizer(vocabulary), Retokenizer(vocabulary)
    crossed = 0
    for _ in range(2000):
        before = some(40)
        after_ = b"".join(rng.choices(tokens, k=rng.randrange(4)))[: rng.choice([3, 39, 40, 90])]
        found = native.next(before, after_)
        assert found == plain.next_token(before, after_)
        crossed += found is not None and len(vocabulary.tokens[found[0]]) > 20
    assert crossed > 20


@pytest.mark.parametrize(
    "document", ["Berlin, " * 400, "B" * 3000, "x" * 2000 + "Berlin Accra " * 300 + "Berlin-Mitte"]
)
def test_a_monotonous_document_is_copied_alike_by_both(automaton, document) -> None:
    vocabulary = automaton.vocabulary
    prompt, names = vocabulary.encode(document), ("prompt_lookup",)
    factory = DrafterFactory(automaton, DraftMemory(), "k", source_names=names)
    both = [
        ReferenceDrafter(automaton, ReferenceMemory(), prompt=prompt, source_names=names),
        factory.new_drafter(prompt),
    ]
    compared = 0
    for token in vocabulary.encode(json.dumps(VALUES[2])):
        python, native = (one.draft(8, 4) for one in both)
        assert list(native.token) == list(python.token)
        assert list(native.parent) == list(python.parent)
        compared += len(native) - 1
        for one in both:
            one.commit(token)
    assert compared > 3


def test_pieces_are_mostly_what_the_tokenizer_writes() -> None:
    vocabulary = small_bpe_vocabulary()
    text = " ".join(json.dumps(value, ensure_ascii=False) for value in VALUES)
    wanted, found = vocabulary.encode(text), Retokenizer(vocabulary).split(text.encode())
    assert b"".join(vocabulary.tokens[id] for id in found) == text.encode()
    assert len(set(wanted) & set(found)) > 0.7 * len(set(wanted))


@pytest.mark.parametrize(
    ("names", "chains"),
    [
        *(pytest.param((name,), False, marks=pytest.mark.ci) for name in DRAFT_SOURCES),
        (DRAFT_SOURCES, False),
        (DRAFT_SOURCES, True),
    ],
)
def test_native_trees_are_those_of_the_python_drafter(automaton, names, chains) -> None:
    vocabulary = automaton.vocabulary
    reference_memory = ReferenceMemory()
    factory = DrafterFactory(automaton, DraftMemory(), "k", source_names=names, chain_drafts=chains)
    rng = random.Random(1)
    openings = [vocabulary.encode(text) for text in ('{"city": "', '{"country": "', '{"visits": [{"year": ')]
    reference_memory.constraint.openings = openings
    objects = SchemaWarmup(SCHEMA)
    objects.example_value()
    factory.prime(vocabulary.encode("{"), openings, objects.objects)
    reference_memory.constraint.names = {
        advance(JSON_START, opening.encode()).names: [(name.encode(), required) for name, required in members]
        for opening, members in objects.objects.items()
    }
    reference_memory.constraint.layout = ReferenceMemory().constraint.layout
    prompt = vocabulary.encode(
        "Berlin, Germany: a visit in 1999, on 2004-01-02 (1,234 km), and Berlin-Mitte."
    )
    compared = 0
    for round_ in range(3):
        for value in VALUES:
            tokens = vocabulary.encode(json.dumps(value, ensure_ascii=False))
            reference = ReferenceDrafter(
                automaton, reference_memory, prompt=prompt, source_names=names, chain_drafts=chains
            )
            both: list[DrafterProtocol] = [reference, factory.new_drafter(prompt)]
            at = 0
            while at < len(tokens):
                nodes, depth = rng.choice([1, 5, 20, 64]), rng.choice([2, 40])
                python, native = (one.draft(nodes, depth) for one in both)
                assert list(native.token) == list(python.token)
                assert not chains or list(native.parent) == list(range(-1, len(native) - 1))
                assert list(native.parent) == list(python.parent)
                assert list(native.path_probability) == pytest.approx(list(python.path_probability))
                assert list(native.sources) == list(python.sources)
                compared += len(python) - 1
                asked = list(python.asked)
                assert list(native.asked) == asked
                for one in both:
                    probe = one.probe(9)
                    assert bool(len(probe) - 1) == (at == 0 and "slot_favourites" in names and not chains)
                    assert list(probe.token) == list(reference.probe(9).token)
                    assert list(probe.parent) == list(reference.probe(9).parent)
                    assert list(probe.asked) == list(reference.probe(9).asked)
                    for node in probe.asked:
                        one.observe_slot(node, [tokens[node % len(tokens)], 7], True)
                    for node in asked[: len(asked) // 2]:
                        one.observe_slot(node, [tokens[(at + node) % len(tokens)], 9], False)
                for one in both:
                    one.mark_verified(len(python) - 1)
                node = 0
                while at < len(tokens):
                    for one in both:
                        if at % 3 == round_:
                            one.observe_top_tokens([tokens[at], 7, 9])
                        one.commit(tokens[at])
                    node = python.child(node, tokens[at])
                    at += 1
                    if node < 0:
                        break
            assert draft_counts(both[0]) == draft_counts(both[1])
    assert compared > 0


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
    warmup = SchemaWarmup(schema)
    value = warmup.example_value()
    assert warmup.objects['{"tags":[{'] == [('"t"', False)]
    assert dict(warmup.objects["{"])['"lat"']
    assert list(value) == ["tags", "again", "lat", "lon", "name"]
    assert value["tags"] == [{"t": 0}, {"t": 0}]
    assert list(value["again"]) == list(value)
    endless = {"$ref": "#"}
    assert SchemaWarmup(endless).example_value() == 0
    assert SchemaWarmup(True).example_value() == 0
    wide = {"properties": {str(i): {"$ref": "#"} for i in range(20)}}
    assert SchemaWarmup(wide).example_value()


def test_a_rehearsed_schema_takes_fewer_passes(automaton) -> None:
    vocabulary = automaton.vocabulary
    tokens = vocabulary.encode(json.dumps(VALUES[0]))
    made = vocabulary.encode(json.dumps(SchemaWarmup(SCHEMA).example_value()))

    def drafter(native: bool, rehearsed: bool) -> DrafterProtocol:
        if native:
            factory = DrafterFactory(automaton, DraftMemory(), "k")
            if rehearsed:
                factory.prime(made)
            return factory.new_drafter([])
        memory = ReferenceMemory()
        if rehearsed:
            ReferenceDrafter(automaton, memory).prime(made)
        return ReferenceDrafter(automaton, memory)

    for native in (False, True):
        counts = []
        for rehearsed in (False, True):
            one, at, count = drafter(native, rehearsed), 0, 0
            while at < len(tokens):
                tree, node = one.draft(32), 0
                count += 1
                while at < len(tokens) and node >= 0:
                    one.commit(tokens[at])
                    node = tree.child(node, tokens[at])
                    at += 1
            counts.append(count)
        assert counts[1] < counts[0]


def test_the_stub_is_that_of_the_build() -> None:
    from constrained.spec import _core

    built = Path(_core.__file__).with_name("_core.pyi")
    committed = ROOT / "spec" / "_core.pyi"
    assert committed.read_text() == built.read_text()


def test_a_place_is_immutable_for_its_children(automaton) -> None:
    here = place(automaton, '{"city": "A')
    there = here.advance(automaton.vocabulary.encode("b")[0], here.state)
    assert here.recent_bytes == b'{"city": "A'
    assert there.recent_bytes == b'{"city": "Ab'
    assert replace(here.request, is_json=False).is_json is False
