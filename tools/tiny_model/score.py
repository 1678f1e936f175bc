"""Scores a model on held-out extraction: schemas, values, names of fields and three domains that training never saw.

    python -m tools.tiny_model.score --count 1000 --seed 1 --out scores.json

The measure takes any function from an example to an answer text, so that every way of decoding can be compared.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from constrained.models.tiny import WEIGHTS
from constrained.prompting.chat_template import encode_chat
from tools.tiny_model import corpus
from tools.tiny_model.corpus import Example
from tools.tiny_model.prompt import extraction_messages

WAYS = ("unconstrained", "constrained")
"""By transformers' `generate` alone, or under the schema by this library."""
Completer = Callable[[Example], str]
"""From an example (its text and schema; the value is not for it to see) to the text of an answer."""


@dataclass
class Scores:
    """Counts over examples; `report` turns them into shares."""

    examples: int = 0
    json: int = 0
    valid: int = 0
    exact: int = 0
    fields: int = 0
    fields_right: int = 0
    strings: int = 0
    strings_right: int = 0
    groups: dict[str, Scores] = field(default_factory=dict)
    naming: dict[str, Scores] = field(default_factory=dict)

    def add(self, example: Example, answer: str) -> None:
        """Counts one answer."""
        from jsonschema import Draft202012Validator

        self.examples += 1
        right = json_leaves(example.value)
        copied = {path for path, value in right.items() if isinstance(value, str) and value in example.text}
        self.strings += len(copied)
        try:
            value = json.loads(answer)
        except ValueError:
            self.fields += len(right)
            return
        said = json_leaves(value)
        good = {path for path, leaf in right.items() if path in said and json_equal(leaf, said[path])}
        self.json += 1
        self.valid += Draft202012Validator(example.schema).is_valid(value)
        self.exact += len(good) == len(right) == len(said)
        self.fields += len(right.keys() | said.keys())
        self.fields_right += len(good)
        self.strings_right += len(good & copied)

    def report(self) -> dict[str, Any]:
        """Shares, rounded to four digits."""

        def share(part: int, whole: int) -> float:
            return round(part / whole, 4) if whole else 0.0

        shares: dict[str, Any] = {
            "examples": self.examples,
            "json": share(self.json, self.examples),
            "valid": share(self.valid, self.examples),
            "exact_object": share(self.exact, self.examples),
            "field_accuracy": share(self.fields_right, self.fields),
            "copied_strings": share(self.strings_right, self.strings),
        }
        if self.groups:
            shares["by_group"] = {name: group.report() for name, group in sorted(self.groups.items())}
            shares["by_naming"] = {name: group.report() for name, group in sorted(self.naming.items())}
        return shares


def json_leaves(value: Any, path: str = "") -> dict[str, Any]:
    """The fields of a value: every scalar and every empty list or object, by its JSON Pointer."""
    items: Iterator[tuple[str, Any]] | None = None
    if isinstance(value, dict) and value:
        items = ((str(key), part) for key, part in value.items())
    elif isinstance(value, list) and value:
        items = ((str(index), part) for index, part in enumerate(value))
    if items is None:
        return {path: value}
    return {place: leaf for key, part in items for place, leaf in json_leaves(part, f"{path}/{key}").items()}


def json_equal(left: Any, right: Any) -> bool:
    """JSON equality: 1 is 1.0, but true is not 1."""
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def group_of(example: Example) -> str:
    """Which kind of unseen an example is."""
    from tools.tiny_model import domains

    if example.domain == "attributes":
        return "made-up fields"
    known = example.domain not in {domain.name for domain in domains.HELDOUT_DOMAINS}
    return "known domain, unseen keys" if known else "unseen domain"


def leaves_out(schema: dict[str, Any], value: Any) -> bool:
    """Whether the schema asks for a field that the text does not tell: absent from the value, or null."""
    if value is None:
        return True
    if isinstance(value, list):
        return any(
            leaves_out(schema["items"], item) for item in value if isinstance(schema.get("items"), dict)
        )
    if not isinstance(value, dict):
        return False
    return any(
        key not in value or leaves_out(wanted, value[key])
        for key, wanted in schema.get("properties", {}).items()
    )


def score(answer: Completer, examples: Iterable[Example]) -> Scores:
    """Asks for every example's answer and counts."""
    scores = Scores()
    for example in examples:
        text = answer(example)
        scores.add(example, text)
        scores.groups.setdefault(group_of(example), Scores()).add(example, text)
        naming = "some left out" if leaves_out(example.schema, example.value) else "every field named"
        scores.naming.setdefault(naming, Scores()).add(example, text)
    return scores


def heldout_examples(count: int, seed: int = 0) -> Iterator[Example]:
    """The first examples of the held-out split."""
    return (corpus.draw_example((seed << 40) + number, "heldout") for number in range(count))


def unconstrained_completer(model: Any, tokenizer: Any, max_tokens: int = 256) -> Completer:
    """Greedy decoding by transformers, with nothing between the model and its answer."""

    def answer(example: Example) -> str:
        import torch

        prompt = torch.tensor([encode_chat(extraction_messages(example.text, example.schema), tokenizer)])
        with torch.inference_mode():
            out = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=max_tokens, do_sample=False
            )
        return str(tokenizer.decode(out[0, prompt.shape[1] :], skip_special_tokens=True))

    return answer


def constrained_completer(model: Any, max_tokens: int = 256) -> Completer:
    """Greedy decoding under the example's schema, by this library."""
    import constrained

    def answer(example: Example) -> str:
        generator = constrained.Generator(model, constrained.json_schema(example.schema))
        messages = extraction_messages(example.text, example.schema)
        return generator(messages, max_tokens=max_tokens, temperature=0).text

    return answer


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--weights", type=Path, default=WEIGHTS, help="folder of the model (default: the bundled one)"
    )
    parser.add_argument("--count", type=int, default=300, help="held-out examples (default 300)")
    parser.add_argument("--seed", type=int, default=0, help="of the held-out stream (default 0)")
    parser.add_argument("--out", type=Path, help="file to write the scores to, besides printing them")
    parser.add_argument("--way", choices=("both", *WAYS), default="both", help="of decoding (default both)")
    parser.add_argument("--processes", type=int, default=2, help="one thread each (default 2)")
    options = parser.parse_args()

    ways = WAYS if options.way == "both" else (options.way,)
    report = {"split": "heldout", "seed": options.seed}
    with multiprocessing.get_context("spawn").Pool(
        options.processes, _load, (options.weights, ways)
    ) as processes:
        for way in ways:
            jobs = [(way, options.seed, number) for number in range(options.count)]
            answers = iter(processes.imap(_answer, jobs, chunksize=4))
            examples = heldout_examples(options.count, options.seed)
            report[way] = score(_in_order(answers), examples).report()
    text = json.dumps(report, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


def _in_order(answers: Iterator[str]) -> Completer:
    return lambda _: next(answers)


_completers: dict[str, Completer] = {}


def _load(weights: Path, ways: tuple[str, ...]) -> None:
    """Loads the model in a process of its own, which has one thread."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    import constrained

    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(weights, local_files_only=True)
    if "unconstrained" in ways:
        _completers["unconstrained"] = unconstrained_completer(model, tokenizer)
    if "constrained" in ways:
        _completers["constrained"] = constrained_completer(constrained.load(model, tokenizer))


def _answer(job: tuple[str, int, int]) -> str:
    way, seed, number = job
    return _completers[way](corpus.draw_example((seed << 40) + number, "heldout"))


if __name__ == "__main__":
    main()
