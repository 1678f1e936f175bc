"""The table of request parameters in docs/server.md: each is sent to a server, with a value that would change the completion.

python -m tests.tools.server_parameters      writes the table
"""

from __future__ import annotations

from typing import Any

from constrained.server.other_servers import ANY, NEUTRAL
from tests.server.serving import Served, scripted, served
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "server.md"
BEGIN, END = (
    "<!-- parameters: written by tests/tools/server_parameters.py -->\n",
    "<!-- end of the table -->\n",
)

_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
_TOOLS = [{"type": "function", "function": {"name": "f", "parameters": _SCHEMA}}]
_GBNF = 'root ::= "yes" | "no"'
_TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "yes"}}

OPENAI, VLLM, SGLANG, LLAMA, OLLAMA = "OpenAI", "vLLM", "SGLang", "llama.cpp", "Ollama"
EVERY = (OPENAI, VLLM, SGLANG, LLAMA, OLLAMA)
LOCAL = (VLLM, SGLANG, LLAMA)
MOST = (OPENAI, *LOCAL)

PARAMETERS: dict[str, tuple[tuple[str, ...], Any]] = {
    "response_format": (EVERY, {"type": "json_schema", "json_schema": {"name": "a", "schema": _SCHEMA}}),
    "tools": (EVERY, _TOOLS),
    "tool_choice": (MOST, {"tools": _TOOLS, "tool_choice": "required"}),
    "parallel_tool_calls": (MOST, {"tools": _TOOLS, "parallel_tool_calls": False}),
    "structured_outputs": ((VLLM,), {"regex": "[a-z]+"}),
    "guided_json": ((VLLM,), _SCHEMA),
    "guided_regex": ((VLLM,), "[a-z]+"),
    "guided_choice": ((VLLM,), ["yes", "no"]),
    "guided_grammar": ((VLLM,), _GBNF),
    "json_schema": ((SGLANG, LLAMA), _SCHEMA),
    "regex": ((SGLANG,), "[a-z]+"),
    "ebnf": ((SGLANG,), _GBNF),
    "grammar": ((LLAMA,), _GBNF),
    "structural_tag": ((), _TAG),
    "max_tokens": (EVERY, 5),
    "max_completion_tokens": (MOST, 5),
    "n": (MOST, 2),
    "seed": (EVERY, 1),
    "stop": (EVERY, ["l"]),
    "temperature": (EVERY, 0.5),
    "top_p": (EVERY, 0.5),
    "top_k": (LOCAL, 5),
    "min_p": (LOCAL, 0.1),
    "logprobs": (EVERY, True),
    "top_logprobs": (EVERY, {"logprobs": True, "top_logprobs": 3}),
    "stream": (EVERY, True),
    "stream_options": (EVERY, {"stream": True, "stream_options": {"include_usage": True}}),
    "reasoning_effort": (EVERY, "low"),
    "verbosity": ((OPENAI,), "low"),
    "extraction": (
        (),
        {
            "extraction": True,
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": _SCHEMA}},
        },
    ),
    "enable_thinking": ((), True),
    "chat_template_kwargs": (LOCAL, {"enable_thinking": True}),
    "thinking_token_budget": ((VLLM,), {"enable_thinking": True, "thinking_token_budget": 5}),
    "include_reasoning": ((VLLM,), False),
    "frequency_penalty": (EVERY, 1.0),
    "presence_penalty": (EVERY, 1.0),
    "logit_bias": (MOST, {"5": 1.0}),
    "modalities": ((OPENAI,), ["audio"]),
    "audio": ((OPENAI,), {"voice": "x"}),
    "prediction": ((OPENAI,), {"type": "content", "content": "x"}),
    "web_search_options": ((OPENAI,), {}),
    "service_tier": ((OPENAI,), "auto"),
    "store": ((OPENAI,), True),
    "metadata": ((OPENAI,), {"a": "b"}),
    "user": ((OPENAI, VLLM, SGLANG), "me"),
    "best_of": ((VLLM, SGLANG), 2),
    "echo": (LOCAL, True),
    "add_generation_prompt": ((VLLM, LLAMA), False),
    "continue_final_message": (LOCAL, True),
    "allowed_token_ids": ((VLLM,), [1]),
    "bad_words": ((VLLM,), ["x"]),
    "documents": ((VLLM,), [{"text": "x"}]),
    "guided_decoding_backend": ((VLLM,), "xgrammar"),
    "guided_whitespace_pattern": ((VLLM,), " "),
    "ignore_eos": (LOCAL, True),
    "include_stop_str_in_output": ((VLLM,), True),
    "length_penalty": ((VLLM,), 2.0),
    "min_tokens": ((VLLM, SGLANG), 3),
    "prompt_logprobs": ((VLLM,), 1),
    "repetition_penalty": ((VLLM, SGLANG), 1.2),
    "repeat_penalty": ((LLAMA,), 1.2),
    "stop_token_ids": ((VLLM, SGLANG), [1]),
    "repeat_last_n": ((LLAMA,), 32),
    "truncate_prompt_tokens": ((VLLM,), 5),
    "use_beam_search": ((VLLM,), True),
    "skip_special_tokens": ((VLLM, SGLANG), False),
    "separate_reasoning": ((SGLANG,), False),
    "reasoning_format": ((LLAMA,), "none"),
    "cache_prompt": ((LLAMA,), False),
    "dry_multiplier": ((LLAMA,), 0.5),
    "dynatemp_range": ((LLAMA,), 0.5),
    "mirostat": ((LLAMA,), 1),
    "n_predict": ((LLAMA,), 5),
    "n_probs": ((LLAMA,), 3),
    "reasoning_budget_tokens": ((LLAMA,), {"enable_thinking": True, "reasoning_budget_tokens": 5}),
    "tfs_z": ((), 0.5),
    "thinking_budget_tokens": ((LLAMA,), {"enable_thinking": True, "thinking_budget_tokens": 5}),
    "top_n_sigma": ((LLAMA,), 1.0),
    "typical_p": ((LLAMA,), 0.5),
    "xtc_probability": ((LLAMA,), 0.5),
    "id_slot": ((LLAMA,), 1),
    "keep_alive": ((OLLAMA,), "5m"),
}
"""Parameters of chat completions: the servers that have them, and a value that changes the completion there. A mapping that
names the parameter itself is a whole body."""


_INERT = ("service_tier", "store", "metadata", "user")
"""Parameters about the service, not the completion."""


def body_of(name: str) -> dict[str, Any]:
    """The body with the value of a parameter."""
    value = PARAMETERS[name][1]
    return value if isinstance(value, dict) and name in value else {name: value}


def answered(server: Served, name: str) -> str:
    """What the server makes of a parameter: `works`, or what it refuses."""
    limit = {} if name in ("max_completion_tokens", "n_predict") else {"max_tokens": 120}
    answer = server.chat(**{**limit, **body_of(name)})
    if answer.status_code == 200:
        return "accepted, changes nothing" if name in NEUTRAL or name in _INERT else "works"
    error = answer.json()["error"]
    assert answer.status_code == 400, (name, answer.text)
    assert name in str(error["param"]) or error["param"] == "enable_thinking", (name, error)
    neutral = [value for value in NEUTRAL.get(name, ()) if value is not ANY]
    if neutral:
        shown = ", ".join(f"`{str(value).lower()}`" for value in neutral)
        return f"400 unless {shown}"
    return "400"


def table() -> str:
    """The table, every cell of the last column tried."""
    lines = ["| parameter | " + " | ".join(EVERY) + " | here |", "|---" * (len(EVERY) + 2) + "|"]
    reads = "works where the chat template reads it, 400 otherwise"
    thinks = "works where the chat template has reasoning, 400 otherwise"
    templated = {
        "reasoning_effort": reads,
        "verbosity": reads,
        "enable_thinking": thinks,
        "chat_template_kwargs": reads,
        "thinking_token_budget": thinks,
        "thinking_budget_tokens": thinks,
        "reasoning_budget_tokens": thinks,
    }
    with served(scripted(lambda prompt: "hello")) as server:
        for name, (servers, _) in PARAMETERS.items():
            tried = answered(server, name)
            if name in templated:
                assert tried == "400", name  # this model has no chat template
                tried = templated[name]
            if name == "stop":
                assert (
                    server.chat(stop=["l"], guided_regex="h[a-z]+").json()["choices"][0]["message"]["content"]
                    == "he"
                )
                tried = "works, with a constraint where that permits the end"
            if name == "stop_token_ids":
                assert tried == "400"
                assert server.chat(stop_token_ids=[256]).status_code == 200
                tried = "works for ends of sequences, 400 otherwise"
            cells = ("x" if one in servers else "" for one in EVERY)
            lines.append(f"| `{name}` | " + " | ".join(cells) + f" | {tried} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes the table."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
