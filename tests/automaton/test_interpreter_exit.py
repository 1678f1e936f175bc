"""A program may end while daemon threads are in the native core: they end quietly with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import itertools, threading
import constrained
from tests.support.finite import byte_vocabulary

vocabulary = byte_vocabulary()
begun = threading.Semaphore(0)

def work(number):
    for turn in itertools.count():
        schema = {"type": "object", "properties": {f"p{number}_{turn}_{i}": {"pattern": "^a{9}"} for i in range(20)}}
        automaton = constrained.compile(constrained.json_schema(schema), vocabulary)
        for byte in b'{"p':
            automaton.next(automaton.start, byte)
        begun.release()

for number in range(4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
for _ in range(8):
    begun.acquire()
"""


@pytest.mark.ci
@pytest.mark.skipif(sys.platform == "win32", reason="threads end without unwinding there")
def test_threads_in_the_core_do_not_abort_a_program_that_ends() -> None:
    root = Path(__file__).parents[2]
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")
