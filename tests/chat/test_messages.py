"""Messages and tools as prompts: by the template of the tokenizer where it shows them, else as text."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from constrained import load
from constrained.chat.messages import chat_prompt, normalize_messages
from constrained.chat.tools import ToolFormat, parse_tools
from constrained.errors import PromptError
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

TOOLS = parse_tools([{"name": "now", "description": "The time – genau.", "parameters": {"type": "object"}}])
CALLED: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "x", "type": "function", "function": {"name": "now", "arguments": '{"zone": "ČR"}'}}
    ],
}
CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "What "}, {"type": "text", "text": "time?"}]},
    CALLED,
    {"role": "tool", "tool_call_id": "x", "content": "noon"},
]
PLAIN = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}[assistant]"
KNOWING = (
    "{% if tools %}Tools: {% for t in tools %}{{ t | tojson }}{% endfor %} "
    'Write <tool_call>\n{"name": ..., "arguments": ...}\n</tool_call>{% endif %}'
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% for c in m.tool_calls or [] %}"
    "<tool_call>\n{{ c.function | tojson }}\n</tool_call>{% endfor %}{% endfor %}[assistant]"
)


def shown(template: str | None, chat: Any = CHAT, **settings: Any) -> str:
    """The prompt that a model with this template reads."""
    tokenizer = copy.deepcopy(small_bpe_tokenizer())
    tokenizer.chat_template = template
    model = load(random_llama(), tokenizer)
    ids = chat_prompt(model, chat, TOOLS, **settings)
    return model.vocabulary.decode(model.encode(ids)).decode()


def test_a_template_that_knows_tools_writes_them():
    text = shown(KNOWING)
    assert text.startswith('Tools: {"type": "function", "function": {"name": "now"')
    assert (
        '[assistant]<tool_call>\n{"name": "now", "arguments": {"zone": "ČR"}}\n</tool_call>[tool]noon' in text
    )


def test_a_template_that_does_not_gets_them_as_text():
    text = shown(PLAIN)
    assert text.startswith(
        '[system]You can call these functions:\n{"name": "now", "description": "The time – genau."'
    )
    assert '[assistant]<tool_call>\n{"name": "now", "arguments": {"zone": "ČR"}}\n</tool_call>[user]' in text
    assert text.endswith("[user]<tool_response>\nnoon\n</tool_response>[assistant]")


def test_a_template_that_writes_calls_otherwise_is_not_used_for_them():
    text = shown(KNOWING, format=ToolFormat("<function=", "{name}>", "</function>"))
    assert "<tool_call>" not in text
    assert '<function=now>{"zone": "ČR"}</function>' in text


def test_without_a_template_there_are_labelled_lines():
    assert shown(None).endswith("User: <tool_response>\nnoon\n</tool_response>\n\nAssistant:")


def test_a_template_that_refuses_the_messages_is_an_error():
    with pytest.raises(PromptError, match="only one message"):
        shown("{{ raise_exception('only one message') }}")


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "no messages"),
        ("hello", "no messages"),
        (["hello"], "message 0 is a str"),
        ([{"role": "bot", "content": "x"}], "'bot'"),
        ([{"role": "user"}], "message 0"),
        ([{"role": "user", "content": 3}], "is a int"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "'image_url'"),
        ([{"role": "user", "content": "x", "tool_calls": [1]}], "cannot have tool calls"),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], "call 0"),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}], "not JSON"),
    ],
)
def test_messages_of_a_wrong_shape_are_named(messages, reason):
    with pytest.raises(PromptError, match=reason):
        normalize_messages(messages)


def test_developers_are_systems():
    assert normalize_messages([{"role": "developer", "content": "x"}]) == [{"role": "system", "content": "x"}]
