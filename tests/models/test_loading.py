"""`load` from files: which options reach what, where models go, and what is said of files that cannot be read."""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
import transformers

from constrained.cli import main
from constrained.constraint import choice
from constrained.decoding import Generator
from constrained.errors import ModelError, PromptError, VocabularyError
from constrained.models import load, loading
from tests.support.tiny_models import llama, random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    random_llama().save_pretrained(folder)
    small_bpe_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def broken(saved: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    for path in saved.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


class _Hub:
    """Stands for the session of the Hub's client."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[str] = []

    def head(self, url: str, timeout: float) -> None:
        self.asked.append(url)
        if self.error is not None:
            raise self.error


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> _Hub:
    """The Hub answers, unless a test gives it an error."""
    made = _Hub()
    monkeypatch.setattr(huggingface_hub, "get_session", lambda: made)
    return made


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """What `from_pretrained` of model and tokenizer are called with; a random model comes back, on its device."""
    seen: dict[str, dict[str, Any]] = {}

    def model(name: str, **options: Any) -> Any:
        seen["model"] = {"name": name, **options}
        made = random_llama()
        made.to = lambda place: seen.setdefault("moved", {"to": place}) and made
        made.is_quantized = "quantization_config" in options
        return made, {"missing_keys": set()}

    def tokenizer(name: str, **options: Any) -> Any:
        seen["tokenizer"] = {"name": name, **options}
        return small_bpe_tokenizer()

    config = random_llama().config
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda name, **options: config)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", model)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", tokenizer)
    return seen


# ------------------------------------------------------------------------------------------------ options

FILES: dict[str, Any] = {"revision": "v2", "subfolder": "sub", "gguf_file": "m.gguf"}
ACCESS: dict[str, Any] = {
    "token": "t",
    "trust_remote_code": True,
    "cache_dir": "/tmp/x",
    "local_files_only": True,
}


def test_a_model_in_a_subfolder_brings_its_tokenizer(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for path in saved.iterdir():
        (tmp_path / "sub" / path.name).write_bytes(path.read_bytes())
    assert load(tmp_path, subfolder="sub", device="cpu").vocabulary == llama().vocabulary


def test_options_about_files_and_access_reach_the_tokenizer_and_others_do_not(calls: Any) -> None:
    load("repo", **FILES, **ACCESS, attn_implementation="eager", device="cpu")
    assert calls["tokenizer"] == {"name": "repo", **FILES, **ACCESS}
    assert (
        calls["model"].items() >= {"name": "repo", **FILES, **ACCESS, "attn_implementation": "eager"}.items()
    )


def test_a_tokenizer_of_another_repository_has_files_of_its_own(calls: Any) -> None:
    load("repo", "other", **FILES, **ACCESS, device="cpu")
    assert calls["tokenizer"] == {"name": "other", **ACCESS}
    assert calls["model"].items() >= FILES.items()


def test_without_the_hub_names_are_looked_up_here_at_once(calls: Any, hub: _Hub) -> None:
    """The Hub's client would try again and again, for each file, before it reads those that are here."""
    hub.error = ConnectionError("no network")
    load("repo", "other", device="cpu", revision="v2")
    assert calls["tokenizer"] == {"name": "other", "local_files_only": True}
    assert calls["model"].items() >= {"local_files_only": True, "revision": "v2"}.items()
    assert hub.asked
    hub.error = None
    load("repo", device="cpu")
    assert "local_files_only" not in calls["model"].keys() | calls["tokenizer"].keys()


def test_the_hub_is_not_asked_where_that_is_settled(calls: Any, hub: _Hub, saved: Path) -> None:
    load(saved, device="cpu")
    load("repo", device="cpu", local_files_only=False)
    load("repo", device="cpu", force_download=True)
    load("./nowhere", device="cpu")
    assert not hub.asked


def test_a_name_that_is_not_here_is_refused_without_the_hub(
    hub: _Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.error = ConnectionError("no network")
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        load("org/unheard-of", cache_dir=str(tmp_path))
    assert "check the name, the folder, the device and the network" in str(caught.value)
    with pytest.raises(SystemExit):
        main(["generate", "x", "--model", "org/unheard-of", "--choice", "a"])
    assert "'org/unheard-of' cannot be loaded" in capsys.readouterr().err


def test_a_model_that_transformers_places_is_not_moved(calls: Any) -> None:
    load("repo", device_map="auto")
    assert "moved" not in calls
    assert calls["model"]["dtype"] == "auto"
    load("repo", quantization_config="any")
    assert "moved" not in calls
    load("repo", quantization_config="any", device="cpu")  # where it is
    assert "moved" not in calls
    load("repo", device="cpu")
    assert calls["moved"] == {"to": "cpu"}


def test_two_options_that_say_where_a_model_goes_are_refused(calls: Any) -> None:
    with pytest.raises(ModelError, match="both say where"):
        load("repo", device="cpu", device_map="auto")
    assert "model" not in calls


@pytest.mark.parametrize(
    ("option", "step"),
    [
        ("revison", "did you mean revision?"),
        ("device_mapp", "did you mean device_map?"),
        ("load_in_4bit", "BitsAndBytesConfig(load_in_4bit=True)"),
        ("qqq", "options are those of from_pretrained"),
    ],
)
def test_an_unknown_option_is_named(saved: Path, option: str, step: str) -> None:
    with pytest.raises(ModelError) as caught:
        load(saved, device="cpu", **{option: True})
    assert f"'{option}'" in caught.value.summary
    assert step in str(caught.value.action)


def test_a_package_that_is_missing_is_named(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ImportError("Quantization requires bits: `pip install -U 'bits>=1.2.0'`")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", refuse)
    with pytest.raises(ModelError, match="requires bits") as caught:
        load(saved, device="cpu")
    assert caught.value.action == "pip install 'bits>=1.2.0'"


# ------------------------------------------------------------------------------------------------ devices


@pytest.mark.parametrize("device", ["nowhere", "cuda:99", "xpu", "meta", "", 3.5])
def test_a_device_that_is_not_there_is_named_before_anything_is_read(calls: Any, device: Any) -> None:
    with pytest.raises(ModelError, match=r"the device .* cannot be used") as caught:
        load("repo", device=device)
    assert "here are: cpu" in str(caught.value.action)
    assert not calls
    with pytest.raises(ModelError, match=r"the device .* cannot be used"):
        load(device=device or "nowhere")


# ------------------------------------------------------------------------------------------------ damaged files


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("model.safetensors", "model"),
        ("config.json", "model"),
        ("tokenizer.json", "tokenizer"),
        ("tokenizer_config.json", "tokenizer"),
    ],
)
@pytest.mark.parametrize("damage", ["half", "empty", "noise"])
def test_damaged_files_are_one_error_with_a_next_step(
    broken: Path, file: str, what: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = broken / file
    content = path.read_bytes()
    path.write_bytes({"half": content[: len(content) // 2], "empty": b"", "noise": b"\xff" * 64}[damage])
    with pytest.raises(ModelError, match=r"the (model|tokenizer) .* cannot be loaded") as caught:
        load(broken, device="cpu")
    assert caught.value.action
    assert len(str(caught.value).splitlines()) == 2
    if damage == "half":
        with pytest.raises(SystemExit) as ended:
            main(["extract", "a text", "--choice", "a", "--model", str(broken)])
        assert ended.value.code == 2
        assert "cannot be loaded" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["/no/such/folder", "./no-such-folder", "~/no-such-folder"])
def test_a_path_that_leads_nowhere_is_no_name_of_a_repository(name: str) -> None:
    with pytest.raises(ModelError, match="there is no such file or folder") as refused:
        load(name)
    assert ("~ is not expanded" in str(refused.value.action)) == name.startswith("~")


def test_weights_that_are_not_in_the_files_are_not_made_up(tmp_path: Path) -> None:
    random_llama().model.save_pretrained(tmp_path)  # without its head
    small_bpe_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"have no lm_head\.weight"):
        load(tmp_path, device="cpu")


# ------------------------------------------------------------------------------------------- models and tokenizers


def test_an_end_of_sequence_that_is_text_is_a_wrong_configuration() -> None:
    tokenizer = small_bpe_tokenizer()
    quote = tokenizer('"', add_special_tokens=False)["input_ids"][0]
    model = random_llama(eos_token_id=quote)
    with pytest.raises(VocabularyError) as caught:
        load(model, tokenizer)
    assert f"id {quote}, which is the text '\"'" in caught.value.summary
    assert f"id {tokenizer.eos_token_id}, {tokenizer.eos_token}" in caught.value.summary
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
    assert load(model, tokenizer).vocabulary.eos_ids == (tokenizer.eos_token_id,)


@pytest.mark.slow  # torch._dynamo takes seconds to import
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_model_is_refused_with_the_way_to_its_own() -> None:
    compiled: Any = torch.compile(random_llama(), backend="eager")
    with pytest.raises(ModelError, match=r"compiled by torch\.compile") as caught:
        load(compiled, small_bpe_tokenizer())
    assert "_orig_mod" in str(caught.value.action)
    load(compiled._orig_mod, small_bpe_tokenizer())


@pytest.mark.parametrize(
    "template",
    ["{{ raise_exception('no system role here') }}", "{% for m in messages %}", "{{ messages[0].x.y.z }}"],
)
def test_a_chat_template_that_raises_is_an_error_about_the_prompt(template: str) -> None:
    tokenizer = copy.deepcopy(small_bpe_tokenizer())
    tokenizer.chat_template = template
    model = load(random_llama(), tokenizer)
    with pytest.raises(PromptError, match="chat template refuses") as caught:
        model.encode([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])
    assert "(system, user)" in str(caught.value.action)
    with pytest.raises(PromptError, match="chat template refuses"):
        Generator(model, choice(["a", "b"]))("text")


def test_half_a_surrogate_pair_is_an_error_about_the_prompt() -> None:
    tokenizer = copy.deepcopy(small_bpe_tokenizer())
    for template in (None, "{{ messages[0].content }}"):
        tokenizer.chat_template = template
        model = load(random_llama(), tokenizer)
        with pytest.raises(PromptError, match="character 3 of the prompt"):
            model.encode("abc\ud800")


def test_a_device_of_the_command_line_that_is_not_there_is_bad_input(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["extract", "a text", "--choice", "a", "--model", str(saved), "--device", "nowhere"])
    assert ended.value.code == 2
    assert "here are: cpu" in capsys.readouterr().err


def test_a_configuration_of_another_vocabulary_is_named_from_a_folder(broken: Path) -> None:
    config = json.loads((broken / "config.json").read_text())
    config["eos_token_id"] = small_bpe_tokenizer()("{", add_special_tokens=False)["input_ids"][0]
    (broken / "config.json").write_text(json.dumps(config))
    (broken / "generation_config.json").unlink()
    with pytest.raises(VocabularyError, match=r"which is the text .\{"):
        load(broken, device="cpu")


def test_the_bundled_model_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load("bundled").vocabulary == load().vocabulary
    (tmp_path / "bundled").mkdir()  # a folder of that name is meant before
    with pytest.raises(ModelError, match="tokenizer 'bundled'"):
        load("bundled", local_files_only=True)


@pytest.mark.parametrize(
    ("torch_is_loaded", "said", "expected"),
    [
        (False, {}, "1000"),
        (True, {}, None),
        (False, {"OMP_WAIT_POLICY": "active"}, None),
        (False, {"GOMP_SPINCOUNT": "7"}, "7"),
    ],
)
def test_threads_of_torch_sleep_soon_unless_the_program_has_said_how_they_wait(
    monkeypatch: pytest.MonkeyPatch, torch_is_loaded: bool, said: dict[str, str], expected: str | None
) -> None:
    others = {name: value for name, value in os.environ.items() if "OMP_" not in name}
    monkeypatch.setattr(os, "environ", others | said)
    if not torch_is_loaded:
        monkeypatch.delitem(sys.modules, "torch")
    loading._sleep_soon()
    assert os.environ.get("GOMP_SPINCOUNT") == expected
