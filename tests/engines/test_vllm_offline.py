"""vLLM's engine with our plug-in and the bundled model: every kind of constraint, limits, drafts, the distribution.

Three engines are started, without drafts, with vLLM's n-grams and with ours, and run the same requests.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import constrained
from constrained import Generator
from constrained.bench.fidelity.exact_distribution import exact_distributions
from constrained.bench.fidelity.goodness_of_fit import g_test
from constrained.integrations.engines.request_constraint import request_constraint
from tests.engines.vllm_worker import DRAFTS, NGRAM, run_engine

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "born": {"type": "integer", "minimum": 1900, "maximum": 2030},
        "city": {"enum": ["Brno", "Praha", "Olomouc"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 2},
    },
    "required": ["name", "born", "city"],
    "additionalProperties": False,
}
TAG = {
    "type": "structural_tag",
    "triggers": ["<n>"],
    "structures": [
        {"begin": "<n>", "schema": {"type": "integer", "maximum": 99, "minimum": 0}, "end": "</n>"}
    ],
}
KINDS: list[dict[str, Any]] = [
    {"json": PERSON},
    {"json": json.dumps(PERSON), "disable_any_whitespace": True},
    {"json_object": True},
    {"regex": "(ab|c)+[0-9]{2,4}"},
    {"choice": ["yes", "no", "maybe"]},
    {"grammar": 'root ::= "a" root "b" | "c"'},
    {"grammar": 'start: "x" start | WORD\nWORD: /[ab]{1,3}/'},
    {"structural_tag": json.dumps(TAG)},
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"structured": {"json": {"properties": {"a": {"pattern": "(a)\\1"}}}}}, "#/properties/a/pattern"),
    ({"structured": {"json": {"type": "string", "minLength": 300}}, "max_tokens": 20}, "max_tokens is 20"),
    ({"structured": {"json": PERSON, "whitespace_pattern": " "}}, "whitespace_pattern"),
    ({"structured": {"regex": "a"}, "ignore_eos": True}, "ignore_eos"),
    ({"structured": {"regex": "a"}, "extra_args": {"sampler": "cars"}}, "the sampler 'cars' does not run"),
    ({"structured": {"regex": "a{2,9}"}, "min_tokens": 5}, "must not end before 5"),
    ({"structured": {"regex": "("}}, "regular expression"),
    ({"structured": {"choice": ["x" * 2_000_000]}}, "the limit is 1048576"),
    ({"structured": {"grammar": "root ::= " + "(" * 30_000}}, "grammar"),
    ({"structured": {"json": '{"allOf": [' * 2000}}, "nested too deeply"),
    ({"structured": {"json": '{"allOf": ['}}, "not JSON"),
]
YEARS = [
    "1987",
    "1990",
    "1975",
    "1978",
    "2001",
    "2010",
    "19",
    "20",
]  # a token a digit: few spellings to enumerate
PEOPLE = [
    ("Ana Novak", 1987, "Brno"),
    ("Jan Dvorak", 1990, "Praha"),
    ("Eva Mala", 2001, "Olomouc"),
    ("Petr Velky", 1975, "Brno"),
]
DRAWS = 3000

model = constrained.load()
MANY = [
    model.encode(f"{name} was born in {born + i} in {city}. {note}")
    for i in range(17)
    for note in ("", "He likes tea.", "She sings.")
    for name, born, city in PEOPLE
][:200]
PROMPTS = MANY[:12]  # one after the other, to count passes
EMPTY = model.encode("Answer: ", chat=False)
NAMED = model.encode(
    "Ana was born in 1987, Jan in 1990, Eva in 1975 and Petr in 2001. Year: ", chat=False
)  # for n-grams


def batches() -> list[list[dict[str, Any]]]:
    kinds = [
        {"prompt": PROMPTS[i % 4], "structured": kind, "temperature": 1.0, "seed": seed, "max_tokens": limit}
        for i, kind in enumerate(KINDS)
        for seed in range(3)
        for limit in (40, 200)
    ]
    greedy = [
        [{"prompt": prompt, "structured": {"json": PERSON}, "temperature": 0.0, "max_tokens": 120}]
        for prompt in PROMPTS
    ]
    together = [{**greedy[0][0], "prompt": prompt} for prompt in MANY]
    refused = [[{"prompt": EMPTY, "max_tokens": 100, **request}] for request, _ in REFUSED]
    alive = [{"prompt": EMPTY, "structured": {"choice": ["alive"]}, "max_tokens": 9}]
    # Two requests with stop ids of their own and one without a constraint, in one batch.
    mixed = [
        {
            "prompt": EMPTY,
            "structured": {"regex": "[ab]{3,5}"},
            "stop_token_ids": [5],
            "max_tokens": 30,
            "temperature": 1.0,
            "seed": 3,
        },
        {
            "prompt": EMPTY,
            "structured": {"regex": "[ab]{3,5}"},
            "max_tokens": 30,
            "temperature": 1.0,
            "seed": 4,
        },
        {"prompt": EMPTY, "max_tokens": 5, "temperature": 0.0},
        {
            "prompt": EMPTY,
            "structured": {"choice": ["x", "y"]},
            "n": 3,
            "temperature": 1.0,
            "seed": 5,
            "max_tokens": 8,
        },
    ]
    draws = [
        {
            "prompt": NAMED,
            "structured": {"choice": YEARS},
            "temperature": 1.0,
            "n": 100,
            "seed": seed,
            "max_tokens": 30,
        }
        for seed in range(0, 1000 * DRAWS, 100_000)  # n counts seeds upwards
    ]
    return [kinds, together, *greedy, *refused, alive, mixed, draws]


class Run:
    """The results of one engine."""

    def __init__(self, done: dict[str, Any]) -> None:
        assert "failed" not in done, done["failed"][-3000:]
        results, passes, count = done["results"], done["passes"], len(PROMPTS)
        self.manager = done["manager"]
        self.kinds, self.together = results[0], results[1]
        self.greedy = [one for batch in results[2 : 2 + count] for one in batch]
        self.passes, self.passes_together = sum(passes[2 : 2 + count]), passes[1]
        self.refused = [one for batch in results[2 + count : 2 + count + len(REFUSED)] for one in batch]
        self.alive, self.mixed, self.draws = results[-3:]
        self.draw_passes = passes[-1]


@pytest.fixture(scope="module", params=["none", "ngram", "ours"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    speculative = {"none": None, "ngram": NGRAM, "ours": DRAFTS}[request.param]
    environment = {"CONSTRAINED_VLLM": '{"always_draft": true}'} if request.param == "ours" else {}
    folder = tmp_path_factory.mktemp(request.param)
    made = Run(
        run_engine(batches(), folder, speculative=speculative, right_expand=True, environment=environment)
    )
    runs[request.param] = made
    return made


runs: dict[str, Run] = {}


@pytest.fixture(scope="module")
def expected() -> list[str]:
    """What the bundled model writes under our own decoding."""
    generate = Generator(model, request_constraint({"json": PERSON}))
    return [one.text for one in generate.batch(MANY, max_tokens=119)]


def test_every_completion_is_valid_and_complete_within_its_limit(run: Run) -> None:
    assert run.manager == "VllmManager"
    assert len(run.kinds) == len(KINDS) * 6
    for i, one in enumerate(run.kinds):
        kind = KINDS[i // 6]
        automaton = constrained.compile(request_constraint(kind), model.vocabulary)
        tokens = one["tokens"][:-1] if one["tokens"][-1] == 0 else one["tokens"]
        states = [automaton.start, *automaton.walk(automaton.start, tokens)]
        assert len(states) == len(tokens) + 1, (kind, one)
        assert automaton.accepts(states[-1]), (kind, one)
        assert one["finish"] == "stop", (kind, one)


def test_greedy_texts_are_those_of_the_generator(run: Run, expected: list[str]) -> None:
    assert [one["text"] for one in run.greedy] == expected[: len(PROMPTS)]
    assert [one["text"] for one in run.together] == expected


def test_refusals_name_the_place_and_the_engine_lives_on(run: Run) -> None:
    assert len(run.refused) == len(REFUSED)
    for one, (_, message) in zip(run.refused, REFUSED, strict=True):
        assert one.get("type") == "VLLMValidationError", one
        assert message in one["error"]
    assert [one["text"] for one in run.alive] == ["alive"]


def test_requests_of_one_batch_keep_their_own_constraints_and_stop_ids(run: Run) -> None:
    stopped, plain, free, *several = run.mixed
    assert set(stopped["text"] + plain["text"]) <= set("ab")
    assert stopped["tokens"][-1] in (0, 5)
    assert 5 not in stopped["tokens"][:-1]
    assert plain["tokens"][-1] == 0
    assert len(free["tokens"]) == 5
    assert {one["text"] for one in several} <= {"x", "y"}


def test_the_distribution_is_that_of_local_masking(run: Run) -> None:
    automaton = constrained.compile(constrained.choice(YEARS), model.vocabulary)
    exact = exact_distributions(model, automaton, 29, prompt=NAMED).local
    counts = Counter(one["text"] for one in run.draws)
    assert counts.total() == DRAWS
    p = g_test(counts, exact)
    print(f"p = {p:.3g}", dict(counts))
    assert p > 1e-4


def test_drafts_need_fewer_passes_than_ngrams_at_the_same_texts() -> None:
    if len(runs) < 3:
        pytest.skip("needs the runs of the other tests of this file")
    none, ngram, ours = (runs[name] for name in ("none", "ngram", "ours"))
    tokens = sum(len(one["tokens"]) for one in none.greedy)
    print({name: f"{tokens} tokens, {one.passes} passes" for name, one in runs.items()})
    tokens = sum(len(one["tokens"]) for one in none.together)
    print(
        {
            name: f"{tokens} tokens of {len(MANY)} texts, {one.passes_together} passes"
            for name, one in runs.items()
        }
    )
    assert none.greedy == ngram.greedy == ours.greedy
    assert ours.passes * 2 < ngram.passes < none.passes
    assert max(ours.draw_passes, ngram.draw_passes) < none.draw_passes  # the G-tests are about drafts


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"environment": {"CONSTRAINED_VLLM": "maybe"}}, "CONSTRAINED_VLLM is None"),
        ({"environment": {"CONSTRAINED_VLLM": '{"second": 1}'}}, "'second' is unknown"),
        ({"environment": {"CONSTRAINED_VLLM": ""}, "speculative": DRAFTS}, "drafts nothing by itself"),
    ],
    ids=["variable", "setting", "proposer"],
)
def test_a_contradiction_ends_the_start_with_its_reason(
    job: dict[str, Any], message: str, tmp_path: Path
) -> None:
    assert message in run_engine([], tmp_path, **job)["failed"]


def test_the_variable_switches_it_on_and_nothing_else_does(tmp_path: Path) -> None:
    on = {"environment": {"CONSTRAINED_VLLM": "1"}}
    request = [
        {"prompt": EMPTY, "structured": {"json": {"type": "string", "minLength": 300}}, "max_tokens": 9}
    ]
    done = run_engine([request], tmp_path, **on)
    assert (done["manager"], done["results"][0][0].get("type")) == (
        "VllmManager",
        "VLLMValidationError",
    )
    (tmp_path / "results.json").unlink()
    assert (
        run_engine([], tmp_path, environment={"CONSTRAINED_VLLM": ""})["manager"] == "StructuredOutputManager"
    )


def test_a_model_that_wants_white_space_gets_little_of_it(tmp_path: Path) -> None:
    """A model that would write white space for ever, and XGrammar inside the same vLLM beside it."""
    white = {
        token: 100.0
        for token, text in enumerate(model.vocabulary.tokens)
        if text and not text.strip(b" \t\r\n") and token not in model.vocabulary.special
    }
    request = {
        "prompt": PROMPTS[0],
        "structured": {"json": {**PERSON, "properties": {**PERSON["properties"], "name": {"enum": ["Ana"]}}}},
        "temperature": 0.0,
        "max_tokens": 400,
        "logit_bias": white,
    }
    backends: dict[str, dict[str, Any]] = {
        "ours": {},
        "xgrammar": {
            "environment": {"CONSTRAINED_VLLM": ""},
            "structured_outputs_config": {"backend": "xgrammar"},
        },
    }
    longest = {}
    for name, job in backends.items():
        (tmp_path / name).mkdir()
        ((one,),) = run_engine([[request]], tmp_path / name, **job)["results"]
        runs = "".join("w" if token in white else " " for token in one["tokens"]).split()
        longest[name] = max(map(len, runs), default=0)
        print(
            f"{name}: {longest[name]} tokens of white space in a row, {len(one['tokens'])} in all, {one['finish']}"
        )
        if name == "ours":
            assert set(json.loads(one["text"])) >= {"name", "born", "city"}
    assert (
        longest["ours"] < 60 < 300 < longest["xgrammar"]
    )  # white space between JSON tokens has a bounded length


def test_reasoning_is_free_and_counts_and_then_the_constraint_holds(tmp_path: Path) -> None:
    free: list[int] = []
    cache = model.cache(1)
    unread = PROMPTS[0]
    while len(free) < 12:
        free.append(int(np.argmax(model.forward([unread], cache)[0])))
        unread = free[-1:]
    marker = next(token for i, token in enumerate(free) if i >= 3 and token not in free[:i])
    thought = free.index(marker) + 1
    requests = [
        {"prompt": PROMPTS[0], "structured": wanted, "temperature": 0.0, "max_tokens": thought + 40}
        for wanted in ({"json": PERSON}, {"choice": ["yes", "no"]}, {"regex": "[ab]{5,}"})
    ]
    done = run_engine(
        [requests],
        tmp_path,
        speculative=DRAFTS,
        structured_outputs_config={
            "reasoning_parser": "marker",
            "reasoning_parser_plugin": str(Path(__file__).with_name("marker_parser.py")),
        },
        environment={"CONSTRAINED_VLLM": '{"always_draft": true}', "CONSTRAINED_TEST_MARKER": str(marker)},
    )
    assert "failed" not in done, done["failed"][-3000:]
    for request, one in zip(requests, done["results"][0], strict=True):
        assert one["tokens"][:thought] == free[:thought]
        automaton = constrained.compile(request_constraint(request["structured"]), model.vocabulary)
        states = automaton.walk(automaton.start, one["tokens"][thought:-1])
        assert len(states) == len(one["tokens"]) - thought - 1
        assert automaton.accepts(states[-1])
        assert one["finish"] == "stop"
