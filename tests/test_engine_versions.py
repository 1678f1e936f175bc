"""The versions of engines on the pages are those that are installed and recorded: `constraints-engines.txt` and the record."""

from __future__ import annotations

import json
import re

from tests.support.paths import ROOT
from tests.tools.engine_names import PATH

PINS = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints-engines.txt").read_text(), re.MULTILINE))


def page(name: str) -> str:
    return " ".join((ROOT / name).read_text().split())


def test_the_page_of_engines_names_the_installed_ones() -> None:
    tried = f"llama-cpp-python {PINS['llama_cpp_python']}, mlx-lm {PINS['mlx-lm']} and Outlines {PINS['outlines']}"
    assert tried in page("docs/engines.md")


def test_the_page_of_vllm_and_sglang_names_the_recorded_releases() -> None:
    recorded = [name.split() for name in json.loads(PATH.read_text())]
    vllm = [version for engine, version in recorded if engine == "vllm"]
    (sglang,) = (version for engine, version in recorded if engine == "sglang")
    oldest, newest = (version.rpartition(".")[0] for version in (vllm[0], vllm[-1]))
    text, makefile = page("docs/serving.md"), page("Makefile")
    assert f"supported versions are vLLM {oldest} to {newest}" in text
    assert f"The supported version is {sglang};" in text
    assert f"sglang=={sglang}" in makefile
    assert all(re.search(rf"vllm(-cpu)?=={re.escape(version)}", makefile) for version in vllm)
    extras = page("pyproject.toml")
    assert f'"vllm>={oldest}"' in extras
    assert f'"sglang>={sglang}"' in extras
