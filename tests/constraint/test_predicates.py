"""Predicates: a text is accepted if the grammar and the functions accept it, with as few calls as possible."""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import constrained
from constrained import (
    BudgetExhausted,
    ConstraintTooLarge,
    InvalidConstraint,
    PredicateError,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
    Vocabulary,
    predicate,
    regex,
)
from constrained.automaton.predicate import PredicateAutomaton
from constrained.predicates import Predicate
from constrained.predicates.failures import WorkerCrashed
from constrained.sampling import AWRS, Local, LogitsWarper
from constrained.testing import ScriptedModel
from tests.support import predicates_functions as functions
from tests.support.enumerable_model import EnumerableModel
from tests.support.finite import byte_vocabulary
from tests.support.paths import ROOT
from tests.support.sampler_distributions import sequence_distribution

LETTERS = (b"a", b"b", b"ab", b"ba")
V = Vocabulary.from_bytes([*LETTERS, b""], [len(LETTERS)])
EOS = len(LETTERS)
BYTES = byte_vocabulary()


def compiled(constraint, vocabulary=V):
    return constrained.compile(constraint, vocabulary)


def allowed(automaton, state, budget=None):
    row = automaton.new_mask()
    if budget is None:
        automaton.fill_mask(state, row)
    else:
        automaton.fill_mask_within(state, row, budget)
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def after(automaton, text: bytes):
    states = automaton.walk(automaton.start, BYTES.encode(text))
    return states[-1] if len(states) == len(text) else 0


def the_predicate(constraint) -> Predicate:
    (found,) = constraint.predicates
    return found


# ---------------------------------------------------------------- which texts


def texts_of(automaton, depth):
    """Every way to write a finished text in up to `depth` tokens, by single steps."""
    found = set()
    places = [((), automaton.start)]
    while places:
        tokens, state = places.pop()
        if automaton.next(state, EOS):
            found.add(tokens)
        if len(tokens) < depth:
            for token in range(EOS):
                if then := automaton.next(state, token):
                    places.append(((*tokens, token), then))
    return found


PATTERNS = ("[ab]*", "(ab)*b?", "a{0,2}b{1,3}", "(a|bb)*", "b(a|b)")
TABLES = st.dictionaries(st.text("ab", max_size=5), st.booleans(), max_size=60)


@given(st.sampled_from(PATTERNS), TABLES, TABLES, st.booleans())
def test_a_text_is_good_if_the_grammar_and_the_functions_say_so(pattern, prefixes, wholes, batch):
    """Against the list of all token sequences, filtered by plain means."""

    def ask(table, text):
        return table.get(text, True)

    begins, ends = functools.partial(ask, prefixes), functools.partial(ask, wholes)
    assume(begins(""))

    def many(function):
        return lambda texts: [function(text) for text in texts]

    automaton = compiled(
        regex(pattern)
        & predicate(
            prefix_ok=many(begins) if batch else begins,
            complete_ok=many(ends) if batch else ends,
            batch=batch,
        )
    )
    wanted = set()
    for n in range(4):
        for tokens in itertools.product(range(EOS), repeat=n):
            texts = [V.decode(tokens[:i]).decode() for i in range(n + 1)]
            if re.fullmatch(pattern, texts[-1]) and all(map(begins, texts)) and ends(texts[-1]):
                wanted.add(tokens)
    assert texts_of(automaton, 3) == wanted


@given(
    st.sampled_from(PATTERNS),
    TABLES,
    TABLES,
    st.lists(st.integers(0, EOS - 1), max_size=3),
    st.integers(0, 4),
)
def test_a_row_holds_what_single_steps_allow(pattern, prefixes, wholes, path, budget):
    assume(prefixes.get("", True))
    predicate_under_test = predicate(
        prefix_ok=lambda t: prefixes.get(t, True), complete_ok=lambda t: wholes.get(t, True)
    )
    automaton = compiled(regex(pattern) & predicate_under_test)
    state = [automaton.start, *automaton.walk(automaton.start, path)][-1]
    ends = {EOS} if automaton.accepts(state) else set()
    assert allowed(automaton, state) == {t for t in range(EOS) if automaton.next(state, t)} | ends
    within = {t for t in range(EOS) if automaton.next_within(state, t, budget)} | ends
    assert allowed(automaton, state, budget) == within
    outline = automaton.new_mask()
    automaton.fill_relaxed_mask(state, outline, budget)
    row = automaton.new_mask()
    automaton.fill_mask_within(state, row, budget)
    assert not (row & ~outline).any()
    if automaton.only_eos(state, budget):
        assert within == {EOS}


def test_alone_it_allows_any_text_it_accepts():
    automaton = compiled(predicate(lambda text: text.isascii()), BYTES)
    assert after(automaton, b"\tany\ntext")
    assert not after(automaton, "é".encode())
    assert automaton.forced(automaton.start) == b""
    assert automaton.shortest_completion(automaton.start) == 0


def test_all_of_several_predicates_have_to_accept():
    vowels = predicate(lambda text: set(text) <= set("aeiou"))
    short = predicate(lambda text: len(text) <= 2)
    for joined in (vowels & short, short & vowels, vowels & regex("[a-z]+") & short, vowels & short & vowels):
        automaton = compiled(joined, BYTES)
        assert after(automaton, b"ou")
        assert not after(automaton, b"oub")
        assert not after(automaton, b"oua")
    assert len((vowels & short & vowels).predicates) == 2


def test_it_joins_whatever_stands_for_a_constraint():
    even = predicate(complete_ok=lambda text: int(text) % 2 == 0)
    for joined in (int & even, even & int, re.compile("-?[0-9]+") & even, {"type": "integer"} & even):
        automaton = compiled(joined, BYTES)
        assert automaton.accepts(after(automaton, b"12"))
        assert not automaton.accepts(after(automaton, b"13"))
        assert after(automaton, b"13")
    assert (int & even).parse("12") == 12
    assert (int & even).is_json
    assert (int & even).schema == {"type": "integer"}
    assert "<lambda>" in (int & even).render()


def test_a_function_on_text_never_sees_half_a_character():
    seen: list[str] = []

    def note(text: str) -> bool:
        seen.append(text)
        return True

    automaton = compiled(predicate(note), BYTES)
    state = after(automaton, "aé€".encode())
    assert automaton.accepts(state)
    assert set(seen) == {"", "a", "aé", "aé€"}
    assert not automaton.accepts(after(automaton, "aé€".encode()[:-1]))
    raw: list[bytes] = []
    after(compiled(predicate(lambda data: raw.append(data) or True, on=bytes), BYTES), "é".encode())
    assert raw == [b"", b"\xc3", "é".encode()]


# ---------------------------------------------------------------- how often


def test_it_is_called_once_for_each_text_that_the_grammar_allows():
    seen: list[str] = []

    def note(text: str) -> bool:
        seen.append(text)
        return True

    automaton = compiled(regex("[xy]+") & predicate(note), BYTES)
    for token in b"abcxyz":
        automaton.next(automaton.start, token)
    assert seen == ["", "x", "y"]
    automaton.next(automaton.start, ord("x"))
    assert allowed(automaton, automaton.start) == set(b"xy")
    assert seen == ["", "x", "y"]


def test_a_batch_is_one_call():
    calls: list[list[str]] = []

    def note(texts: list[str]) -> list[bool]:
        calls.append(texts)
        return [True] * len(texts)

    automaton = compiled(regex("[a-z]+") & predicate(note, batch=True), BYTES)
    allowed(automaton, automaton.start)
    assert [len(call) for call in calls] == [1, 26]


def test_what_it_remembers_is_bounded():
    box = the_predicate(predicate(lambda text: True, memory_limit=1000))
    for i in range(100):
        box.check("prefix", [b"%d" % i])
    assert box.calls == 100
    box.check("prefix", [b"99"])
    assert box.calls == 100
    box.check("prefix", [b"0"])
    assert box.calls == 101


# ---------------------------------------------------------------- what is wrong with it


@pytest.mark.parametrize("given", [None, 1, "yes", [], np.array([True])])
def test_only_a_bool_is_an_answer(given):
    automaton = compiled(regex("[ab]+") & predicate(lambda text: given if text else True))
    with pytest.raises(PredicateError, match="not True or False") as error:
        automaton.next(automaton.start, 0)
    assert error.value.text == "a"
    assert "<lambda>" in error.value.predicate


def test_a_bool_of_numpy_is_one():
    automaton = compiled(regex("[ab]+") & predicate(lambda text: np.float64(len(text)) < 2))
    assert automaton.next(automaton.start, 0)
    assert not automaton.next(automaton.start, 2)


@pytest.mark.parametrize("given", [True, None, [True, True], "y", iter([True])])
def test_a_batch_gets_as_many_answers(given):
    automaton = compiled(
        regex("[ab]+") & predicate(lambda texts: given if texts != [""] else [True], batch=True)
    )
    with pytest.raises(PredicateError, match="got 1 texts"):
        automaton.next(automaton.start, 0)


def test_what_it_raises_is_the_cause():
    automaton = compiled(regex("[ab]+") & predicate(functions.raises_after_a))
    with pytest.raises(PredicateError, match="raises_after_a") as error:
        automaton.next(automaton.start, 0)
    assert isinstance(error.value.__cause__, LookupError)
    assert error.value.text == "a"
    assert pickle.loads(pickle.dumps(error.value)).text == "a"
    assert automaton.next(automaton.start, 1), "the next call succeeds"


def test_a_predicate_that_rejects_every_text_is_an_error_at_once():
    with pytest.raises(UnsatisfiableConstraint, match="rejects the empty prefix"):
        compiled(predicate(lambda text: len(text) > 3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: predicate(), "no function"),
        (lambda: predicate(len, prefix_ok=len), "fn and prefix_ok"),
        (lambda: predicate("text"), "is a str"),
        (lambda: predicate(len, on=int), "on=str or on=bytes"),
        (lambda: predicate(len, workers=-1), "workers"),
        (lambda: predicate(len, workers=True), "workers"),
        (lambda: predicate(len, timeout=0), "timeout"),
        (lambda: predicate(len, timeout=math.nan), "timeout"),
        (lambda: predicate(lambda text: True, workers=1), "cannot be pickled"),
        (lambda: predicate(lambda text: True, timeout=1), "workers=0 without a timeout"),
    ],
)
def test_mistakes_are_errors_of_the_constructor(make, message):
    with pytest.raises(InvalidConstraint, match=message):
        make()


def test_two_grammars_are_not_joined_in_silence():
    with pytest.raises(UnsupportedConstraint, match="two grammars"):
        regex("a") & predicate(bool) & {"type": "null"}
    with pytest.raises(TypeError):
        regex("a") & regex("b")
    with pytest.raises(InvalidConstraint):
        predicate(bool) & "text"


def test_whoever_wants_its_grammar_cannot_forget_the_predicate():
    guarded = regex("a+") & predicate(functions.few)
    with pytest.raises(UnsupportedConstraint, match="few"):
        compiled(constrained.tag("<x>", guarded, "</x>"), BYTES)
    automaton = compiled(guarded)
    with pytest.raises(UnsupportedConstraint, match="no ids"):
        automaton.mask_id(automaton.start)


def test_no_two_predicates_are_the_same_constraint():
    one, other = predicate(functions.few), predicate(functions.few)
    assert one == pickle.loads(pickle.dumps(one))
    assert one != other
    assert (regex("a") & one).key == (regex("a") & one).key
    sent = pickle.loads(pickle.dumps(regex("a+") & one))
    assert sent.key == (regex("a+") & one).key
    assert not compiled(sent).walk(compiled(sent).start, [0, 0, 0])[2:]


# ---------------------------------------------------------------- worker processes


@pytest.mark.parametrize("batch", [False, True])
def test_workers_give_the_same_answers(batch):
    function = functions.several_few if batch else functions.few
    guarded = regex("[ab]*") & predicate(function, batch=batch, workers=2)
    automaton, plain = compiled(guarded), compiled(regex("[ab]*") & predicate(functions.few))
    try:
        for path in itertools.product(range(EOS), repeat=2):
            states = automaton.walk(automaton.start, path)
            others = plain.walk(plain.start, path)
            assert len(states) == len(others)
            assert allowed(automaton, states[-1]) == allowed(plain, others[-1])
    finally:
        the_predicate(guarded).close()


@pytest.mark.ci
def test_a_slow_call_is_ended_and_named():
    guarded = regex("[ab]*") & predicate(functions.slow_after_a, timeout=0.5)
    automaton = compiled(guarded)
    try:
        began = time.monotonic()
        with pytest.raises(PredicateError, match=r"slow_after_a[\s\S]*longer than 0.5 s") as error:
            automaton.next(automaton.start, 0)
        assert time.monotonic() - began < 30
        assert isinstance(error.value.__cause__, TimeoutError)
        assert automaton.next(automaton.start, 1), "another process has taken its place"
    finally:
        the_predicate(guarded).close()


@pytest.mark.parametrize(
    ("function", "message", "cause"),
    [
        (functions.raises_after_a, "raised LookupError: no entry for a", LookupError),
        (functions.dies_after_a, "ended its process, with code 7", WorkerCrashed),
        (functions.raises_unpicklable, "Unpicklable: odd", RuntimeError),
        (functions.gives_unpicklable, "cannot be pickled", TypeError),
    ],
)
def test_an_error_in_a_worker_is_raised_here(function, message, cause):
    guarded = regex("[ab]*") & predicate(function, workers=1)
    automaton = compiled(guarded)
    try:
        with pytest.raises(PredicateError, match=re.escape(message)) as error:
            automaton.next(automaton.start, 0)
        assert isinstance(error.value.__cause__, cause)
    finally:
        the_predicate(guarded).close()


def test_a_function_that_a_worker_cannot_find_is_named(tmp_path):
    code = (
        "import constrained, types, sys\n"
        "module = types.ModuleType('nowhere'); sys.modules['nowhere'] = module\n"
        "exec('def f(text):\\n    return True', module.__dict__)\n"
        "try:\n"
        "    constrained.compile(constrained.predicate(module.f, workers=1),"
        " constrained.Vocabulary.from_bytes([b'a', b''], [1]))\n"
        "except constrained.PredicateError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert "could not load the function" in done.stdout, done.stderr
    assert "nowhere" in done.stdout


@pytest.mark.ci
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
def test_ctrl_c_ends_the_wait_and_the_workers(tmp_path):
    log = tmp_path / "log"
    code = (
        "import constrained, tests.support.predicates_functions as f, os\n"
        "from constrained import predicate, regex\n"
        "v = constrained.Vocabulary.from_bytes([b'a', b''], [1])\n"
        "a = constrained.compile(regex('a*') & predicate(f.says_where, workers=1) & predicate(f.slow_after_a, workers=1), v)\n"
        "try:\n"
        "    a.next(a.start, 0)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    environment = os.environ | {"PREDICATE_LOG": str(log), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (log.exists() and "'a'" in log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    worker = int(log.read_text().split()[0])
    process.send_signal(signal.SIGINT)
    printed, complained = process.communicate(timeout=30)
    assert (process.returncode, printed, complained) == (0, "interrupted\n", "")
    assert not Path(f"/proc/{worker}").exists()


# ---------------------------------------------------------------- writing under it


def model_distribution(model: EnumerableModel) -> dict[bytes, float]:
    """P(w) of every text, from the rows alone."""
    distribution = {}
    for text in model.sequences():
        rows = [np.exp(model.logits([], list(text[:n]))) for n in range(len(text) + 1)]
        distribution[model.vocabulary.decode(text)] = math.prod(
            float(row[a]) for row, a in zip(rows, [*text, model.eos], strict=True)
        )
    return distribution


def balanced(text: str) -> bool:
    return text.count("a") == text.count("b")


@pytest.mark.parametrize(
    "sampler", [Local(), AWRS(), AWRS(checks=1), AWRS(checks=3, when_exhausted="drop", patience=2)]
)
@pytest.mark.parametrize(
    ("predicate_under_test", "holds"),
    [
        (predicate(lambda t: "ab" not in t), lambda t: "ab" not in t),
        (predicate(complete_ok=balanced), balanced),  # accepts prefixes without completions
        (
            predicate(lambda t: "ca" not in t) & predicate(complete_ok=balanced),
            lambda t: "ca" not in t and balanced(t),
        ),
    ],
)
def test_weighted_texts_follow_the_models_distribution_over_accepted_ones(
    sampler, predicate_under_test, holds
):
    """E[W 1{text}] = P(text) for every good text, by enumeration of all choices: dead ends weigh 0."""
    model = EnumerableModel(seed=3, depth=3)
    found = sequence_distribution(
        model,
        compiled(regex("[abc]*") & predicate_under_test, model.vocabulary),
        sampler,
        LogitsWarper(1.0),
        3,
    )
    for text, p in model_distribution(model).items():
        weighted = found.get(text, (0.0, 0.0))[1]
        assert weighted == pytest.approx(p if holds(text.decode()) else 0.0, abs=1e-12), text


def test_awrs_draws_what_masking_draws_and_asks_less():
    constraint = regex("[a-z]+") & predicate(lambda text: not set(text) & set("aeiou"))
    model = ScriptedModel(byte_vocabulary("th", "st"), "rhythms", margin=4.0)
    texts, checks = [], []
    for sampler in ("local", None):
        generator = constrained.Generator(model, constraint, sampler=sampler)
        outs = [generator("x", seed=seed, temperature=1.0, max_tokens=8) for seed in range(20)]
        texts.append([out.text for out in outs])
        checks.append(sum(out.stats.checks for out in outs))
        assert {out.distribution for out in outs} == {"local"}
    assert texts[0] == texts[1]
    assert checks[1] < checks[0] / 10


def test_a_dead_end_is_left_again():
    """A checksum at the end: no prefix shows whether it will be right."""

    def holds(text: str) -> bool:
        return sum(map(int, text)) % 7 == 0

    model = EnumerableModel(seed=5, letters=(b"1", b"2", b"3"), depth=6)
    generator = constrained.Generator(model, regex("[123]+") & predicate(complete_ok=holds))
    attempts = 0
    for seed in range(50):
        out = generator("", seed=seed, temperature=1.0, max_tokens=6)
        assert holds(out.text)
        attempts += out.stats.attempts
    assert attempts > 50


def preferred(model, holds, text=()):
    """The first good text of one token or more in the order of the model's preferences, depth first."""
    if len(text) == 6:
        return model.vocabulary.decode(text).decode() if holds(text) else None
    row = model.logits([], list(text)).copy()
    if not (text and holds(text)):  # no end here
        row[model.eos] = -np.inf
    for token in np.argsort(-row, kind="stable"):
        if row[token] == -np.inf:
            continue
        if token == model.eos:
            return model.vocabulary.decode(text).decode()
        found = preferred(model, holds, (*text, int(token)))
        if found is not None:
            return found
    return None


@pytest.mark.parametrize("sampler", ["local", "awrs"])
def test_a_greedy_text_takes_back_what_led_into_a_dead_end(sampler):
    """A checksum of six letters: of the ways that the model prefers, the first that comes out even."""
    letters = (b"1", b"2", b"3")

    def holds(text: str) -> bool:
        return sum(map(int, text)) % 11 == 0

    steps_back = []
    for seed in range(20):
        model = EnumerableModel(seed=seed, letters=letters, depth=6)
        generator = constrained.Generator(
            model, regex("[123]{1,6}") & predicate(complete_ok=holds), sampler=sampler
        )
        out = generator("", max_tokens=6)
        assert out.text == preferred(model, lambda text: holds("".join("123"[t] for t in text)))
        assert (out.distribution, out.stats.attempts, out.stats.tokens) == ("greedy", 1, len(out.tokens))
        assert out.logprob == pytest.approx(log_probability(model, out.tokens), abs=1e-5)
        steps_back.append(out.stats.backtracked_tokens)
    assert max(steps_back) > 2
    assert 0 in steps_back


def log_probability(model, tokens):
    """Log P of a text, with its end of sequence if the model drew one."""
    ids = [*tokens, model.eos][:6]
    return math.fsum(float(model.logits([], ids[:n])[token]) for n, token in enumerate(ids))


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_a_predicate_that_lies_is_named_when_the_budget_is_spent(temperature):
    def hopeful(text: str) -> bool:
        return True

    def never(text: str) -> bool:
        return False

    model = EnumerableModel(seed=5)
    generator = constrained.Generator(
        model, regex("[abc]+") & predicate(prefix_ok=hopeful, complete_ok=never)
    )
    with pytest.raises(BudgetExhausted, match=r"hopeful and .*never\s+accepts prefixes") as error:
        generator("", seed=1, temperature=temperature, max_tokens=4)
    assert error.value.diagnostics["accepted"] == 0


# ---------------------------------------------------------------- states


def test_states_are_forgotten_and_found_again():
    constraint = regex("[ab]*") & predicate(lambda text: "bbb" not in text)
    whole = compiled(constraint)
    small = PredicateAutomaton(whole.relaxed_automaton, constraint, memory_limit=40 * 520)
    texts = [bytes(text) for n in range(1, 8) for text in itertools.product(b"ab", repeat=n)]
    for text in [*texts, *texts]:
        tokens = [LETTERS.index(bytes([byte])) for byte in text]
        states, wanted = small.walk(small.start, tokens), whole.walk(whole.start, tokens)
        assert len(states) == len(wanted) == (len(text) if b"bbb" not in text else text.index(b"bbb") + 2)
        assert [small.text(state) for state in states] == [text[: n + 1] for n in range(len(states))]
        assert small.accepts(states[-1])
        assert allowed(small, states[-1]) == allowed(whole, wanted[-1])
        assert small.memory["predicate_states"] < 50
        assert small.memory["predicate_bytes"] <= 40 * 520
    assert whole.memory["predicate_states"] > 100


def test_an_evicted_state_is_an_error():
    constraint = regex("[ab]*") & predicate(lambda text: True)
    automaton = PredicateAutomaton(compiled(constraint).relaxed_automaton, constraint, memory_limit=1100)
    held = automaton.next(automaton.start, 0)
    for tokens in itertools.product((0, 1), repeat=3):
        automaton.walk(automaton.start, tokens)
    for use in (automaton.accepts, automaton.text, automaton.forced, lambda state: automaton.next(state, 0)):
        with pytest.raises(ConstraintTooLarge, match="evicted while"):
            use(held)
    assert automaton.text(automaton.next(automaton.start, 0)) == b"a"


def test_what_is_in_use_stays():
    """One text goes on while thousands of others begin: what is used at every step is never forgotten."""
    constraint = regex("[ab]*") & predicate(lambda text: True)
    automaton = PredicateAutomaton(compiled(constraint).relaxed_automaton, constraint, memory_limit=100 * 600)
    state = automaton.start
    for step in range(40):
        state = automaton.next(state, step % 2)
        for other in range(50):
            automaton.walk(automaton.start, [int(bit) for bit in f"{step * 50 + other:012b}"][-1:])
    assert automaton.text(state) == b"ab" * 20


@pytest.fixture(scope="module")
def model():
    return constrained.load()


def test_a_value_is_written_and_read_by_the_grammar(model):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }

    def even(text: str) -> bool:
        return json.loads(text)["n"] % 2 == 0

    generator = constrained.Generator(model, constrained.json_schema(schema) & predicate(complete_ok=even))
    for seed in range(3):
        out = generator("A number as JSON:", max_tokens=20, seed=seed, temperature=1.0)
        assert out.value["n"] % 2 == 0
