"""Draws the figures of docs/concepts.md: ``docs/figures/*.svg``, which follow the reader's light or dark scheme.

python docs/figures.py
"""

from __future__ import annotations

from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "figures"
STYLE = """
text { font: 15px system-ui, sans-serif; fill: #222 }
.code { font-family: ui-monospace, monospace; font-size: 14px }
.quiet { fill: #667; font-size: 13px }
.box { fill: #fff; stroke: #778; stroke-width: 1.5 }
.good { fill: #d7efdb; stroke: #2e7d32 }
.bad { fill: #f6dcdc; stroke: #b3261e }
.line { stroke: #778; stroke-width: 1.5; fill: none }
.bar { fill: #7aa6da } .bar2 { fill: #e0a458 }
@media (prefers-color-scheme: dark) {
text { fill: #dde } .quiet { fill: #99a }
.box { fill: #23252c; stroke: #889 } .good { fill: #1f3d26; stroke: #66bb6a } .bad { fill: #47211f; stroke: #ef9a9a }
.line { stroke: #889 } .bar { fill: #5b8bc4 } .bar2 { fill: #c98a3a }
}
"""


class Drawing:
    """An SVG that is put together from boxes, arrows and texts.

    Args:
        width, height: in pixels.
        title: what the figure shows, for readers who do not see it.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title><style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 8 4 0 8z" fill="#889"/></marker></defs>',
        ]

    def text(self, x: float, y: float, said: str, kind: str = "", anchor: str = "middle") -> None:
        """A line of text, centred on x unless said otherwise."""
        self.parts.append(
            f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(said)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, said: str, kind: str = "box") -> None:
        """A box with a text in it."""
        self.rectangle(x, y, width, height, f"box {kind}")
        self.text(x + width / 2, y + height / 2 + 5, said, "code")

    def rectangle(
        self, x: float, y: float, width: float, height: float, kind: str, round_by: int = 6
    ) -> None:
        """A rectangle."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{round_by}" class="{kind}"/>'
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """A straight arrow."""
        self.parts.append(f'<path d="M{x1} {y1} L{x2} {y2}" class="line" marker-end="url(#tip)"/>')

    def save(self, name: str) -> None:
        """Writes the file."""
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.svg").write_text("\n".join([*self.parts, "</svg>"]) + "\n", encoding="utf-8")


def automaton() -> None:
    """A mask: which tokens may follow a prefix."""
    d = Drawing(
        720, 250, "After the prefix a mask says of each token whether a valid completion can still follow"
    )
    d.text(360, 24, "schema: an object with an integer member “age”", "quiet")
    d.box(20, 95, 130, 44, '{"age": 4')
    d.text(85, 160, "a prefix = a state", "quiet")
    tokens = (
        ("2", True),
        ("21", True),
        ("}", True),
        ("␣}", True),
        ("abc", False),
        ('"', False),
        (".5", False),
    )
    for i, (token, allowed) in enumerate(tokens):
        y = 42 + i * 29
        d.arrow(152, 117, 288, y + 12)
        d.box(290, y, 80, 24, token, "good" if allowed else "bad")
        d.text(385, y + 17, "1" if allowed else "0", "code", "start")
    d.text(440, 118, "a mask: one bit a token,", "", "start")
    d.text(440, 138, "131,072 of them,", "", "start")
    d.text(440, 158, "in less than a microsecond", "", "start")
    d.text(440, 178, "for most states", "", "start")
    d.save("automaton")


def distributions() -> None:
    """Local masking and the conditional distribution."""
    d = Drawing(720, 300, "Masking token by token is not the model's distribution over valid texts")
    d.text(
        360,
        24,
        "the model writes A and then something valid once in ten times; B and then something valid always",
        "quiet",
    )
    d.box(40, 130, 80, 36, "start")
    for y, name, share in ((70, "A", "0.9"), (190, "B", "0.1")):
        d.arrow(122, 148, 198, y + 18)
        d.box(200, y, 60, 36, name)
        d.text(155, y + (38 if name == "A" else 8), share, "quiet")
    ends = ((45, "valid", "0.1", "good"), (100, "invalid", "0.9", "bad"), (190, "valid", "1.0", "good"))
    for y, said, share, kind in ends:
        d.arrow(262, 88 if y < 150 else 208, 338, y + 16)
        d.box(340, y, 90, 32, said, kind)
        d.text(300, y + (10 if y != 100 else 34), share, "quiet")
    for i, (label, a, b) in enumerate((("masks alone", 0.9, 0.1), ("conditional", 0.09 / 0.19, 0.1 / 0.19))):
        x = 490 + i * 120
        for j, (name, share) in enumerate((("A", a), ("B", b))):
            height = 150 * share
            d.rectangle(x + j * 45, 230 - height, 34, height, "bar" if j == 0 else "bar2", 2)
            d.text(x + j * 45 + 17, 222 - height, f"{share:.2f}", "quiet")
            d.text(x + j * 45 + 17, 248, name, "code")
        d.text(x + 40, 272, label)
    d.save("distributions")


def speculation() -> None:
    """One pass over a tree of draft tokens."""
    d = Drawing(
        720, 270, "One forward pass reads a tree of draft tokens; the path that agrees with the model is kept"
    )
    d.text(
        360,
        24,
        "one forward pass reads all of these; what the model would have drawn decides which stay",
        "quiet",
    )
    levels = (
        ((30, 115, '{"city":', "good"),),
        ((180, 60, ' "Lis', "good"), (180, 170, ' "Por', "bad")),
        ((310, 60, 'bon"', "good"), (310, 170, 'to"', "bad")),
        ((430, 60, ', "year":', "good"), (430, 170, "}", "bad")),
        ((570, 35, " 1", "good"), (570, 90, " 2", "bad")),
    )
    widths = (110, 90, 80, 100, 60)
    for level, (nodes, width) in enumerate(zip(levels, widths, strict=True)):
        for x, y, said, kind in nodes:
            d.box(x, y, width, 36, said, kind)
            if level == 0:
                continue
            px, pw = levels[level - 1][0][0], widths[level - 1]
            parents = levels[level - 1]
            parent = next((one for one in parents if one[1] == y), parents[0])
            d.arrow(px + pw + 1, parent[1] + 18, x - 2, y + 18)
    d.text(360, 240, "green: accepted, five tokens in one pass. red: refused, and forgotten", "quiet")
    d.save("speculation")


if __name__ == "__main__":
    automaton()
    distributions()
    speculation()
