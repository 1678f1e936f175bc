"""Is an installed wheel whole? Compiles constraints and walks through masks; needs numpy, and with --grammars the rest.

python tests/tools/wheel_smoke.py [--grammars]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import constrained

BYTES = [bytes([i]) for i in range(256)]
EOS = 256
VOCABULARY = constrained.Vocabulary.from_bytes([*BYTES, b"", b'{"', b'": '], [EOS])
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "born": {"type": "string", "format": "date"}},
    "required": ["name", "born"],
    "additionalProperties": False,
}
VALID = b'{"name": "Ana", "born": "1987-03-14"}'
INVALID = b'{"name": "Ana", "born": "1987-13-14"}'


def accepts(constraint: object, text: bytes) -> bool:
    """Whether every byte of a text is in the mask before it, and the end in the one after it."""
    automaton = constrained.compile(constraint, VOCABULARY)
    state, row = automaton.start, np.zeros((VOCABULARY.size + 31) // 32, np.int32)
    for token in [*text, EOS]:
        automaton.fill_mask(state, row)
        if not row[token // 32] >> (token % 32) & 1:
            return False
        state = automaton.next(state, token)
    return True


def error_of(call: Callable[[], object]) -> str:
    """The message of the import error that a call raises."""
    try:
        call()
    except ImportError as error:
        return str(error)
    return "it was imported"


def main() -> None:
    """Ends with an error if anything is wrong."""
    home = Path(constrained.__file__).parent
    assert "site-packages" in home.parts, f"this is not an installed package: {home}"
    assert (home / "py.typed").is_file()
    assert (home / "_core.pyi").is_file()
    assert (home / "models" / "tiny" / "weights" / "model.safetensors").is_file()
    assert not list(home.rglob("*.cpp")), "sources of the core are in the wheel"
    assert accepts(SCHEMA, VALID)
    assert not accepts(SCHEMA, INVALID)
    assert accepts(constrained.regex("[a-c]+"), b"abc")
    if "--grammars" in sys.argv:
        assert accepts(constrained.lark('start: "a"+ "b"'), b"aab")
        assert not accepts(constrained.gbnf('root ::= "a" | "b"'), b"ab")
        check = [sys.executable, "-m", "constrained.cli", "check", json.dumps(SCHEMA)]
        assert subprocess.run(check, capture_output=True, text=True, check=True).stdout.startswith(
            "supported: "
        )
        message = error_of(constrained.load)
        assert "constrained-generation[transformers]" in message, message
    assert "torch" not in sys.modules
    abi = next(home.glob("_core.*so" if sys.platform != "win32" else "_core*.pyd")).name
    print(f"Python {sys.version.split()[0]}: constrained {constrained.__version__}, {abi}: masks are right")


if __name__ == "__main__":
    main()
