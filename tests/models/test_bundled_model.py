"""The bundled model: what it is trained on, how it is scored, and that it copies instead of reciting."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from constrained.models.tiny import WEIGHTS
from tools.tiny_model import corpus, domains, tokenizer, values
from tools.tiny_model.corpus import Example
from tools.tiny_model.score import (
    Scores,
    constrained_completer,
    heldout_examples,
    json_equal,
    json_leaves,
    leaves_out,
    score,
)

pytestmark = pytest.mark.bench  # the training, not the library

COUNT = 400


@pytest.fixture(scope="module")
def train() -> list[Example]:
    return list(itertools.islice(corpus.stream(7, "train"), COUNT))


@pytest.fixture(scope="module")
def unseen() -> list[Example]:
    return list(itertools.islice(corpus.stream(7, "heldout"), COUNT))


@pytest.fixture(scope="module")
def both(train: list[Example], unseen: list[Example]) -> list[Example]:
    return train + unseen


def strings(schema: dict[str, Any], value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every string of a value, with the schema it was drawn for."""
    for branch in schema.get("anyOf", [schema]):
        if isinstance(value, str) and branch.get("type") != "null":
            yield value, branch
        elif isinstance(value, list) and "items" in branch:
            for item in value:
                yield from strings(branch["items"], item)
        elif isinstance(value, dict) and "properties" in branch:
            for key, part in value.items():
                yield from strings(branch["properties"][key], part)


def free_strings(example: Example) -> set[str]:
    return {text for text, schema in strings(example.schema, example.value) if "enum" not in schema}


# ------------------------------------------------------------------------------------------------ the corpus


def test_an_example_follows_from_its_seed(train: list[Example]) -> None:
    assert train == list(itertools.islice(corpus.stream(7, "train"), COUNT))
    other = {example.text for example in itertools.islice(corpus.stream(8, "train"), COUNT)}
    long = {example.text for example in train if len(example.text) > 100}
    assert len(long) > COUNT / 3
    assert long.isdisjoint(other)


def test_every_answer_is_a_value_of_its_schema(both: list[Example]) -> None:
    for example in both:
        Draft202012Validator.check_schema(example.schema)
        Draft202012Validator(example.schema).validate(example.value)
        assert json.loads(example.completion) == example.value


def test_schemas_use_the_plain_keywords_only(both: list[Example]) -> None:
    known = {"type", "properties", "required", "additionalProperties", "enum", "items", "minimum", "maximum"}
    known |= {"anyOf", "format", "title", "description", "pattern", "minItems", "maxItems"}

    def check(schema: dict[str, Any]) -> None:
        assert set(schema) <= known
        for part in [*schema.get("anyOf", []), *schema.get("properties", {}).values()]:
            check(part)
        if "items" in schema:
            check(schema["items"])

    for example in both:
        check(example.schema)


def test_answers_keep_the_order_of_the_schema(both: list[Example]) -> None:
    for example in both:
        if example.schema.get("type") == "object":
            assert list(example.value) == [
                key for key in example.schema["properties"] if key in example.value
            ]


def test_strings_stand_in_the_text(both: list[Example]) -> None:
    """Choices may change their spelling and dates their form; every other string is there letter by letter."""
    for example in both:
        for text in free_strings(example):
            assert text in example.text or is_date(text), (text, example.text)


def is_date(text: str) -> bool:
    parts = text.split("-")
    return [len(part) for part in parts] == [4, 2, 2] and all(part.isdigit() for part in parts)


def test_the_splits_share_no_schema_and_no_string(train: list[Example], unseen: list[Example]) -> None:
    assert {corpus.key_paths(e.schema) for e in train}.isdisjoint(corpus.key_paths(e.schema) for e in unseen)
    assert set().union(*map(free_strings, train)).isdisjoint(set().union(*map(free_strings, unseen)))
    assert all(values.in_split(text, "heldout") for example in unseen for text in free_strings(example))


def test_some_domains_are_held_out(train: list[Example], unseen: list[Example]) -> None:
    reserved = {domain.name for domain in domains.HELDOUT_DOMAINS}
    assert len(domains.TRAIN_DOMAINS) >= 12
    assert reserved.isdisjoint(domain.name for domain in domains.TRAIN_DOMAINS)
    assert reserved.isdisjoint(example.domain for example in train)
    assert reserved <= {example.domain for example in unseen}


def test_the_corpus_is_varied(train: list[Example]) -> None:
    """Nesting, lists of objects, numbers, booleans, null, missing fields, diacritics, text forms: all of them occur."""
    shapes = [json_leaves(example.value) for example in train]
    kinds = {type(leaf) for shape in shapes for leaf in shape.values()}
    assert {str, int, float, bool, type(None)} <= kinds
    paths = {path for shape in shapes for path in shape}
    assert any(path.count("/") >= 3 for path in paths)
    text = "".join(example.text for example in train)
    assert sum(letter in text for letter in "éñłßüšő") >= 5
    assert any(len(e.value) < len(e.schema["properties"]) for e in train if "properties" in e.schema)
    assert {example.domain for example in train} >= {domain.name for domain in domains.TRAIN_DOMAINS}


def test_training_leaves_fields_out_more_often(train: list[Example], unseen: list[Example]) -> None:
    """The held-out shares stay as they are, so that figures of different weights can be compared."""
    trained, scored = (sum(leaves_out(e.schema, e.value) for e in part) / COUNT for part in (train, unseen))
    assert 0.08 < scored < 0.17
    assert 2 * scored < trained < 0.4


def test_the_scored_documents_stay_the_same() -> None:
    """Another digest means other documents: every recorded score has to be measured anew."""
    digest = hashlib.sha256()
    for example in heldout_examples(100, seed=1):
        digest.update(json.dumps([example.text, example.schema, example.completion]).encode())
    assert digest.hexdigest()[:16] == "32db03ffaccf2d92"


def test_the_first_lessons_are_short() -> None:
    def mean(level: float) -> float:
        return sum(len(corpus.draw_example(n, "train", level).text) for n in range(100)) / 100

    assert mean(0.0) < 0.7 * mean(1.0)


# ---------------------------------------------------------------------------------------------- the measure


def test_leaves_are_the_fields() -> None:
    assert json_leaves({"a": 1, "b": {"c": [True, "x"]}, "d": []}) == {
        "/a": 1,
        "/b/c/0": True,
        "/b/c/1": "x",
        "/d": [],
    }
    assert json_leaves(3) == {"": 3}
    assert json_equal(1, 1.0)
    assert json_equal(None, None)
    assert not json_equal(1, True)


def test_the_gold_answers_score_full_marks(unseen: list[Example]) -> None:
    report = score(lambda example: example.completion, unseen[:50]).report()
    for measure in ("json", "valid", "exact_object", "field_accuracy", "copied_strings"):
        assert report[measure] == 1.0
    assert sum(group["examples"] for group in report["by_group"].values()) == 50


def test_fields_that_the_text_does_not_tell_are_told_apart() -> None:
    schema = {
        "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"properties": {"c": {}}}}}
    }
    assert not leaves_out(schema, {"a": "x", "b": [{"c": 1}]})
    assert leaves_out(schema, {"a": "x"})
    assert leaves_out(schema, {"a": None, "b": []})
    assert leaves_out(schema, {"a": "x", "b": [{"c": 1}, {}]})
    assert leaves_out({"type": "string"}, None)


def test_reciting_scores_next_to_nothing(unseen: list[Example]) -> None:
    """Right keys with somebody else's values: nothing is copied from the text."""
    others = iter(unseen[1:])

    def recite(example: Example) -> str:
        foreign = sorted(free_strings(next(others))) or ["?"]
        return json.dumps(dict.fromkeys(example.schema.get("properties", {}), foreign[0]))

    report = score(recite, unseen[:-1]).report()
    assert report["json"] == 1.0
    assert report["copied_strings"] < 0.02
    assert report["exact_object"] < 0.02


def test_wrong_missing_and_invented_fields_cost() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    example = Example("a: xyz, b: 2", schema, {"a": "xyz", "b": 2}, "attributes", "heldout")
    table = [
        ('{"a": "xyz", "b": 2.0}', 1.0, 1.0),
        ('{"b": 2, "a": "xyz"}', 1.0, 1.0),
        ('{"a": "xyz"}', 0.5, 0.0),
        ('{"a": "xyz", "b": true}', 0.5, 0.0),
        ('{"a": "xyz", "b": 2, "c": 1, "d": 1}', 0.5, 0.0),
        ('{"a": "xyz", "b": 2', 0.0, 0.0),
    ]
    for answer, fields, exact in table:
        scores = Scores()
        scores.add(example, answer)
        assert (scores.report()["field_accuracy"], scores.report()["exact_object"]) == (fields, exact), answer


# ---------------------------------------------------------------------------------------- tokenizer and model


@pytest.fixture(scope="module")
def bundled() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(WEIGHTS, local_files_only=True)


def test_the_package_data_is_complete_and_small() -> None:
    names = {
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "scores.json",
        "README.md",
    }
    assert names <= {path.name for path in WEIGHTS.iterdir()}
    assert sum(path.stat().st_size for path in WEIGHTS.iterdir()) <= 12_000_000
    assert json.loads((WEIGHTS / "config.json").read_text(encoding="utf-8"))["architectures"] == [
        "LlamaForCausalLM"
    ]


@given(st.text(max_size=40))
def test_any_text_survives_the_tokenizer(bundled: Any, text: str) -> None:
    ids = bundled(text, add_special_tokens=False)["input_ids"]
    assert bundled.decode(ids, clean_up_tokenization_spaces=False) == text


@pytest.mark.parametrize(
    "value", ["Berlin", "Łukasz Öztürk", "AB-1234", "ana.silva@example.com", "Δήμος", "李明", "dry flour"]
)
def test_a_value_is_the_same_tokens_in_prose_and_in_json(bundled: Any, value: str) -> None:
    def inside(before: str, after: str) -> list[str]:
        start, end = len(before), len(before) + len(value)
        encoded = bundled(before + value + after, add_special_tokens=False, return_offsets_mapping=True)
        pairs = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
        return [token for token, (low, high) in pairs if start <= low and high <= end]

    assert inside("She saw ", " there") == inside('{"a": "', '", "b": 1}')


def test_training_the_tokenizer_keeps_every_byte(train: list[Example]) -> None:
    made = tokenizer.train((example.text for example in train), ["a whole phrase"], vocabulary_size=400)
    assert len(made) == 400
    assert len(made("a whole phrase", add_special_tokens=False)["input_ids"]) == 1
    every = bytes(range(1, 128)).decode() + "ÿ😀"
    assert (
        made.decode(made(every, add_special_tokens=False)["input_ids"], clean_up_tokenization_spaces=False)
        == every
    )


def test_the_model_copies_what_it_has_never_seen() -> None:
    """Far above what any recitation could reach, on strings and schemas that training has never met."""
    import constrained

    recorded = json.loads((WEIGHTS / "scores.json").read_text(encoding="utf-8"))["constrained"]
    report = score(constrained_completer(constrained.load()), heldout_examples(12)).report()
    assert report["valid"] == 1.0
    assert report["copied_strings"] >= min(0.5, recorded["copied_strings"] - 0.3)
    assert report["field_accuracy"] >= min(0.5, recorded["field_accuracy"] - 0.3)


@pytest.mark.slow
def test_the_recorded_scores_are_real() -> None:
    import constrained

    recorded = json.loads((WEIGHTS / "scores.json").read_text(encoding="utf-8"))
    report = score(
        constrained_completer(constrained.load()), heldout_examples(100, recorded["seed"])
    ).report()
    assert report["valid"] == 1.0
    for measure in ("field_accuracy", "exact_object", "copied_strings"):
        assert report[measure] == pytest.approx(recorded["constrained"][measure], abs=0.08)
