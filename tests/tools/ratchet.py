"""What of the product must not grow unnoticed, counted; `tests/ratchet.json` has the numbers that `tests/test_ratchet.py` compares.

python -m tests.tools.ratchet            # what differs from the recorded numbers
python -m tests.tools.ratchet --write    # records them: a commit that raises one says why
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

RECORD = ROOT / "tests" / "ratchet.json"
PACKAGES = ("constrained", "grammars", "spec")
BESIDE = ("bench", "tools")
"""Folders that are no product: counted, but not in the sum."""
SUFFIXES = (".py", ".cpp", ".hpp")

_NUMBER = r"-?(?:0x[\da-fA-F]+|\d[\d_']*(?:\.\d+)?(?:e-?\d+)?)"
_PYTHON_CONSTANT = re.compile(
    rf"^_?[A-Z][A-Z\d_]* *(?::[^=]+)?= *{_NUMBER}(?: *\*\* *\d+)?\s*(?:#.*)?$", re.MULTILINE
)
_CPP_CONSTANT = re.compile(rf"\bconstexpr\b[^;=(]*\bk[A-Z]\w* *= *(?:u?int\d+_t\{{)?{_NUMBER}")
_VIRTUAL = re.compile(r"^\s+virtual (?!~)", re.MULTILINE)
_QUESTIONS = re.compile(r"\b(?:get|has)attr\(\w*constraint\b")


def sources() -> Iterator[Path]:
    """The project's own files of Python and C++, without tests."""
    for package in (*PACKAGES, *BESIDE):
        yield from (path for path in sorted((ROOT / package).rglob("*")) if path.suffix in SUFFIXES)


def counts() -> dict[str, dict[str, int]]:
    """Lines by room (a folder of a package), constants that are numbers, virtual functions, questions to constraints by name."""
    lines: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for path in sources():
        text = path.read_text(encoding="utf-8")
        parts = path.relative_to(ROOT).parts
        lines["/".join(parts[: min(2, len(parts) - 1)])] += text.count("\n")
        python = path.suffix == ".py"
        others["numeric constants"] += len((_PYTHON_CONSTANT if python else _CPP_CONSTANT).findall(text))
        others["getattr and hasattr of constraints"] += len(_QUESTIONS.findall(text)) if python else 0
        if path.name == "base_automaton.hpp":
            others["virtual functions of BaseAutomaton"] += len(_VIRTUAL.findall(text))
    lines["all"] = sum(count for room, count in lines.items() if not room.startswith(BESIDE))
    return {"lines": dict(sorted(lines.items())), "counts": dict(sorted(others.items()))}


def recorded() -> dict[str, dict[str, int]]:
    """The numbers of `RECORD`."""
    found: dict[str, dict[str, int]] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def grown(now: dict[str, dict[str, int]], before: dict[str, dict[str, int]]) -> list[str]:
    """What is more than it was, in words; a room that is new counts from nothing."""
    return [
        f"{name} ({kind}): {value}, at most {before[kind].get(name, 0)}"
        for kind, values in now.items()
        for name, value in values.items()
        if value > before[kind].get(name, 0)
    ]


if __name__ == "__main__":
    measured = counts()
    if "--write" in sys.argv[1:]:
        RECORD.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    else:
        print(*(grown(measured, recorded()) or ["nothing has grown"]), sep="\n")
