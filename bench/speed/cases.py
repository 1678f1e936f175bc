"""What is written: held-out extractions of the bundled model's task; or, of public data, examples of schemas, values out of texts, and arguments of tools."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from constrained.bench.harness.results import json_lines
from constrained.bench.harness.settings import SCHEMAS_FILE, VALUES_FILE
from constrained.bench.masks.workload import sample
from constrained.chat.tools import parse_tools
from constrained.constraint import Constraint, json_schema
from constrained.errors import ConstrainedError, InvalidArgument
from constrained.extraction.prompt import answer_request, extraction_prompt
from constrained.models import LanguageModel
from constrained.prompting import schema_text as prompts

_LONGEST_PROMPT = 1500
"""Tokens; reading a longer prompt would be most of the time."""


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


def public_cases(model: LanguageModel, count: int, seed: int, data: Path) -> Iterator[SpeedCase]:
    """Examples of schemas, values out of texts, and arguments of tools, in turn; the schema stands in each prompt.

    Args:
        model: whose tokens.
        count: how many.
        seed: same seed, same cases.
        data: the folder of `SCHEMAS_FILE` and `VALUES_FILE`.

    Raises:
        InvalidArgument: a file cannot be read.
    """
    rows = sorted(_rows(data / VALUES_FILE), key=lambda row: row["id"])
    random.Random(seed).shuffle(rows)
    schemas = (("schema", row["schema"], "Write an example.") for row in sample(data / SCHEMAS_FILE, 0, seed))
    texts = (("text", row["schema"], row["text"]) for row in rows if "schema" in row)
    calls = (
        ("call", row["tools"], "\n".join(message["content"] for message in row["messages"]))
        for row in rows
        if len(row.get("tools", ())) == 1
    )
    asked = (case for case in chain.from_iterable(zip_longest(schemas, texts, calls)) if case is not None)
    made = (_public_case(model, *case) for case in asked)
    return islice((case for case in made if case is not None), count)


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        return list(json_lines(path))
    except (OSError, ValueError, EOFError) as error:
        raise InvalidArgument(
            f"{str(path)!r} cannot be read: {error}", action="name the folder of the public data by --data"
        ) from None


def _public_case(model: LanguageModel, kind: str, wanted: Any, text: str) -> SpeedCase | None:
    """A case; None where this library refuses the schema, or the prompt is long."""
    try:
        if kind == "call":
            (tool,) = parse_tools(wanted)
            wanted = tool.parameters
            text += f"\n\nCall the function {tool.name}: {tool.description}"
        constraint: Constraint = json_schema(wanted)
        messages = [{"role": "user", "content": f"{text}\n\n{answer_request(constraint)}"}]
        prompt = model.encode(extraction_prompt(text, constraint) if kind == "text" else messages)
        _ = constraint.grammar
    except ConstrainedError:
        return None
    return SpeedCase(prompt, wanted, kind=kind) if len(prompt) <= _LONGEST_PROMPT else None
