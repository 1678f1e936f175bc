"""Runs extractions by a vLLM engine of this process and by our own loop, both with the bundled model: results to a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import constrained
from constrained import Extractor, choice, json_schema, predicate, regex
from constrained.extraction.cluster.vllm_engine import VllmModel

OPTIONS: dict[str, Any] = {
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 1024,
    "max_num_seqs": 16,
}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 30}, "born": {"type": "integer"}},
    "required": ["name", "born"],
    "additionalProperties": False,
}
TEXTS = [
    f"{name} was born in {born} in {city}."
    for name, born, city in [
        ("Ana Novak", 1987, "Brno"),
        ("Jan Dvorak", 1990, "Praha"),
        ("Eva Mala", 2001, "Olomouc"),
        ("Petr Velky", 1975, "Brno"),
    ]
]
SPANS = json_schema(
    {"type": "object", "properties": {"name": {"type": "string", "x-span": {}}}, "required": ["name"]}
)


def _short(value: Any) -> bool:
    return len(str(value)) < 12


CASES: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "schema": (PERSON, {}, {}),
    "type": (dict[str, int], {}, {"max_tokens": 60}),
    "regex": (regex("[A-Z][a-z]+ [0-9]{2,6}"), {}, {}),
    "choice": (choice(["yes", "no"]), {"sampler": "local"}, {}),
    "spans": (SPANS, {}, {}),
    "grounded": (PERSON, {"require_grounding": True}, {}),
    "parts": (list[str], {"long": "split", "chunk_tokens": 32}, {"max_tokens": 40}),
    "cut": (PERSON, {}, {"max_tokens": 16}),
    "closed": (PERSON, {"on_limit": "close"}, {"max_tokens": 18}),
    "refused by a sampler": (PERSON, {"sampler": "cars"}, {}),
    "refused by a predicate": (regex("[a-z]+") & predicate(_short), {"sampler": "local"}, {}),
}


def outcome(model: Any, name: str) -> list[str]:
    constraint, options, settings = CASES[name]
    try:
        results = list(
            Extractor(model, constraint, decisions=False, **options).many(
                [*TEXTS, ""], ordered=True, batch_size=3, **settings
            )
        )
    except constrained.ConstrainedError as error:
        return [f"{type(error).__name__}: {error.summary}"]
    return [
        result.text if result.error is None else f"{type(result.error).__name__}: {result.error.summary}"
        for result in results
    ]


def main() -> None:
    engine, own = VllmModel(**OPTIONS), constrained.load()
    found: dict[str, Any] = {name: [outcome(engine, name), outcome(own, name)] for name in CASES}
    sampled = [Extractor(engine, PERSON).many(TEXTS * 2, temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    found["sampled"] = [sorted(one.text for one in results) for results in sampled]
    try:
        constrained.Generator(engine, PERSON)("x")
    except constrained.ConstrainedError as error:
        found["generator"] = error.summary
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
