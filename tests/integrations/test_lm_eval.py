"""lm-evaluation-harness: its own task of JSONSchemaBench, and its own model of transformers as the judge of the rest."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import constrained
from constrained import InvalidArgument, PromptError, UnsupportedConstraint
from constrained.bench.jsonschemabench import judging

pytestmark = pytest.mark.filterwarnings("default")  # those of the harness are its own

needs_harness = pytest.mark.skipif(
    importlib.util.find_spec("lm_eval") is None,
    reason="the harness is not installed: pip install 'constrained-generation[lm-eval]'",
)
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
SCHEMAS = [
    PERSON,
    {"enum": ["red", "green"]},
    {"type": "string", "pattern": r"(a)\1"},  # cannot be enforced
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
    {"type": "string", "minLength": 900},  # not within the limit of tokens
]
REFUSED = (2, 4)


@pytest.fixture(scope="module")
def page() -> ModuleType:
    import constrained.integrations.lm_eval as page

    return page


@pytest.fixture(scope="module")
def bundled() -> Any:
    return constrained.load()


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the harness's own task, on schemas that lie beside it."""
    import datasets
    import lm_eval

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    data = tmp_path / "schemas.jsonl"
    rows = [{"unique_id": f"o{i}", "json_schema": json.dumps(schema)} for i, schema in enumerate(SCHEMAS)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    theirs = Path(lm_eval.__file__).parent / "tasks" / "jsonschema_bench" / "jsonschema_bench_easy.yaml"
    lines = [f"include: {theirs}", "task: on_local_data", "dataset_path: json", "dataset_name: null"]
    lines += ["dataset_kwargs:", "  data_files:", f"    test: {data}"]
    lines += ["training_split: null", "validation_split: null", "test_split: test"]
    (tmp_path / "on_local_data.yaml").write_text("\n".join(lines) + "\n")
    return tmp_path


def instances(kind: Any, *arguments: tuple[Any, ...], docs: Any = None) -> list[Any]:
    from lm_eval.api.instance import Instance

    return [
        Instance(kind, docs[i] if docs else {}, given, 0, ("task", i, 1)) for i, given in enumerate(arguments)
    ]


def generated(*schemas: Any, **how: Any) -> list[Any]:
    """Requests for texts under schemas."""
    docs = [{"json_schema": json.dumps(schema)} for schema in schemas]
    return instances(
        "generate_until",
        *((f"Answer {i}:", {"max_gen_toks": 60, **how}) for i in range(len(docs))),
        docs=docs,
    )


@needs_harness
def test_its_own_task_of_the_benchmark_runs_through_us(page: ModuleType, bundled: Any, task: Path) -> None:
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    model = page.ConstrainedLM(bundled, batch_size=4, max_gen_toks=60)
    found = simple_evaluate(
        model,
        tasks=["on_local_data"],
        task_manager=TaskManager(include_path=str(task), include_defaults=False),
        bootstrap_iters=0,
    )
    scores = found["results"]["on_local_data"]
    good = len(SCHEMAS) - len(REFUSED)
    assert scores["json_validity,none"] == scores["schema_compliance,none"] == good / len(SCHEMAS)
    texts = [sample["resps"][0][0] for sample in found["samples"]["on_local_data"]]
    for i, (schema, text) in enumerate(zip(SCHEMAS, texts, strict=True)):
        assert (text == "") if i in REFUSED else judging.judge(schema, text)[0]
    assert (model.tally.constrained, model.tally.free) == (good, 0)
    refused, long = model.tally.refused
    assert "#/pattern" in refused
    assert "900" in long


@needs_harness
def test_what_its_scorers_make_of_answers(page: ModuleType) -> None:
    from lm_eval.tasks.jsonschema_bench.metrics import json_validity, schema_compliance

    def complies(schema: Any, text: str) -> bool:
        return bool(schema_compliance([json.dumps(schema)], [text]))

    assert complies(PERSON, '{"name": "Ana", "age": 3}')
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}
    assert judging.judge(draft4, "2")[0]
    assert not complies(draft4, "2"), "that schema is none in draft 2020-12"
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}}
    assert not judging.judge(draft7, '{"a": 1}')[0]
    assert complies(draft7, '{"a": 1}'), "a keyword that draft 2020-12 does not have"
    for name, value in {
        "ipv4": "10.0.0.1",
        "ipv6": "::1",
        "uuid": "0" * 8 + "-0000" * 3 + "-" + "0" * 12,
    }.items():
        assert judging.judge({"format": name}, json.dumps(value))[0]
        assert not complies({"format": name}, json.dumps(value)), "its checker returns nothing"
    assert not json_validity([""], ["null"]), "the n is stripped"


@needs_harness
@pytest.mark.slow  # the command line looks through all tasks there are
def test_its_command_line_knows_the_model(
    page: ModuleType, task: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from constrained.integrations.lm_eval.__main__ import cli_evaluate

    arguments = [
        "--model",
        "constrained",
        "--tasks",
        "on_local_data",
        "--include_path",
        str(task),
        "--limit",
        "2",
    ]
    arguments += ["--model_args", "max_gen_toks=60,sampler=local,whitespace=none", "--batch_size", "auto"]
    monkeypatch.setattr(sys, "argv", ["lm_eval", *arguments])
    cli_evaluate()
    assert "schema_compliance" in capsys.readouterr().out


@needs_harness
def test_without_schemas_everything_is_as_the_model_of_transformers_does_it(
    page: ModuleType, bundled: Any
) -> None:
    pytest.importorskip("accelerate", reason="the harness's own model needs accelerate")
    from lm_eval.models.huggingface import HFLM

    ours = page.ConstrainedLM(bundled, batch_size=3)
    theirs = HFLM(pretrained=bundled.model, tokenizer=bundled.tokenizer, batch_size=1)
    pairs = [
        ("The city", " of Paris is"),
        ("", "Hello there"),
        ("Ana was born ", "in 1987"),
        ("x", "y"),
        ("a " * 40, "b"),
    ]
    found, wanted = (
        one.loglikelihood(instances("loglikelihood", *pairs), disable_tqdm=True) for one in (ours, theirs)
    )
    for (score, greedy), (their_score, their_greedy) in zip(found, wanted, strict=True):
        assert score == pytest.approx(their_score, abs=1e-3)
        assert greedy is their_greedy

    texts = instances("loglikelihood_rolling", ("one two three",), ("word " * 900,), ("z",))
    rolling, their_rolling = (one.loglikelihood_rolling(texts, disable_tqdm=True) for one in (ours, theirs))
    assert rolling == pytest.approx(their_rolling, rel=1e-4)

    prompts = [("The city of", ["\n\n"]), ("Ana Novak, born", ["nn"]), ('{"name":', ["}", '"']), ("x", [])]
    free = instances(
        "generate_until", *((text, {"until": stops, "max_gen_toks": 24}) for text, stops in prompts)
    )
    assert ours.generate_until(free, disable_tqdm=True) == theirs.generate_until(free, disable_tqdm=True)
    assert (ours.tally.constrained, ours.tally.free) == (0, len(prompts))


@needs_harness
def test_a_text_does_not_depend_on_its_batch(page: ModuleType, bundled: Any) -> None:
    requests = generated(PERSON, SCHEMAS[1], PERSON, SCHEMAS[3], do_sample=True, temperature=1.0)
    alone = page.ConstrainedLM(bundled, batch_size=1, seed=7).generate_until(requests, disable_tqdm=True)
    model = page.ConstrainedLM(bundled, batch_size=4, seed=7)
    assert model.generate_until(requests, disable_tqdm=True) == alone
    assert model.generate_until(requests[::-1], disable_tqdm=True) == alone[::-1]
    assert page.ConstrainedLM(bundled, seed=8).generate_until(requests, disable_tqdm=True) != alone
    first, second = model.generate_until([requests[0]] * 2, disable_tqdm=True)
    assert first == alone[0] != second, "repeats are independent draws"


@needs_harness
def test_the_seed_of_the_harness_counts(page: ModuleType, bundled: Any) -> None:
    import torch

    model = page.ConstrainedLM(bundled)
    requests = generated(PERSON, do_sample=True, temperature=1.0)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(model.generate_until(requests, disable_tqdm=True))
    assert drawn[0] == drawn[1] != drawn[2]


@needs_harness
@pytest.mark.parametrize("how", [{"sampler": "cars"}, {"speculation": "auto"}])
def test_other_samplers_and_speculation(page: ModuleType, bundled: Any, how: dict[str, Any]) -> None:
    schemas = [{"type": "boolean"}, SCHEMAS[1]]
    texts = page.ConstrainedLM(bundled, seed=1, **how).generate_until(generated(*schemas), disable_tqdm=True)
    assert all(judging.judge(schema, text)[0] for schema, text in zip(schemas, texts, strict=True))
    if "speculation" in how:
        assert texts == page.ConstrainedLM(bundled, seed=1).generate_until(
            generated(*schemas), disable_tqdm=True
        )


@needs_harness
def test_a_refusal_can_end_the_run(page: ModuleType, bundled: Any) -> None:
    with pytest.raises(UnsupportedConstraint, match="#/pattern"):
        page.ConstrainedLM(bundled, on_refusal="error").generate_until(
            generated(SCHEMAS[2]), disable_tqdm=True
        )


@needs_harness
def test_the_schema_can_stand_elsewhere(page: ModuleType, bundled: Any) -> None:
    docs = [{"meta": {"schema": {"enum": ["x"]}}}, {"json_schema": {"enum": ["y"]}}]
    requests = instances("generate_until", *[("A:", {"max_gen_toks": 8})] * 2, docs=docs)
    model = page.ConstrainedLM(bundled, schema="meta.schema")
    constrained_text, _ = model.generate_until(requests, disable_tqdm=True)
    assert (constrained_text, model.tally.constrained, model.tally.free) == ('"x"', 1, 1)


@needs_harness
def test_settings_that_cannot_be_are_refused(page: ModuleType, bundled: Any) -> None:
    for wrong in ({"on_refusal": "ignore"}, {"whitespaces": "any"}, {"sampler": "best"}):
        with pytest.raises(
            InvalidArgument, match=next(iter(wrong.values())) if "white" not in str(wrong) else "whitespaces"
        ):
            page.ConstrainedLM(bundled, **wrong)
    model = page.ConstrainedLM(bundled)
    with pytest.raises(InvalidArgument, match="num_beams"):
        model.generate_until(generated(PERSON, num_beams=4), disable_tqdm=True)
    with pytest.raises(InvalidArgument, match="no room"):
        model.generate_until(generated(PERSON, max_gen_toks=1 << 20), disable_tqdm=True)


@needs_harness
def test_chats_go_through_the_template(page: ModuleType, bundled: Any) -> None:
    model = page.ConstrainedLM(bundled)
    chat = [{"role": "user", "content": "Hello."}]
    if bundled.tokenizer.chat_template is None:
        with pytest.raises(PromptError, match="template"):
            model.apply_chat_template(chat)
        return
    text = model.apply_chat_template(chat)
    assert "Hello." in text
    assert model.tok_encode(text) == bundled.encode(chat), "no special token stands there twice"


def test_without_the_harness_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from constrained.extras import MissingExtra

    for name in [name for name in sys.modules if name.startswith("constrained.integrations.lm_eval")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(MissingExtra, match=r"constrained-generation\[lm-eval\]"):
        importlib.import_module("constrained.integrations.lm_eval")
