"""The Python code of the pages runs, with the bundled model where a page names a larger one."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import inspect
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import constrained

pytestmark = pytest.mark.ci

DOCS = Path(__file__).parent.parent / "docs"
TEXT = "Order id: 4711. Total: 19.90. City: Porto."


@dataclass
class Order:
    """An order of a shop."""

    order_id: str
    total: float
    city: str | None = None


@dataclass
class Person:
    name: str
    born: int


def search(query: str) -> str:
    """Looks something up."""
    return query


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


NOT_RUN = {
    'load("qwen3-4b': "needs a GGUF file; tests/engines/test_llama_cpp.py runs it",
    "LlamaCppLogitsProcessor": "needs llama.cpp; tests/engines/test_llama_cpp.py runs it",
    "MlxLogitsProcessor": "needs MLX; tests/engines/test_mlx.py runs it",
    "outlines.from_transformers": "needs Outlines; tests/engines/test_outlines.py runs it",
    "SmolVLM2": "needs a model that takes images; tests/models/test_images.py runs it",
    "[picture, ": "needs a model that takes images; tests/extraction/test_images.py runs it",
    "ray.data.read_parquet": "needs Ray; tests/extraction/test_dataset.py runs it",
    "VllmModel": "needs vLLM; tests/engines/test_vllm_extraction.py runs it",
    "vllm.platforms": "a fault of vLLM, shown on vLLM",
    "from pydantic_ai": "needs a server; tests/server/test_clients.py runs it",
    "from smolagents": "needs a server, and smolagents; tests/server/test_in_thread.py runs it",
    "from haystack": "needs a server, and Haystack; tests/server/test_in_thread.py runs it",
    "from llama_index": "needs a server, and LlamaIndex; tests/server/test_in_thread.py runs it",
    "from openai import OpenAI": "needs a server; tests/server/test_clients.py runs it",
    "client.chat.completions": "needs a server; tests/server/test_other_servers.py runs it",
    "client.decisions": "needs a server; tests/server/test_decisions.py runs it",
    "anthropic.Anthropic": "needs a server; tests/server/test_messages_api.py runs it",
    "ConstrainedDecisionModel(": "needs langchain; tests/integrations/test_langchain_decisions.py runs it",
    "init_chat_model": "needs langchain; tests/integrations/test_langchain_drop_in.py runs it",
    "ChatConstrained(model=...": "an outline: tests/chat/test_tool_format_probe.py has such formats",
    "bind_tools([search": "needs a model that calls tools; tests/integrations/test_langchain.py runs it",
    "import dspy": "needs a server; tests/integrations/test_dspy.py runs it",
    "import langextract": "needs langextract; tests/integrations/test_langextract.py runs it",
    "DraftPrior.load": "needs a file of counts; tests/spec/test_prior.py writes and loads one",
    'device="cuda"': "needs a GPU; tests/automaton/test_device_masks.py runs it on the CPU",
}
"""Code that is only read here: a part of it, and why, or where it runs."""
LINE = "    city: str | None = None\n"
"""A line of the class before it."""

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "people": {"type": "integer"}},
    "required": ["name", "people"],
    "additionalProperties": False,
}


def blocks() -> list[Any]:
    """(page, code) of every Python block of the pages."""
    found = []
    for page in sorted(DOCS.glob("*.md")):
        codes = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        found += [pytest.param(page.name, code, id=f"{page.stem}-{i}") for i, code in enumerate(codes)]
    return found


bundled = functools.cache(constrained.load)


def names() -> dict[str, Any]:
    """What the pages take as given."""
    model = bundled()
    tokenizer: Any = model.tokenizer  # type: ignore[attr-defined]
    constraint = constrained.json_schema(SCHEMA)
    return {
        "constrained": constrained,
        "asyncio": asyncio,
        "model": model,
        "tokenizer": tokenizer,
        "schema": SCHEMA,
        "constraint": constraint,
        "prompt": "A city:",
        "text": TEXT,
        "texts": [TEXT, "Order id: 99012. Total: 7.5. City: Faro."],
        "documents": [TEXT, "Order id: 815. Total: 240.00. City: Brno."],
        "save": lambda id, value: None,
        "select": 'root ::= "SELECT " [0-9]+',
        "token": tokenizer.encode("{", add_special_tokens=False)[0],
        "Order": Order,
        "Report": Order,
        "Person": Person,
        "extractor": constrained.Extractor(model, Order),
        "inputs": tokenizer("A city:", return_tensors="pt"),
    }


def run(code: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs code that may use ``await``, as a module: classes look names of their annotations up there."""
    page = ModuleType("page")
    page.__dict__.update(given)
    monkeypatch.setitem(sys.modules, "page", page)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    done = eval(compile(code, "<page>", "exec", flags=flags, dont_inherit=True), page.__dict__)
    if inspect.iscoroutine(done):
        asyncio.run(done)


@pytest.mark.parametrize(("page", "code"), blocks())
def test_the_code_of_a_page_runs(page: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constrained, "load", bundled)
    if code == LINE:
        return
    if any(part in code for part in NOT_RUN):
        compile(code, "<page>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return
    given = names()
    if "model.generate(" in code:
        given["model"] = given["model"].model  # the one of transformers
    if 'sampler="cars"' in code:
        code = code.replace("gen.sample(prompt, 100,", "gen.sample(prompt, 3,")  # a hundred take a minute
        given["constraint"] = constrained.regex("(.|\\n)*")  # of which the tiny model writes texts by itself
    refused = constrained.UnsupportedConstraint if r"^(.)\1$" in code else None
    with contextlib.redirect_stdout(io.StringIO()):
        if refused is not None:
            with pytest.raises(refused):
                run(code, given, monkeypatch)
        else:
            run(code, given, monkeypatch)


def test_everything_that_is_not_run_is_on_a_page() -> None:
    codes = "".join(block.values[1] for block in blocks())
    assert [part for part in NOT_RUN if part not in codes] == []
