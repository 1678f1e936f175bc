"""Models that want to say given tokens, special ones among them, with chat templates in the shapes of public models."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from constrained import Vocabulary
from constrained.testing import ScriptedModel
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[dict[str, Any]] = [
    {"name": "weather", "description": "Of a city.", "parameters": CITY},
    {"name": "weather_map", "description": "Of a country.", "parameters": {"type": "object"}},
]

# Templates in the shapes that public models use.
LIST = (
    "{% if tools %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}{% for m in messages %}"
    "{% if m.role == 'user' %}[INST] {{ m.content }}[/INST]{% elif m.role == 'tool' %}[RESULT]{{ m.content }}[/RESULT]"
    "{% elif m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}"
    "{% if c.id | length != 9 %}{{ raise_exception('ids have nine letters') }}{% endif %}"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}'
    "{% if not loop.last %}, {% endif %}{% endfor %}]{{ eos_token }}"
    "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
ARGS = (
    "{% if tools %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}{% for m in messages %}"
    "{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% elif m.tool_calls %}"
    "{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}{% endfor %}"
    "{{ eos_token }}{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
HEADED = (
    "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{% if m.tool_calls %}"
    "{% if m.tool_calls | length != 1 %}{{ raise_exception('one call') }}{% endif %}{% set c = m.tool_calls[0].function %}"
    '{"name": "{{ c.name }}", "parameters": {{ c.arguments | tojson }}}'
    "{% else %}{% if tools and loop.first %}Functions: {{ tools | tojson }}\n{% endif %}{{ m.content }}{% endif %}<|eot_id|>"
    "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
TAGGED = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}{% for m in messages %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}{% if not loop.first or m.content %}{{ '\n' }}{% endif %}"
    '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FENCED = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}"
    "{% if m.role == 'user' %}<｜User｜>{{ m.content }}{% elif m.tool_calls %}<｜Assistant｜><｜calls▁begin｜>"
    "{% for c in m.tool_calls %}<｜call▁begin｜>function<｜sep｜>{{ c.function.name + '\n```json\n' + c.function.arguments + '\n' }}"
    "```<｜call▁end｜>{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}<｜calls▁end｜>{{ eos_token }}"
    "{% else %}<｜Assistant｜>{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<｜Assistant｜>{% endif %}"
)
SPECIAL: dict[str, tuple[str, ...]] = {
    LIST: ("[TOOL_CALLS]", "[INST]", "[/INST]"),
    ARGS: ("[TOOL_CALLS]", "[ARGS]", "[INST]", "[/INST]"),
    HEADED: ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"),
    TAGGED: ("<|im_start|>", "<|im_end|>"),
    FENCED: (
        "<｜calls▁begin｜>",
        "<｜call▁begin｜>",
        "<｜sep｜>",
        "<｜call▁end｜>",
        "<｜calls▁end｜>",
        "<｜Assistant｜>",
    ),
}


class Speaker(ScriptedModel):
    """Wants to say these tokens: a special token where its name stands in the script."""

    def __init__(
        self, template: str, script: str = "", *, special: Sequence[str] = (), plain: Sequence[str] = ()
    ):
        tokenizer = copy.deepcopy(small_bpe_tokenizer())
        tokenizer.add_special_tokens({"additional_special_tokens": [*special]})
        tokenizer.add_tokens([*plain])
        tokenizer.chat_template = template
        ends = [tokenizer.eos_token_id]
        ends += [
            tokenizer.convert_tokens_to_ids(name) for name in ("<|im_end|>", "<|eot_id|>") if name in special
        ]
        super().__init__(Vocabulary.from_tokenizer(tokenizer, eos_ids=ends), script)
        self.tokenizer = tokenizer
        self.ids: list[int] = tokenizer(script, add_special_tokens=False)["input_ids"]

    def logits(self, prompt: list[int], tokens: list[int]) -> Any:
        logits = np.zeros(self.vocabulary.size)
        logits[
            self.ids[len(tokens)]
            if tokens == self.ids[: len(tokens)] and len(tokens) < len(self.ids)
            else self.vocabulary.eos_ids[0]
        ] = 30
        return logits


def speaker(template: str, script: str = "") -> Speaker:
    return Speaker(template, script, special=SPECIAL[template])
