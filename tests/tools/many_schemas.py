"""Thousands of different real schemas through one server: memory as they come, evictions, errors, time.

python -m tests.tools.many_schemas --data maskbench-dev.jsonl.gz --requests 3000

Prints a row for every few hundred requests: memory of the server and of its sandbox processes, the automata that it keeps,
answers by kind, and how long a request took. Every answer that ends by itself is checked against its schema.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import jsonschema

from tests.tools.attack import Target, served
from tests.tools.soak import resident


def schemas(path: Path, seed: int) -> Iterator[Any]:
    """The schemas of a MaskBench file, each once, in random order."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [row for line in file if "structural" not in (row := json.loads(line))["id"]]
    random.Random(seed).shuffle(rows)
    seen = set()
    for row in rows:
        text = json.dumps(row["schema"], sort_keys=True)
        if text not in seen and isinstance(row["schema"], dict):
            seen.add(text)
            yield row["schema"]


def with_children(process: int) -> int:
    """Resident bytes of the processes below a process."""
    found = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if parent == process:
            found += resident(int(entry.name)) + with_children(int(entry.name))
    return found


def multiple_of(
    validator: Any, divisor: Any, value: Any, schema: Any
) -> Iterator[jsonschema.ValidationError]:
    """The keyword in decimals: by floats 522.28 is no multiple of 0.01."""
    if validator.is_type(value, "number") and Decimal(str(value)) % Decimal(str(divisor)):
        yield jsonschema.ValidationError(f"{value} is not a multiple of {divisor}")


async def ask(target: Target, client: httpx.AsyncClient, schema: Any, seed: int) -> str:
    """One request; its outcome in a word. An invalid answer is printed with its schema."""
    try:
        answer = await client.post(
            f"{target.url}/v1/chat/completions",
            json=target.body(schema, max_tokens=64, temperature=1.0, seed=seed),
        )
    except httpx.HTTPError as error:
        return type(error).__name__
    body = answer.json()
    if answer.status_code != 200:
        return f"{answer.status_code} {body['error']['code']}"
    choice = body["choices"][0]
    if choice["finish_reason"] != "stop":
        return "ok, cut"
    try:
        judge = jsonschema.validators.extend(
            jsonschema.validators.validator_for(schema), {"multipleOf": multiple_of}
        )
        judge(schema).validate(json.loads(choice["message"]["content"]))
    except jsonschema.ValidationError as error:
        print(json.dumps({"schema": schema, "text": choice["message"]["content"], "error": error.message}))
        return "INVALID"
    except Exception:  # the judge cannot read the schema, as with references to the network
        return "ok, not judged"
    return "ok"


async def run(target: Target, options: argparse.Namespace) -> None:
    """Sends the schemas; prints the rows."""
    left = schemas(options.data, options.seed)
    outcomes: Counter[str] = Counter()
    times: list[float] = []
    done = 0

    async def work() -> None:
        nonlocal done
        async with httpx.AsyncClient(timeout=300) as client:
            for schema in left:
                if done >= options.requests:
                    return
                done += 1
                began = time.perf_counter()
                outcomes[await ask(target, client, schema, done)] += 1
                times.append(time.perf_counter() - began)
                if len(times) % options.every == 0:
                    row()

    def row() -> None:
        recent = sorted(times[-options.every :])
        cells = [
            str(len(times)),
            f"{resident(target.process) >> 20}",
            f"{with_children(target.process) >> 20}",
            f"{statistics.median(recent) * 1e3:.0f}",
            f"{recent[int(0.99 * (len(recent) - 1))] * 1e3:.0f}",
            ", ".join(f"{count} {what}" for what, count in outcomes.most_common()),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)

    print("| requests | server, MiB | sandboxes, MiB | p50, ms | p99, ms | answers so far |")
    print("|---:|---:|---:|---:|---:|---|", flush=True)
    print(
        f"| 0 | {resident(target.process) >> 20} | {with_children(target.process) >> 20} | | | |", flush=True
    )
    await asyncio.gather(*(work() for _ in range(options.clients)))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="MaskBench data, .jsonl.gz")
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--every", type=int, default=300, help="requests between two rows")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with served() as target:
        asyncio.run(run(target, options))


if __name__ == "__main__":
    main()
