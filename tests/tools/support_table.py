"""What is supported, file by file and draft by draft, as the cases of the official suite have it.

    python tests/tools/support_table.py

writes the table into docs/json-schema.md, from the ratchet of the official suite.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from constrained.grammars.json_schema import SCHEMA_DIALECTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "json-schema.md"
RATCHET = ROOT / "tests" / "grammars" / "json_schema" / "official_suite.json"
BEGIN, END = (
    "<!-- the official suite: written by tests/tools/support_table.py -->\n",
    "<!-- end of the table -->\n",
)
AGREES = "a"


def table(ratchet: dict[str, Any]) -> str:
    """A row for each file of the suite, a column for each draft: cases that agree, of all cases.

    Args:
        ratchet: by draft and file, a letter for each case.
    """
    files = sorted(
        {name for known in ratchet.values() for name in known}, key=lambda name: ("/" in name, name)
    )
    lines = [f"| file | {' | '.join(SCHEMA_DIALECTS)} |", "|---" * (len(SCHEMA_DIALECTS) + 1) + "|"]
    for file in files:
        cells = [_cell(ratchet.get(draft, {}).get(file)) for draft in SCHEMA_DIALECTS]
        lines.append(f"| {file} | {' | '.join(cells)} |")
    totals = [_cell("".join(ratchet.get(draft, {}).values())) for draft in SCHEMA_DIALECTS]
    lines.append(f"| all | {' | '.join(totals)} |")
    return "\n".join(lines) + "\n"


def _cell(letters: str | None) -> str:
    if letters is None:
        return ""
    agreeing = letters.count(AGREES)
    return "all" if agreeing == len(letters) > 0 else f"{agreeing} of {len(letters)}"


def written(page: str) -> str:
    """The table as it stands in the page."""
    return page.partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Writes the table."""
    page = PAGE.read_text(encoding="utf-8")
    ratchet = json.loads(RATCHET.read_text(encoding="utf-8"))
    PAGE.write_text(page.replace(BEGIN + written(page) + END, BEGIN + table(ratchet) + END), encoding="utf-8")


if __name__ == "__main__":
    main()
