"""What is written: held-out extractions of the bundled model's task, each under a schema of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from constrained.models import LanguageModel
from constrained.prompting import schema_text as prompts


@dataclass(frozen=True, slots=True)
class SpeedCase:
    """One text.

    Attributes:
        prompt: ids.
        schema: what the text has to follow.
        recorded: ids of the recorded output, if the model does not choose it.
        kind: ``"heldout"``, or of public data ``"schema"``, ``"text"`` or ``"call"``.
    """

    prompt: list[int]
    schema: Any
    recorded: list[int] | None = None
    kind: str = "heldout"


def cases(model: LanguageModel, count: int, seed: int, *, recorded: bool) -> Iterator[SpeedCase]:
    """Extractions from short English texts: no schema comes twice.

    Args:
        model: whose tokens.
        count: how many.
        seed: same seed, same texts.
        recorded: the output is the value of the text, in the tokens of the tokenizer.
    """
    from tools.tiny_model.prompt import extraction_messages
    from tools.tiny_model.score import heldout_examples

    for example in heldout_examples(count, seed):
        if not recorded:
            yield SpeedCase(model.encode(extraction_messages(example.text, example.schema)), example.schema)
            continue
        prompt = f"{example.text}\nAs JSON, of this type:\n{prompts.schema_to_text(example.schema)}\n"
        output = json.dumps(example.value, ensure_ascii=False)
        encode = model.vocabulary.encode
        yield SpeedCase(encode(prompt), example.schema, encode(output))
