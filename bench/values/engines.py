"""An item answered by this library's public calls, or by `generate` of transformers under an engine's masks.

An engine is made ready for an item, which is not timed, and then answers it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from constrained.bench.masks.engines import load_engine
from constrained.bench.masks.engines.base import CompiledSchema
from constrained.bench.masks.engines.text import MaskedSequence
from constrained.bench.masks.engines.unconstrained import UNCONSTRAINED
from constrained.bench.speed.shapes import vocabulary_data
from constrained.bench.speed.ways import EngineProcessor, generate_tokens
from constrained.bench.values.items import ValueItem
from constrained.bench.values.reading import read_calls, read_choice, read_object
from constrained.bench.values.settings import IN_VLLM
from constrained.chat.detect import detect_formats
from constrained.chat.messages import chat_prompt
from constrained.chat.tools import ToolFormat, parse_tools
from constrained.constraint import as_constraint
from constrained.errors import Truncated, UnsupportedConstraint
from constrained.extraction import Extractor
from constrained.extraction.examples import to_json
from constrained.extraction.prompt import PromptParts, extraction_prompt
from constrained.models.hugging_face import HuggingFaceModel

if TYPE_CHECKING:
    from constrained.extraction.cluster.vllm_engine import VllmModel

OURS = "constrained"


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """How an answer is drawn.

    Attributes:
        max_tokens: of an answer.
        temperature: 0: greedy.
        seed: of this answer.
    """

    max_tokens: int
    temperature: float
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine gave.

    Attributes:
        text: as far as it came.
        value: None if there is none.
        cut: the limit changed or ended it.
        prompt_tokens, tokens: that were read and written.
    """

    text: str
    value: Any
    cut: bool
    prompt_tokens: int
    tokens: int


AnswerCall = Callable[[AnswerSettings], Answer]
ValueEngine = Callable[[ValueItem], AnswerCall]
"""From an item to a call that answers it. Making it ready may raise whatever an engine raises: a refusal."""


def value_engine(name: str, model: HuggingFaceModel) -> tuple[ValueEngine, str]:
    """An engine out of `VALUE_ENGINES`, or `IN_VLLM`, and its version.

    Raises:
        ImportError: its package is not installed.
    """
    if name == IN_VLLM:
        return _in_vllm(model)
    kind = load_engine(name)
    if name == OURS:
        return (
            lambda item: _chat(model, item) if item.constraint is None else _extract(model, item),
            kind.version,
        )
    if name == UNCONSTRAINED:
        return lambda item: _generate(model, item, None), kind.version
    engine = kind(vocabulary_data(model), 1)
    return lambda item: _generate(model, item, _compile(name, engine, model, item)), kind.version


# ---------------------------------------------------------------- this library


def _in_vllm(model: HuggingFaceModel) -> tuple[ValueEngine, str]:
    """The same weights in a second place, with the same type of numbers.

    Raises:
        MissingExtra: vLLM is not installed.
    """
    from constrained.extraction.cluster.vllm_engine import VllmModel

    on_gpu = model.model.device.type == "cuda"
    dtype = str(model.model.dtype).removeprefix("torch.")
    # vLLM takes nine tenths of the memory by default, and does not start where less is free.
    engine = VllmModel(
        model.model.name_or_path, dtype=dtype, enforce_eager=not on_gpu, gpu_memory_utilization=0.4
    )

    def ready(item: ValueItem) -> AnswerCall:
        if item.constraint is None:
            raise UnsupportedConstraint("tools are not called inside vLLM", action="name tasks of extraction")
        return _extract(engine, item)

    import vllm

    return ready, vllm.__version__


def _extract(model: HuggingFaceModel | VllmModel, item: ValueItem) -> AnswerCall:
    extractor: Extractor[Any] = Extractor(model, item.constraint, instructions=item.instructions)

    def answer(settings: AnswerSettings) -> Answer:
        try:
            found = extractor(
                item.text,
                max_tokens=settings.max_tokens,
                temperature=settings.temperature,
                seed=settings.seed,
            )
        except Truncated as error:  # what the caller of a call with its defaults gets instead of a value
            prompt = model.encode(extractor.prompt(item.text))
            return Answer(error.text, None, True, len(prompt), len(model.vocabulary.encode(error.text)))
        assert found.output is not None
        stats = found.output.stats
        return Answer(found.text, to_json(found.value), False, stats.prompt_tokens, stats.tokens)

    return answer


def _chat(model: HuggingFaceModel, item: ValueItem) -> AnswerCall:
    from constrained.integrations.langchain import ChatConstrained

    def answer(settings: AnswerSettings) -> Answer:
        chat = ChatConstrained(
            model=model, max_tokens=settings.max_tokens, temperature=settings.temperature, seed=settings.seed
        )
        reply: Any = chat.bind_tools(item.tools, tool_choice="any").invoke(list(item.messages))
        calls = [{"name": call["name"], "arguments": call["args"]} for call in reply.tool_calls]
        used = reply.usage_metadata
        cut = reply.response_metadata["finish_reason"] == "length"
        return Answer(
            json.dumps(calls, ensure_ascii=False), calls, cut, used["input_tokens"], used["output_tokens"]
        )

    return answer


# ---------------------------------------------------------------- other engines


def _generate(model: HuggingFaceModel, item: ValueItem, compiled: CompiledSchema | None) -> AnswerCall:
    prompt = prompt_ids(model, item)
    vocabulary = model.vocabulary

    def answer(settings: AnswerSettings) -> Answer:
        import torch

        options: dict[str, Any] = {}
        if settings.temperature:
            torch.manual_seed(settings.seed)
            options = {"do_sample": True, "temperature": settings.temperature, "top_k": 0, "top_p": 1.0}
        processors = []
        if compiled is not None:
            masked = MaskedSequence(compiled, vocabulary)
            processors.append(EngineProcessor(masked, len(prompt), vocabulary.size))
        made = generate_tokens(model, prompt, settings.max_tokens, processors, **options)
        text = vocabulary.decode(made.tokens).decode("utf-8", "replace")
        return Answer(text, _read(item, text), not made.ended, len(prompt), len(made.tokens))

    return answer


def prompt_ids(model: HuggingFaceModel, item: ValueItem) -> list[int]:
    """The prompt that this library writes for an item."""
    if item.constraint is None:
        form = detect_formats(model, tools=True).tools
        return model.encode(chat_prompt(model, item.messages, parse_tools(item.tools), format=form))
    extras = PromptParts(item.instructions)
    return model.encode(extraction_prompt(item.text, as_constraint(item.constraint), extras))


def _read(item: ValueItem, text: str) -> Any:
    if item.constraint is None:
        return read_calls(text)
    constraint = as_constraint(item.constraint)
    return read_object(text) if constraint.is_json else read_choice(text, _options(constraint))


def _options(constraint: Any) -> list[str]:
    options: list[str] = constraint.schema["enum"]
    return options


def _compile(name: str, engine: Any, model: HuggingFaceModel, item: ValueItem) -> CompiledSchema:
    compiled: CompiledSchema
    if item.constraint is None:
        compiled = _compile_calls(name, engine, detect_formats(model, tools=True).tools, item)
    elif (constraint := as_constraint(item.constraint)).is_json:
        schema = constraint.schema
        compiled = engine.compile(schema, json.dumps(schema))
    else:
        compiled = engine.compile_source("regex", "|".join(map(_escaped, _options(constraint))))
    return compiled


def _compile_calls(name: str, engine: Any, form: ToolFormat, item: ValueItem) -> Any:
    """At least one call; see the package for the notations."""
    tools = {tool.name: dict(tool.parameters) for tool in parse_tools(item.tools)}
    if form.parameters is not None or form.special or form.single:
        schema = _array_of_calls(tools)
        return engine.compile(schema, json.dumps(schema))
    heads = {tool: form.begin + form.before_name + tool + form.after_name for tool in tools}
    if name == "xgrammar":
        contents = {tool: {"type": "json_schema", "json_schema": schema} for tool, schema in tools.items()}
        tags = [
            {"type": "tag", "begin": heads[tool], "content": content, "end": form.tail}
            for tool, content in contents.items()
        ]
        calls = {"type": "tags_with_separator", "tags": tags, "separator": form.between, "at_least_one": True}
        tag = {"type": "structural_tag", "format": calls}
        return engine.compile(tag, json.dumps(tag))
    if name == "llguidance":
        lines = [f"start: call ({json.dumps(form.between)} call)*"]
        lines.append("call: " + " | ".join(f"call{i}" for i in range(len(tools))))
        for i, (tool, schema) in enumerate(tools.items()):
            lines.append(f"call{i}: {json.dumps(heads[tool])} arguments{i} {json.dumps(form.tail)}")
            lines.append(f"arguments{i}: %json {json.dumps(schema)}")
        return engine.compile_source("lark", "\n".join(lines))
    from outlines_core.json_schema import build_regex_from_schema

    each = [
        _escaped(heads[tool]) + build_regex_from_schema(json.dumps(schema)) + _escaped(form.tail)
        for tool, schema in tools.items()
    ]
    call = f"(?:{'|'.join(each)})"
    return engine.compile_source("regex", f"{call}(?:{_escaped(form.between)}{call})*")


def _array_of_calls(tools: dict[str, Any]) -> dict[str, Any]:
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": schema},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, schema in tools.items()
    ]
    return {"type": "array", "items": {"anyOf": calls}, "minItems": 1}


def _escaped(text: str) -> str:
    """A text as a regular expression in every engine's dialect: only what has a meaning is escaped."""
    return re.sub(r"([\\.^$|?*+()\[\]{}])", r"\\\1", text)
