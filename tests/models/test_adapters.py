"""LoRA adapters: several models over the weights of one."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import constrained
from constrained import LanguageModel, load
from constrained.cli.exit_status import BadInput
from constrained.cli.serve import _adapters
from constrained.errors import InvalidArgument, ModelError
from constrained.models.hugging_face import HuggingFaceModel
from tests.server.serving import served

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft reads it

IDS = [[1, 2, 3]]
SCHEMA = {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 4, "maxItems": 4}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two random adapters of the bundled model."""
    made = []
    warnings.simplefilter("ignore", FutureWarning)  # marks do not reach fixtures
    for seed, targets in enumerate((["q_proj", "down_proj"], ["v_proj", "o_proj", "up_proj"])):
        torch.manual_seed(seed)
        config = peft.LoraConfig(
            r=4, lora_alpha=64, target_modules=targets, init_lora_weights=False, task_type="CAUSAL_LM"
        )
        made.append(tmp_path_factory.mktemp(f"adapter{seed}"))
        peft.get_peft_model(bundled().model, config).save_pretrained(made[-1])
    return made[0], made[1]


def bundled() -> HuggingFaceModel:
    model = load()
    assert isinstance(model, HuggingFaceModel)
    return model


def logits(model: LanguageModel) -> Any:
    return model.forward(IDS, model.cache(1))


def merged(folder: Path) -> LanguageModel:
    """The judge: the adapter's weights added to those of a model of its own."""
    model = bundled()
    return load(peft.PeftModel.from_pretrained(model.model, folder).merge_and_unload(), model.tokenizer)


@pytest.mark.ci
def test_each_adapter_computes_what_its_merged_model_computes(folders: tuple[Path, Path]) -> None:
    base, plain = bundled(), logits(bundled())
    first, second = (base.with_adapter(folder) for folder in folders)
    for _ in range(2):  # in turns, and again
        for model, folder in ((first, folders[0]), (second, folders[1])):
            np.testing.assert_allclose(logits(model), logits(merged(folder)), atol=1e-4)
        np.testing.assert_array_equal(logits(base), plain)
    assert np.abs(logits(first) - plain).max() > 1, "the adapter changes what the model says"
    assert len({base.fingerprint, first.fingerprint, second.fingerprint}) == 3
    assert base.with_adapter(folders[0]).fingerprint == first.fingerprint
    assert base.fingerprint == bundled().fingerprint


@pytest.mark.ci
def test_threads_take_turns(folders: tuple[Path, Path]) -> None:
    """Texts of models that share weights are those that each says alone, with and without drafts."""
    base = bundled()
    models = [base, *(base.with_adapter(folder) for folder in folders)]

    def say(model: LanguageModel) -> list[Any]:
        return [
            constrained.generate(
                model, "colours", SCHEMA, max_tokens=60, seed=seed, speculation=drafts, sampler="local"
            )
            for seed in range(4)
            for drafts in (None, "auto")
        ]

    alone = [say(model) for model in models]
    with ThreadPoolExecutor(len(models)) as pool:
        assert list(pool.map(say, models)) == alone
    assert alone[0] != alone[1] != alone[2]


def test_the_folder_of_an_adapter_is_a_model(folders: tuple[Path, Path]) -> None:
    model = load(folders[0])
    np.testing.assert_array_equal(logits(model), logits(bundled().with_adapter(str(folders[0]))))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(logits(again), logits(model))


def test_a_wrapped_model_is_read_with_its_cache(folders: tuple[Path, Path]) -> None:
    base = bundled()
    model = load(peft.PeftModel.from_pretrained(base.model, folders[0]), base.tokenizer)
    assert isinstance(model, HuggingFaceModel)
    assert model.capabilities.layout is not None
    np.testing.assert_allclose(logits(model), logits(merged(folders[0])), atol=1e-4)


def test_a_learned_prompt_is_refused() -> None:
    base = bundled()
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    with pytest.raises(ModelError, match="learned a prompt"):
        load(peft.get_peft_model(base.model, config), base.tokenizer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bias": "all"}, "bias='all'"),
        ({"modules_to_save": ["lm_head"]}, r"modules_to_save=\['lm_head'\]"),
        ({"trainable_token_indices": [1]}, "new embeddings"),
        ({"target_modules": ["nowhere"]}, "cannot be loaded"),
    ],
)
def test_what_is_more_than_lora_is_refused(
    folders: tuple[Path, Path], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    config = json.loads((folders[0] / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps(config | change))
    base, plain = bundled(), logits(bundled())
    with pytest.raises(ModelError, match=message):
        base.with_adapter(tmp_path)
    np.testing.assert_array_equal(logits(base), plain)


def test_an_adapter_of_another_model_leaves_this_one_as_it_was(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """peft makes its layers, here with random weights, before it finds that those in the file have other shapes."""
    config = json.loads((folders[0] / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps(config | {"r": 3}))
    (tmp_path / "adapter_model.safetensors").write_bytes(
        (folders[0] / "adapter_model.safetensors").read_bytes()
    )
    base, plain = bundled(), logits(bundled())
    for _ in range(2):
        with pytest.raises(ModelError, match="cannot be loaded"):
            base.with_adapter(tmp_path)
        np.testing.assert_array_equal(logits(base), plain)
    np.testing.assert_allclose(logits(base.with_adapter(folders[0])), logits(merged(folders[0])), atol=1e-4)
    np.testing.assert_array_equal(logits(base), plain)
    with pytest.raises(ModelError, match="cannot be loaded"):
        base.with_adapter(tmp_path)
    np.testing.assert_array_equal(logits(base), plain)


def test_other_kinds_of_adapters_are_refused(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "IA3", "target_modules": ["k_proj"]}')
    with pytest.raises(ModelError, match="is IA3, not LORA"):
        bundled().with_adapter(tmp_path)


def test_what_is_no_adapter_is_refused(tmp_path: Path) -> None:
    wrong: Callable[[Any], Any] = bundled().with_adapter
    with pytest.raises(InvalidArgument, match="names no adapter"):
        wrong(None)
    with pytest.raises(ModelError, match=r"cannot be loaded[^$]*adapter_config\.json"):
        wrong(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="does not name its model"):
        load(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{")
    with pytest.raises(ModelError, match="cannot be read"):
        load(tmp_path)


@pytest.mark.ci
def test_adapters_are_models_of_a_server(folders: tuple[Path, Path]) -> None:
    base = bundled()
    first = base.with_adapter(folders[0])
    with served({"base": base, "first": first, "second": first.with_adapter(folders[1])}) as server:
        listed = {one["id"]: one["parent"] for one in server.http.get("/v1/models").json()["data"]}
        assert listed == {"base": None, "first": "base", "second": "base"}
        assert server.http.get("/v1/models/first").json()["parent"] == "base"
        answers = {name: server.chat(model=name, guided_json=SCHEMA).json() for name in ("base", "first")}
    contents = {
        name: json.loads(answer["choices"][0]["message"]["content"]) for name, answer in answers.items()
    }
    assert set(contents["base"] + contents["first"]) <= {"red", "green", "blue"}
    assert contents["base"] != contents["first"]


def test_an_adapter_whose_model_is_not_served_has_no_parent(folders: tuple[Path, Path]) -> None:
    with served({"alone": bundled().with_adapter(folders[0]), "other": bundled()}) as server:
        assert [one["parent"] for one in server.http.get("/v1/models").json()["data"]] == [None, None]


def test_names_on_the_command_line() -> None:
    assert _adapters(["a=folder", "b=org/name=1"], {"base": None}) == {"a": "folder", "b": "org/name=1"}
    for given, models, message in (
        (["folder"], {"base": None}, "no name"),
        (["a="], {"base": None}, "no adapter"),
        (["base=folder"], {"base": None}, "two models"),
        (["a=x", "a=y"], {"base": None}, "two models"),
        (["a=x"], {"one": None, "two": "b"}, "single model"),
    ):
        with pytest.raises(BadInput, match=message):
            _adapters(given, models)
