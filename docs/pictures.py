"""Makes the pictures of a shown text and of a document: ``show-terminal.svg``, and two pages of HTML beside this file.

    python docs/pictures.py

The other pictures are screenshots of the pages:

    chromium --headless --screenshot=docs/show-notebook.png --window-size=900,70 docs/show-notebook.html
    chromium --headless --screenshot=docs/document-view.png --window-size=900,185 docs/document-view.html
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text

import constrained
from constrained.extraction.prompt import extraction_prompt

HERE = Path(__file__).parent
WIDTH = 96
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "born": {"type": "string", "format": "date"},
        "languages": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "born", "languages"],
    "additionalProperties": False,
}
TEXT = "Ana Novák, born 1987-03-14, speaks Czech and Spanish."


def main() -> None:
    """Writes all three files."""
    constraint = constrained.json_schema(SCHEMA)
    generator = constrained.Generator(constrained.load(), constraint, speculation="auto")
    output = generator(extraction_prompt(TEXT, constraint), max_tokens=120)
    # Colours are for terminals: say that this is one, and read back what was written to it.
    os.environ.update(FORCE_COLOR="1", COLUMNS=str(WIDTH), TERM="xterm-256color")
    written = io.StringIO()
    output.show(file=written)
    recorder = Console(record=True, width=WIDTH, file=io.StringIO())
    recorder.print(Text("out.show()", style="dim"))
    recorder.print(Text.from_ansi(written.getvalue()))
    picture = recorder.export_svg(title="constrained")
    # No requests to other sites: whoever has the font sees it, others their own.
    picture = re.sub(r"@font-face \{.*?\n    \}\n", "", picture, flags=re.DOTALL)
    (HERE / "show-terminal.svg").write_text(picture, encoding="utf-8")
    page = f'<!doctype html><meta charset="utf-8"><body style="font: 15px system-ui; margin: 1rem">{output._repr_html_()}'
    (HERE / "show-notebook.html").write_text(page + "\n", encoding="utf-8")
    found = constrained.extraction.Extractor(constrained.load(), SCHEMA)(TEXT)
    found.write_html(HERE / "document-view.html")


if __name__ == "__main__":
    main()
