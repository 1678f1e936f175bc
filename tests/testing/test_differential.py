"""The native automaton against the naive judge: every answer about every state, token by token.

Random grammars over small vocabularies, and real schemas over a trained vocabulary and a real one of 131,072 tokens.
"""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from constrained.automaton import DEAD, TokenAutomaton, compile_grammar
from constrained.automaton.bitmask import unpack_ids
from constrained.errors import ConstraintError, UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars import ir
from constrained.grammars.visit import children, with_children
from constrained.vocabulary import Vocabulary
from tests.support import strategies as some
from tests.support.examples import examples
from tests.support.judge import RecognizerState, ReferenceRecognizer
from tests.support.masks import brute_force_mask, mask_diff

# ---------------------------------------------------------------- what every answer must be


SEARCHED = 40
"""States that are searched for a completion in few tokens."""


@functools.lru_cache(maxsize=2)
def spellings(vocabulary: Vocabulary) -> tuple[frozenset[int], frozenset[bytes]]:
    """The bytes that some token spells alone, and the tokens made of such bytes: no other text can be encoded."""
    spelled = frozenset(text[0] for text in vocabulary.tokens if len(text) == 1)
    return spelled, frozenset(text for text in vocabulary.tokens if text and spelled.issuperset(text))


class Expected:
    """What an automaton must say, out of the judge's mouth."""

    def __init__(self, grammar: ir.Grammar, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.spelled, self.texts = spellings(vocabulary)
        self.judge = ReferenceRecognizer(grammar if len(self.spelled) == 256 else self._spellable(grammar))
        self._most: dict[RecognizerState, int] = {}
        self._fewest: dict[RecognizerState, int] = {}

    def _spellable(self, grammar: ir.Grammar) -> ir.Grammar:
        """The grammar without the texts that hold a byte of which the vocabulary has no single token."""
        bytes_ = ir.repeat(ir.union(*(ir.literal(bytes((byte,))) for byte in self.spelled)))

        def restrict(expr: ir.Expr) -> ir.Expr:
            if isinstance(expr, ir.Terminal):
                return ir.Terminal(ir.intersection(expr.regex, bytes_))
            return with_children(expr, tuple(map(restrict, children(expr))))

        return ir.Grammar({name: restrict(body) for name, body in grammar.rules.items()}, grammar.start)

    def most_tokens(self, state: RecognizerState) -> int:
        """Tokens of the canonical completion: the first of the shortest in byte order, spelled in the fewest."""
        if state not in self._most:
            text = self.judge.shortest(state)
            fewest = [0] + [len(text)] * len(text)
            for end in range(1, len(text) + 1):
                fewest[end] = 1 + min(fewest[start] for start in range(end) if text[start:end] in self.texts)
            self._most[state] = fewest[-1]
        return self._most[state]

    def fewest_tokens(self, state: RecognizerState) -> int:
        """No completion has fewer tokens; of few states that can be reached, one has as many."""
        if state not in self._fewest:
            steps, seen, layer = 0, {state}, [state]
            while len(seen) <= SEARCHED and not any(one.complete for one in layer):
                ways = (self._after_token(one, text) for one in layer for text in self.texts)
                layer = [one for one in dict.fromkeys(ways) if one is not None and one not in seen]
                seen.update(layer)
                steps += 1
            self._fewest[state] = steps
        return self._fewest[state]

    @staticmethod
    def _after_token(state: RecognizerState | None, text: bytes) -> RecognizerState | None:
        for byte in text:
            state = None if state is None else state.step(byte)
        return state

    def check_count(self, count: int, state: RecognizerState) -> None:
        """A count is one of the canonical completion or of one in fewer tokens, and not less than is possible."""
        assert self.fewest_tokens(state) <= count <= self.most_tokens(state)

    def after_tokens(self, text: bytes) -> dict[int, RecognizerState]:
        """The states after each text token that may follow `text`."""
        after = {
            token: self.judge.after(text + more) for token, more in enumerate(self.vocabulary.tokens) if more
        }
        return {token: state for token, state in after.items() if state is not None}


def check_mask(automaton: TokenAutomaton, expected: Expected, at: int, text: bytes) -> np.ndarray[Any, Any]:
    row = automaton.new_mask()
    automaton.fill_mask(at, row)
    wanted = brute_force_mask(expected.judge, text, automaton.vocabulary)
    difference = mask_diff(row, wanted)
    tokens = automaton.vocabulary.tokens
    assert not difference, (
        f"after {text!r}: the automaton allows {[tokens[t] for t in difference.only_first[:5]]}, "
        f"the judge {[tokens[t] for t in difference.only_second[:5]]}"
    )
    return row


def check_state(automaton: TokenAutomaton, expected: Expected, at: int, text: bytes) -> list[int]:
    """Every answer about the state `at`, reached by `text`. Returns the allowed text tokens."""
    judge, vocabulary = expected.judge, automaton.vocabulary
    state = judge.after(text)
    assert state is not None
    allowed = unpack_ids(check_mask(automaton, expected, at, text)).tolist()
    assert automaton.accepts(at) == state.complete
    assert automaton.forced(at) == judge.forced(state)
    assert [token for token in range(vocabulary.size) if automaton.next(at, token) != DEAD] == allowed
    ends = set(vocabulary.eos_ids) if state.complete else set()
    after = expected.after_tokens(text)
    left = {token: automaton.shortest_completion(automaton.next(at, token)) for token in after}
    for token, count in left.items():
        expected.check_count(count, after[token])
    steps = automaton.shortest_completion(at)
    expected.check_count(steps, state)
    assert steps == 0 or min(left.values()) < steps, "no token leads towards the completion that was promised"
    row = automaton.new_mask()
    for budget in (0, 1, 2, steps, steps + 1, 1000):
        automaton.fill_mask_within(at, row, budget)
        within = {token for token, more in left.items() if more <= budget - 1}
        assert set(unpack_ids(row).tolist()) == within | ends, budget
    return list(left)


def descent(automaton: TokenAutomaton, at: int) -> list[int]:
    """Tokens that lead to an end, each of which lowers the count; as many as were promised or fewer."""
    found, row = [], automaton.new_mask()
    while count := automaton.shortest_completion(at):
        automaton.fill_mask_within(at, row, count)
        token = next(one for one in unpack_ids(row).tolist() if automaton.vocabulary.tokens[one])
        found.append(token)
        at = automaton.next(at, token)
        assert automaton.shortest_completion(at) < count
    assert automaton.accepts(at)
    return found


def check_end(automaton: TokenAutomaton, at: int) -> None:
    """After EOS only EOS may follow, for ever."""
    row = automaton.new_mask()
    for eos in automaton.vocabulary.eos_ids:
        end = automaton.next(at, eos)
        automaton.fill_mask(end, row)
        assert unpack_ids(row).tolist() == sorted(automaton.vocabulary.eos_ids)
        assert automaton.accepts(end)
        assert automaton.next(end, eos) == end
        assert automaton.shortest_completion(end) == 0
        assert automaton.forced(end) == b""


# ---------------------------------------------------------------- random grammars, small vocabularies


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """A few tokens of several bytes, most or all single bytes of the alphabet, a control token, one EOS or two."""
    several = draw(st.lists(some.byte_strings.filter(bool), max_size=12))
    missing = draw(st.one_of(st.just(set()), st.sets(st.sampled_from(some.ALPHABET), max_size=2)))
    single = [bytes((byte,)) for byte in some.ALPHABET if byte not in missing]
    tokens = [b"", *several, *single, *draw(st.sampled_from([[b""], [b"", b""]]))]
    ends = 1 if draw(st.booleans()) else 2
    limit = draw(st.sampled_from([0, 1 << 30]))  # everything is forgotten as soon as it may be, or nothing
    ids = [len(tokens) + end for end in range(ends)]
    return Vocabulary.from_bytes([*tokens, *[b""] * ends], ids, memory_limit=limit)


def check_same_states(automaton: TokenAutomaton, found: list[int], expected: list[int]) -> None:
    """The states of one text, reached twice; a collection may have given them new numbers meanwhile."""
    if automaton.memory["collections"] == 0:
        assert found == expected
    assert len(found) == len(expected)
    one, other = automaton.new_mask(len(found)), automaton.new_mask(len(found))
    if found:
        automaton.fill_masks(found, one)
        automaton.fill_masks(expected, other)
    assert np.array_equal(one, other)


def check_walk(automaton: TokenAutomaton, expected: Expected, rng: random.Random) -> None:
    """All answers along a random text, and that the answers to one call and to many are the same."""
    at, text = automaton.start, b""
    states, path, rows = [at], [], []
    for _ in range(6):
        allowed = check_state(automaton, expected, at, text)
        if automaton.accepts(at):
            check_end(automaton, at)
        if not allowed:
            break
        token = rng.choice(allowed)
        at, text = automaton.next(at, token), text + automaton.vocabulary.tokens[token]
        states.append(at)
        path.append(token)
    check_same_states(automaton, automaton.walk(automaton.start, path), states[1:])
    refused = next((t for t in range(automaton.vocabulary.size) if automaton.next(at, t) == DEAD), None)
    if refused is not None:
        check_same_states(automaton, automaton.walk(automaton.start, [*path, refused, refused]), states[1:])
    for state in states:
        rows.append(automaton.new_mask())
        automaton.fill_mask(state, rows[-1])
    together = automaton.new_mask(len(states))
    automaton.fill_masks(states, together)
    assert np.array_equal(together, np.stack(rows))
    ids = [automaton.mask_id(state) for state in states]
    contents = [row.tobytes() for row in rows]
    assert [ids.index(i) for i in ids] == [contents.index(content) for content in contents]


def check_grammar(grammar: ir.Grammar, vocabulary: Vocabulary, seed: int) -> None:
    """Every answer about the states of one random text."""
    expected = Expected(grammar, vocabulary)
    if expected.judge.start() is None:
        with pytest.raises(UnsatisfiableConstraint):
            TokenAutomaton(grammar, vocabulary)
    else:
        automaton = TokenAutomaton(grammar, vocabulary, memory_limit=vocabulary.memory_limit)
        check_walk(automaton, expected, random.Random(seed))


@given(some.grammars(), vocabularies(), st.integers(0, 2**32))
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
def test_random_grammars(grammar: ir.Grammar, vocabulary: Vocabulary, seed: int) -> None:
    check_grammar(grammar, vocabulary, seed)


@given(some.regexes, vocabularies(), st.integers(0, 2**32))
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
def test_random_regexes(regex: ir.Regex, vocabulary: Vocabulary, seed: int) -> None:
    check_grammar(ir.Grammar.of(regex), vocabulary, seed)


@given(some.grammars(left_recursion=True), vocabularies(), st.integers(0, 2**32))
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
def test_left_recursion_is_refused_or_right(grammar: ir.Grammar, vocabulary: Vocabulary, seed: int) -> None:
    try:
        automaton = TokenAutomaton(grammar, vocabulary)
    except UnsupportedConstraint as error:
        assert error.summary == "the grammar is left-recursive"  # noqa: PT017
    except UnsatisfiableConstraint:
        assert Expected(grammar, vocabulary).judge.start() is None
    else:
        check_walk(automaton, Expected(grammar, vocabulary), random.Random(seed))


# ---------------------------------------------------------------- real schemas, real vocabularies

DATA = os.environ.get("CONSTRAINED_DATA")
needs_data = pytest.mark.skipif(
    not DATA, reason="needs the folder CONSTRAINED_DATA with maskbench-dev.jsonl.gz"
)
PREFIXES_PER_SCHEMA = 4
LONGEST_COMPLETION = 200
"""Bytes: longer completions are not spelled by the judge, which takes its time."""


def cases() -> Iterator[dict[str, Any]]:
    """The schemas of the dev data and their tests, in an order that is random and always the same."""
    path = Path(DATA or "") / "maskbench-dev.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = lines.readlines()
    random.Random(2).shuffle(texts)
    return (json.loads(text) for text in texts if len(text) < 20_000)


def prefixes(case: dict[str, Any], judge: ReferenceRecognizer, rng: random.Random) -> Iterator[bytes]:
    """Beginnings of recorded instances and of random texts of the language, one in four spoilt; without end."""
    recorded = [test["data"] for test in case.get("tests", []) if test["valid"]]
    for turn in itertools.count():
        if recorded and turn % 2 == 0:
            separators = rng.choice([(",", ":"), (", ", ": ")])
            text = json.dumps(rng.choice(recorded), ensure_ascii=False, separators=separators).encode()
        else:
            text = judge.sample(rng, rng.randrange(1, 80))
        text = text[: rng.randrange(len(text) + 1)]
        if rng.random() < 0.25:
            at = rng.randrange(len(text) + 1)
            text = (
                text[:at]
                + rng.choice([b" ", b"}", b'"', b"\\", b"0", b"\xc3"])
                + text[at + rng.randrange(2) :]
            )
        yield text


def spell(text: bytes, ids: dict[bytes, int], longest: int, rng: random.Random) -> Iterator[int]:
    """Some spelling of `text`: now the longest tokens, now shorter ones."""
    while text:
        lengths = [length for length in range(1, min(longest, len(text)) + 1) if text[:length] in ids]
        length = lengths[-1] if rng.random() < 0.7 else rng.choice(lengths)
        yield ids[text[:length]]
        text = text[length:]


def compare_on_data(vocabulary: Vocabulary, pairs: int) -> str:
    """`pairs` (schema, prefix) pairs: each prefix is followed token by token, and its row compared."""
    from constrained.constraint import json_schema

    ids = {text: token for token, text in enumerate(vocabulary.tokens) if text}
    longest = max(map(len, ids))
    rng = random.Random(7)
    done = refused = schemas = cut_short = 0
    for case in cases():
        if done >= pairs:
            break
        try:
            grammar = json_schema(case["schema"]).grammar
            automaton = compile_grammar(grammar, vocabulary)
            expected = Expected(grammar, vocabulary)
        except ConstraintError:  # by one or the other: the judge does not read entries that must differ
            refused += 1
            continue
        schemas += 1
        for text in itertools.islice(prefixes(case, expected.judge, rng), PREFIXES_PER_SCHEMA):
            at, read = automaton.start, b""
            for token in spell(text, ids, longest, rng):
                after = automaton.next(at, token)
                more = read + vocabulary.tokens[token]
                assert (after != DEAD) == expected.judge.viable(more), (case["id"], more)
                if after == DEAD:
                    cut_short += 1
                    break
                at, read = after, more
            check_mask(automaton, expected, at, read)
            state = expected.judge.after(read)
            assert state is not None
            assert automaton.accepts(at) == state.complete
            assert automaton.forced(at) == expected.judge.forced(state), (case["id"], read)
            if state.shortest_length <= LONGEST_COMPLETION:
                count = automaton.shortest_completion(at)
                assert count <= expected.most_tokens(state), (case["id"], read)
                assert len(descent(automaton, at)) <= count, (case["id"], read)
            done += 1
    assert done >= pairs, f"only {done} pairs out of {schemas} schemas"
    return f"{done} pairs of {schemas} schemas, {refused} refused, {cut_short} prefixes end at a refusal"


@pytest.mark.ci
@needs_data
def test_schemas_on_a_trained_vocabulary(record_property: Any) -> None:
    from tests.support.tokenizers_fixtures import small_bpe_vocabulary

    record_property("pairs", compare_on_data(small_bpe_vocabulary(), examples(200)))


@needs_data
@pytest.mark.ci  # reading the vocabulary takes longer than the comparison
def test_schemas_on_a_real_vocabulary(record_property: Any) -> None:
    from tests.support.tokenizers_fixtures import tekken_vocabulary

    record_property("pairs", compare_on_data(tekken_vocabulary(), examples(24)))


@needs_data
@pytest.mark.slow
def test_many_schemas_on_a_real_vocabulary(record_property: Any) -> None:
    from tests.support.tokenizers_fixtures import tekken_vocabulary

    record_property("pairs", compare_on_data(tekken_vocabulary(), 500))


@needs_data
@pytest.mark.slow
def test_many_schemas_on_a_trained_vocabulary(record_property: Any) -> None:
    from tests.support.tokenizers_fixtures import small_bpe_vocabulary

    record_property("pairs", compare_on_data(small_bpe_vocabulary(), 500))
