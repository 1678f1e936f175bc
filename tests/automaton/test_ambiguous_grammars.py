"""Random, very ambiguous grammars against a plain Earley recogniser: masks, ends and sizes of the automaton."""

from __future__ import annotations

import itertools
import random

import pytest

from constrained.automaton import DEAD, compile, compile_grammar
from constrained.automaton.bitmask import unpack_ids
from constrained.automaton.trial import WORK_LIMIT, try_out
from constrained.constraint import gbnf
from constrained.errors import ConstraintTooLarge
from tests.support.examples import examples
from tests.support.finite import byte_vocabulary

LETTERS = "ab"
WORDS = byte_vocabulary("aa", "ab", "ba", "bb", "aab", "bba", "aaaa", "abab", "bbbbbb")

Rules = dict[str, list[tuple[str, ...]]]
"""By rule: its alternatives, of letters and names of rules (upper case)."""
Item = tuple[str, tuple[str, ...], int, int]
"""Rule, alternative, symbols read, and where the rule began."""


class Earley:
    """One set of items for each position, filled until nothing is new (Earley 1970); every rule has a text of one letter."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.sets: list[set[Item]] = [self._closed({("", ("S",), 0, 0)}, [])]

    def read(self, letter: str) -> Earley | None:
        """The recogniser after one more letter; None if no text begins so."""
        moved = {
            (rule, symbols, at + 1, begun)
            for rule, symbols, at, begun in self.sets[-1]
            if at < len(symbols) and symbols[at] == letter
        }
        if not moved:
            return None
        after = object.__new__(Earley)
        after.rules = self.rules
        after.sets = [*self.sets, self._closed(moved, self.sets)]
        return after

    def accepts(self) -> bool:
        return ("", ("S",), 1, 0) in self.sets[-1]

    def _closed(self, items: set[Item], before: list[set[Item]]) -> set[Item]:
        here = len(before)
        while True:
            found = set(items)
            for rule, symbols, at, begun in items:
                if at < len(symbols):
                    found |= {(symbols[at], each, 0, here) for each in self.rules.get(symbols[at], ())}
                    continue
                for host, others, place, start in items if begun == here else before[begun]:
                    if place < len(others) and others[place] == rule:
                        found.add((host, others, place + 1, start))
            if found == items:
                return items
            items = found


def random_rules(draw: random.Random) -> Rules:
    """One to three rules of up to four alternatives; left, right and hidden recursion, unit cycles, empty alternatives."""
    names = "SXY"[: draw.randint(1, 3)]
    rules: Rules = {}
    for name in names:
        alternatives = {(draw.choice(LETTERS),)}
        for _ in range(draw.randint(1, 3)):
            length = draw.choice((0, 1, 2, 2, 3, 3, 4))
            alternatives.add(
                tuple(draw.choice(names if draw.random() < 0.7 else LETTERS) for _ in range(length))
            )
        rules[name] = sorted(alternatives)
    return rules


def written(rules: Rules) -> str:
    def alternative(symbols: tuple[str, ...]) -> str:
        return " ".join(s.lower() if s.isupper() else f'"{s}"' for s in symbols) or '""'

    lines = (f"{name.lower()} ::= {' | '.join(map(alternative, rules[name]))}" for name in rules)
    return "\n".join(("root ::= s", *lines))


@pytest.mark.parametrize("seed", range(examples(60)))
def test_masks_are_those_of_a_plain_recogniser(seed: int) -> None:
    draw = random.Random(seed)
    rules = random_rules(draw)
    # Not `compile`, which refuses a few of these grammars: their masks take millions of steps after some letters.
    automaton = compile_grammar(gbnf(written(rules)).grammar, WORDS)
    state, judge, row = automaton.start, Earley(rules), automaton.new_mask()
    for _ in range(5):
        automaton.fill_mask(state, row)
        allowed = set(unpack_ids(row).tolist())
        known: dict[str, Earley | None] = {"": judge}
        for token, text in enumerate(WORDS.tokens):
            letters = text.decode("latin-1")
            if not letters or set(letters) - set(LETTERS):
                continue
            for end in range(1, len(letters) + 1):
                before = known[letters[: end - 1]]
                if letters[:end] not in known:
                    known[letters[:end]] = None if before is None else before.read(letters[end - 1])
            after = known[letters]
            assert (token in allowed) == (after is not None), written(rules)
            reached = automaton.next(state, token)
            assert (reached != DEAD) == (after is not None)
            if after is not None:
                assert automaton.accepts(reached) == after.accepts(), written(rules)
        assert bool(allowed & set(WORDS.eos_ids)) == judge.accepts()
        ways = [(token, text) for token, text in enumerate(WORDS.tokens) if text and token in allowed]
        if not ways:
            return
        token, text = draw.choice(ways)
        state = automaton.next(state, token)
        chosen = known[text.decode("latin-1")]
        assert chosen is not None
        judge = chosen


@pytest.mark.slow
def test_masks_of_random_grammars_take_few_steps_or_the_trial_refuses_them() -> None:
    """A million steps are some 50 ms."""
    refused = 0
    for seed in range(200):
        draw = random.Random(seed)
        grammar = gbnf(written(random_rules(draw))).grammar
        try:
            try_out(compile_grammar(grammar, WORDS), written=True)
        except ConstraintTooLarge:
            refused += 1
            continue
        automaton = compile_grammar(grammar, WORDS)
        state, row = automaton.start, automaton.new_mask()
        for length in range(120):
            automaton.fill_mask(state, row)
            assert automaton.last_work < WORK_LIMIT, (seed, written(random_rules(random.Random(seed))))
            ways = [token for token in unpack_ids(row).tolist() if len(WORDS.tokens[token]) == 1]
            if length % 6 == 0:
                automaton.fill_mask_within(state, row, automaton.shortest_completion(state) + 1)
                assert automaton.last_work < WORK_LIMIT, (
                    seed,
                    written(random_rules(random.Random(seed))),
                )
            if not ways:
                break
            state = automaton.next(state, draw.choice(ways))
    assert refused <= 20


def test_a_grammar_whose_masks_grow_with_the_text_is_refused_before_its_first_token() -> None:
    """Its open rules can be read in so many ways that a mask takes seconds after 80 letters."""
    rules = """
        root ::= s
        s ::= "a" s x | "a" y x | "b" | "b" y y
        x ::= s "a" x x | "a"
        y ::= s x | "a" | "a" y y | "b" x
    """
    with pytest.raises(ConstraintTooLarge, match=r"more than [57][05]0,000 steps"):
        compile(gbnf(rules), WORDS)


@pytest.mark.ci
@pytest.mark.parametrize("seed", [13, 38, 199])
def test_a_text_that_opens_most_rules_in_several_ways_is_followed_too(seed: int) -> None:
    """Random texts of these grammars take few steps, and such a one more than ten million for one mask."""
    with pytest.raises(ConstraintTooLarge, match=r"more than [57][05]0,000 steps"):
        compile(gbnf(written(random_rules(random.Random(seed)))), WORDS)


def test_ordinary_ambiguity_is_not_refused() -> None:
    compile(gbnf('root ::= e\ne ::= e "+" e | e "*" e | "(" e ")" | "-" e | [ab]+'), WORDS)
    compile(gbnf('root ::= s\ns ::= "a" s | "a" s "b" s | "b"'), WORDS)


@pytest.mark.parametrize(
    "rule",
    [
        'x ::= x x x | "a"',
        'x ::= x x | "a"',
        'x ::= x x x x x | x x | "a" | "b"',
        'x ::= "a" x? x? x? | "b"',
        'x ::= x x | "(" x ")" | "a" x | x "a" | "a"',
    ],
)
def test_a_letter_more_costs_a_state_and_a_few_continuations(rule: str) -> None:
    """Not the length of the text: what was read before is shared."""
    automaton = compile(gbnf(f"root ::= x\n{rule}"), WORDS)
    state = automaton.start
    read = next(token for token, text in enumerate(WORDS.tokens) if text == b"a")
    sizes = []
    for length in range(600):
        state = automaton.next(state, read)
        if length in (199, 399, 599):
            sizes.append(automaton.memory)
    for part, most in (("states", 2), ("continuations", 20)):
        grown = [after[part] - before[part] for before, after in itertools.pairwise(sizes)]
        assert max(grown) <= 200 * most, (part, grown)
