"""An extraction beside its document: for a terminal, for a notebook, and as a page of HTML.

The page needs no network and runs no script: a link leads from each value to its place. All texts are data: they are
escaped, and cannot change the direction of what stands around them.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from constrained.extraction.values.grounding import NO_SPAN, SpanMatch, iterate_scalars

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from constrained.extraction.values.fields import FieldProbability

_STYLES = (
    "black on yellow",
    "black on cyan",
    "black on green",
    "black on magenta",
    "white on blue",
    "black on white",
)
_HUES = (48, 200, 130, 300, 20, 260, 170, 340)
_SOURCES = {
    "exact": "verbatim",
    "case": "other case",
    "space": "other white space",
    "normalised": "equal value",
    "none": "no source",
}
"""What the view says for each `SpanMatch.how`."""


@dataclass(frozen=True, slots=True)
class FieldView:
    """One scalar of the view.

    Attributes:
        pointer: JSON Pointer.
        value: the scalar.
        span: its place in the document.
        probability: of the value under the model; None: not computed.
        derailed: as in `FieldProbability`; False where that is not computed.
    """

    pointer: str
    value: Any
    span: SpanMatch
    probability: float | None = None
    derailed: bool = False

    @property
    def lacks_source(self) -> bool:
        """Whether a text or number stands nowhere in the document. null, true and false have no place to stand."""
        return self.span.how == "none" and self.value is not None and not isinstance(self.value, bool)

    @property
    def source(self) -> str:
        """How the value stands in the document, in words."""
        if self.span.how == "none" and not self.lacks_source:
            return ""
        return _SOURCES[self.span.how]

    @property
    def shown(self) -> str:
        """The value as text; strings without quotes, unless they are empty or begin or end with white space."""
        if isinstance(self.value, str) and self.value and self.value == self.value.strip():
            return self.value
        return json.dumps(self.value, ensure_ascii=False, default=str)


def field_views(
    value: Any, spans: Mapping[str, SpanMatch], fields: Mapping[str, FieldProbability] | None = None
) -> list[FieldView]:
    """The scalars of a JSON value with their places and, if known, their probabilities."""
    return [
        FieldView(
            pointer,
            scalar,
            spans.get(pointer, NO_SPAN),
            *((found.probability, found.derailed) if (found := (fields or {}).get(pointer)) else ()),
        )
        for pointer, scalar in iterate_scalars(value)
    ]


def _segments(document: str, views: Sequence[FieldView]) -> Iterator[tuple[str, list[int]]]:
    """The document cut where a place begins or ends; each piece with the fields that it belongs to, shortest first."""
    opened: dict[int, list[int]] = {}
    closed: dict[int, list[int]] = {}
    for number, view in enumerate(views):
        start, end = view.span.start, view.span.end
        if start is not None and end is not None and start < end:
            opened.setdefault(start, []).append(number)
            closed.setdefault(end, []).append(number)
    here: dict[int, int] = {}
    last = 0
    for cut in sorted({*opened, *closed, len(document)}):
        if cut > last:
            yield document[last:cut], sorted(here, key=lambda number: (here[number], number))
        for number in closed.get(cut, ()):
            del here[number]
        for number in opened.get(cut, ()):
            span = views[number].span
            here[number] = (span.end or 0) - (span.start or 0)
        last = cut


# ---------------------------------------------------------------- terminal


def render_document(document: str, views: Sequence[FieldView]) -> Text:
    """The document for a terminal, extracted values highlighted."""
    from rich.text import Text

    text = Text()
    for piece, numbers in _segments(document, views):
        text.append(_visible(piece), _STYLES[numbers[0] % len(_STYLES)] if numbers else "")
    return text


def field_style(number: int, view: FieldView) -> str:
    """The style of a value in the table: that of its place in the document, or red without one."""
    if view.span.start is not None:
        return _STYLES[number % len(_STYLES)]
    return "bold red" if view.lacks_source else ""


def render_fields(views: Sequence[FieldView]) -> RenderableType:
    """The values for a terminal, one in a row, with their places."""
    from rich.table import Table
    from rich.text import Text

    known = any(view.probability is not None for view in views)
    table = Table(
        "field",
        "value",
        "source",
        "characters",
        *(["probability"] if known else []),
        box=None,
        pad_edge=False,
    )
    for number, view in enumerate(views):
        place = f"{view.span.start}-{view.span.end}" if view.span.start is not None else ""
        row = [
            Text(view.pointer or "(all)"),
            Text(_visible(view.shown), field_style(number, view)),
            Text(view.source, "red" if view.lacks_source else ""),
            Text(place),
        ]
        if known:
            row.append(Text("" if view.probability is None else f"{view.probability:.1%}"))
        table.add_row(*row)
    return table


def _visible(text: str) -> str:
    """Text whose control characters cannot steer a terminal."""
    return _UNSEEN.sub(lambda match: chr(0x2400 + ord(match[0])) if match[0] < " " else "\ufffd", text)


# ---------------------------------------------------------------- HTML


_CSS = """
.cx{color-scheme:light dark;--fg:#1f2328;--bg:#fff;--soft:#57606a;--line:#d0d7de;--bad:#b42318;--badbg:#fee4e2;--l:84%;--s:85%;
font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:90rem;margin:0 auto;padding:.75rem;box-sizing:border-box}
@media(prefers-color-scheme:dark){.cx{--fg:#e6edf3;--bg:#0d1117;--soft:#9198a1;--line:#3d444d;--bad:#ff9b93;--badbg:#4a1d1b;--l:28%;--s:60%}}
.cx *{box-sizing:border-box}
.cx h2{font-size:1rem;margin:0 0 .5rem;overflow-wrap:anywhere}
.cx .cx-two{display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);gap:1rem;align-items:start}
.cx .cx-doc{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid var(--line);border-radius:6px;padding:.75rem;max-height:85vh;overflow:auto;unicode-bidi:isolate}
.cx mark{color:inherit;background:hsl(var(--h) var(--s) var(--l));border-radius:3px;padding:.05em 0;scroll-margin:4rem}
.cx mark:target{outline:2px solid currentColor;outline-offset:1px}
.cx table{border-collapse:collapse;width:100%;margin:0;font-size:.93em}
.cx th,.cx td{text-align:left;vertical-align:top;border-bottom:1px solid var(--line);padding:.3rem .5rem .3rem 0;overflow-wrap:anywhere;unicode-bidi:isolate;background:none;color:inherit}
.cx th{color:var(--soft);font-weight:600}
.cx th,.cx td:nth-child(n+3){overflow-wrap:normal}
.cx td:nth-child(4){white-space:nowrap}
.cx tr>:last-child{padding-right:0}
.cx td:first-child{color:var(--soft);font-family:ui-monospace,monospace;font-size:.9em}
.cx a{color:inherit;text-decoration:none;background:hsl(var(--h) var(--s) var(--l));border-radius:3px;padding:.05em .25em}
.cx .cx-doc a{padding:0}
.cx a:hover,.cx a:focus{text-decoration:underline}
.cx .cx-bad{color:var(--bad);background:var(--badbg);border-radius:3px;padding:.05em .25em}
.cx .cx-soft{color:var(--soft)}
@media(max-width:45rem){.cx .cx-two{grid-template-columns:minmax(0,1fr)}.cx .cx-doc{max-height:50vh}
.cx thead{display:none}.cx tr{display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr) auto;border-bottom:1px solid var(--line)}
.cx td{border:0}.cx td:first-child{grid-column:1/-1;padding-bottom:0}}
""".replace("\n", "")

_FILTER = (
    ".cx.cx-filter{display:block}body:has(.cx-filter :checked) :is(.cx:not(.cx-filter,:has(.cx-bad)),"
    ".cx tbody tr:not(:has(.cx-bad))){display:none}"
)


def render_html(document: str, views: Sequence[FieldView], *, title: str = "", error: str = "") -> str:
    """Document and fields side by side, as a fragment of HTML for a notebook or a page.

    Args:
        document: the text.
        views: from `field_views`.
        title: shown above, such as the id of the document.
        error: shown in place of the fields.
    """
    return f"<style>{_CSS}</style>{_block(document, views, title, error)}"


def html_page(
    blocks: Iterable[tuple[str, Sequence[FieldView], str, str]], *, title: str = "Extractions"
) -> Iterator[str]:
    """The parts of a page with several documents; each block has the arguments of `render_html`."""
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_escape(title)}</title><style>:root{{color-scheme:light dark}}"
        "body{margin:0;background:#fff}@media(prefers-color-scheme:dark){body{background:#0d1117}}"
        f"{_CSS}{_FILTER}</style></head><body>"
        '<label class="cx cx-filter"><input type="checkbox"> only what is in doubt: values without a source or derailed, '
        "and errors</label>"
    )
    for number, block in enumerate(blocks):
        yield _block(*block, number=number)
    yield "</body></html>\n"


def _block(document: str, views: Sequence[FieldView], title: str, error: str, number: int = 0) -> str:
    key = hashlib.sha256(f"{number} {title} {document}".encode("utf-8", "replace")).hexdigest()[:10]
    seen: set[int] = set()
    pieces = []
    for piece, numbers in _segments(document, views):
        if not numbers:
            pieces.append(_escape(piece))
            continue
        ids = "".join(f'<a id="cx{key}-{i}"></a>' for i in numbers[1:] if i not in seen)
        own = "" if numbers[0] in seen else f' id="cx{key}-{numbers[0]}"'
        seen.update(numbers)
        names = ", ".join(f"{views[i].pointer or 'value'} ({views[i].source})" for i in numbers)
        pieces.append(
            f'{ids}<mark{own} style="{_colours(numbers)}" title="{_escape(names)}">{_escape(piece)}</mark>'
        )
    heading = f"<h2>{_escape(title)}</h2>" if title else ""
    side = f'<p class="cx-bad">{_escape(error)}</p>' if error else _table(views, key)
    return f'<div class="cx">{heading}<div class="cx-two"><div class="cx-doc">{"".join(pieces)}</div><div>{side}</div></div></div>'


def _table(views: Sequence[FieldView], key: str) -> str:
    known = any(view.probability is not None for view in views)
    rows = []
    for number, view in enumerate(views):
        shown = _escape(view.shown)
        if view.span.start is not None:
            shown = f'<a href="#cx{key}-{number}" style="--h:{_hue(number)}">{shown}</a>'
        elif view.lacks_source:
            shown = f'<span class="cx-bad">{shown}</span>'
        place = (
            f' at <span style="white-space:nowrap">{view.span.start}\u2013{view.span.end}</span>'
            if view.span.start is not None
            else ""
        )
        style = "cx-bad" if view.lacks_source else "cx-soft"
        cells = [
            re.sub("([/_.])", r"\1<wbr>", _escape(view.pointer or "value")),  # a long pointer is broken there
            shown,
            f'<span class="{style}">{view.source}{place}</span>',
        ]
        if known:
            said = "" if view.probability is None else f"{view.probability:.1%}"
            cells.append(f'<span class="cx-bad">{said}, derailed</span>' if view.derailed else said)
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    last = "<th>probability</th>" if known else ""
    return f"<table><thead><tr><th>field</th><th>value</th><th>source</th>{last}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _colours(numbers: Sequence[int]) -> str:
    """The colour of a place; with several values one stripe for each below the first."""
    style = f"--h:{_hue(numbers[0])}"
    stripes = [
        f"inset 0 -{2 * i}px hsl({_hue(number)} var(--s) 45%)" for i, number in enumerate(numbers[1:], 1)
    ]
    return f"{style};box-shadow:{','.join(stripes)}" if stripes else style


def _hue(number: int) -> int:
    return _HUES[number % len(_HUES)]


def _escape(text: str) -> str:
    """Text for HTML; what HTML cannot hold, or would hide, becomes U+FFFD."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return html.escape(_UNSEEN.sub("\ufffd", text))


_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Control characters, lone surrogates, and controls that change the direction of the text after them."""
