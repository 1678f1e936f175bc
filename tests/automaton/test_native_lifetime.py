"""Native objects are freed before the interpreter ends."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import ctypes
from constrained import json_schema
from constrained.automaton import compile
from constrained.vocabulary import Vocabulary
from constrained.grammars.json_schema.source.dialects import SCHEMA_DIALECTS

vocabulary = Vocabulary.from_bytes([bytes([byte]) for byte in range(256)] + [b""], eos_ids=[256])
automaton = compile(json_schema({"type": "object"}), vocabulary)
automaton.fill_mask(automaton.start, automaton.new_mask())
dialect = SCHEMA_DIALECTS["2020-12"]
assert dialect.native_keywords.count_subschemas({"type": "object"}) == 1
for kept in (vocabulary, dialect):  # as a library that keeps a reference beyond the end of the interpreter
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
"""


def test_nothing_native_outlives_the_interpreter() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr == ""
