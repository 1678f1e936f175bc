"""Extracts from generated documents with the command line, kills it at 40 % with SIGKILL, goes on, and checks the results.

    python -m tests.tools.kill_and_resume --documents 5000
    python -m tests.tools.kill_and_resume --compare 200      documents a second, against a loop of `extract`

Prints the memory of the process while it reads, documents a second, and whether each document has one result.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT
from tests.support.shipments import Shipment, shipments, write_jsonl

TYPE = "tests.support.shipments:Shipment"


def command(*more: str) -> list[str]:
    """The command line that reads docs.jsonl into results.jsonl."""
    arguments = ("extract", "docs.jsonl", "--type", TYPE, "--out", "results.jsonl", "--stats")
    return [sys.executable, "-m", "constrained.cli", *arguments, *more]


def memory(pid: int) -> int:
    """Bytes of a process that are in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def watched(arguments: list[str], folder: Path, marks: list[int], kill_at: int | None) -> int:
    """Runs a command; prints its memory when so many results are there, and kills it at a number of results."""
    results = folder / "results.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(arguments, cwd=folder, env=environment)
    waiting = list(marks)
    count = position = 0
    while process.poll() is None:
        time.sleep(0.2)
        if results.exists():
            with results.open("rb") as file:
                file.seek(position)
                data = file.read()
            position += len(data)
            count += data.count(b"\n")
        while waiting and count >= waiting[0]:
            print(f"{waiting.pop(0)} results: {memory(process.pid) / 2**20:.0f} MiB in memory", flush=True)
        if kill_at is not None and count >= kill_at:
            process.send_signal(signal.SIGKILL)
            process.wait()
            print(f"killed with SIGKILL at {count} results", flush=True)
            return -signal.SIGKILL
    return process.returncode


def kill_and_resume(documents: int, more: list[str]) -> None:
    """Runs, kills, resumes and checks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_jsonl(str(folder / "docs.jsonl"), documents)
        marks = [documents // 5, documents // 2, documents * 49 // 50]
        kill_at = documents * 2 // 5
        start = time.monotonic()
        watched(command(*more), folder, [mark for mark in marks if mark < kill_at], kill_at)
        with (folder / "results.jsonl").open("ab") as file:
            file.write(b'{"id": "s0", "val')  # as a kill in the middle of a write would leave it
        code = watched(command("--resume", *more), folder, [mark for mark in marks if mark >= kill_at], None)
        seconds = time.monotonic() - start
        rows = [json.loads(line) for line in (folder / "results.jsonl").read_text("utf-8").splitlines()]
    ids = [row["id"] for row in rows]
    assert sorted(ids) == sorted(f"s{number}" for number in range(documents)), "not every document once"
    expected = {f"s{number}": vars(value) for number, (_, value) in enumerate(shipments(documents))}
    right = sum(row["value"] == expected[row["id"]] for row in rows)
    errors = sum(row["error"] is not None for row in rows)
    print(
        f"exit code {code}; {len(ids)} results, {len(set(ids))} ids, {errors} errors; {seconds:.0f} s with both starts; "
        f"{right / documents:.1%} of the values are right"
    )


def value_or_error(model: Any, text: str) -> Any:
    """What `extract` returns or raises."""
    import constrained

    try:
        return constrained.extract(model, text, Shipment)
    except constrained.ConstrainedError as error:
        return error


def compare(documents: int) -> None:
    """Documents a second: a loop of `extract`, and `extract_many`, on the same documents, twice in turns."""
    import torch

    import constrained

    torch.set_num_threads(1)
    model = constrained.load()
    texts = [text for text, _ in shipments(documents, seed=1)]
    constrained.extract(model, texts[0], Shipment)  # compiled, and the model is warm
    for _ in range(2):
        start = time.perf_counter()
        one = [value_or_error(model, text) for text in texts]
        loop = documents / (time.perf_counter() - start)
        start = time.perf_counter()
        many = {
            each.id: each.error or each.value for each in constrained.extract_many(model, texts, Shipment)
        }
        batch = documents / (time.perf_counter() - start)
        same = sum(str(many[number]) == str(value) for number, value in enumerate(one))
        print(
            f"loop of extract {loop:.1f} documents a second, extract_many {batch:.1f}: {batch / loop:.1f} times; "
            f"{same} of {documents} values are the same",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--compare", type=int, metavar="DOCUMENTS")
    given, rest = parser.parse_known_args()
    if given.compare:
        compare(given.compare)
    else:
        kill_and_resume(given.documents, rest)
