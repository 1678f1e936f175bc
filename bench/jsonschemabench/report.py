"""The paper's metrics out of the rows: tables for a terminal, a page of Markdown, a self-contained page of HTML."""

from __future__ import annotations

import base64
import html
import io
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from constrained.bench.harness.machine import summarise_machine
from constrained.bench.harness.repetition import repeats
from constrained.bench.harness.report import draw_bars, markdown_page, save_plot
from constrained.bench.harness.results import RunResults
from constrained.bench.harness.tables import ReportTable, format_median_interval
from constrained.bench.jsonschemabench import rows as r
from constrained.bench.masks.engines.unconstrained import UNCONSTRAINED
from constrained.cli.intervals import format_share_interval

_PLACE = re.compile(r"(?<![\w/])#(?=/|:|\s|$)")
"""A JSON Pointer as a fragment, ``#/properties/a`` or ``#``."""

PAGE = "report.md"
HTML = "report.html"
ALL_SPLITS = "all splits"
"""The end of the title of a model's first table."""

_ABOUT = """\
Declared: the engine took the schema. Empirical: the model's text under it was complete and valid. Cut by the limit: the
limit of tokens changed or ended the text, also where it was closed in time and is valid. Repeated: a phrase or an item
more than five times in a row. Good: empirical, neither cut nor repeated. Compliance: empirical of declared. After a share stands its 95 % interval (Wilson), after a median that of the median. Exact
("true coverage"): every recorded instance was judged as the data says, by the engine's masks over the canonical tokens; lax: an invalid one was taken. Valid by the benchmark's scripts: all is read as draft 2020-12, and the
formats ipv4, ipv6 and uuid always fail. Times are medians over the schemas for which every engine gave a valid text, the
unconstrained model left aside: GCT, what compiling took; TTFT, from the prompt to the first token; TPOT, per token after
it. Unconstrained: the model's text as it is, with nothing around the JSON taken away."""


def sections(results: RunResults[r.SchemaBenchRow]) -> list[ReportTable]:
    """For each model a table for all rows, and one for each split."""
    models = list(dict.fromkeys(row.model for row in results.rows))
    found = []
    for model in models:
        rows = [row for row in results.rows if row.model == model]
        before = f"{model}: " if len(models) > 1 else ""
        found.append(_section(f"{before}{ALL_SPLITS}", rows, results))
        splits = sorted({row.split for row in rows})
        if len(splits) > 1:
            found += [
                _section(f"{before}{split}", [row for row in rows if row.split == split], results)
                for split in splits
            ]
    return found


def _engines(rows: Sequence[r.SchemaBenchRow]) -> list[str]:
    return list(dict.fromkeys(row.engine for row in rows))


def _section(title: str, found: list[r.SchemaBenchRow], results: RunResults[r.SchemaBenchRow]) -> ReportTable:
    engines = _engines(found)
    rows = {engine: [row for row in found if row.engine == engine] for engine in engines}
    # The model alone seldom gives valid texts: it would leave nothing to compare the engines by.
    compared = [some for engine, some in rows.items() if engine != UNCONSTRAINED] or list(rows.values())
    shared = set.intersection(*({row.id for row in some if row.status == r.OK} for some in compared))

    def line(label: str, of: Callable[[list[r.SchemaBenchRow]], str]) -> tuple[str, list[str]]:
        return label, [of(some) for some in rows.values()]

    def counted(test: Callable[[r.SchemaBenchRow], Any]) -> Callable[[list[r.SchemaBenchRow]], str]:
        return lambda some: format_share_interval(sum(bool(test(row)) for row in some), len(some))

    def judged(test: Callable[[r.SchemaBenchRow], Any]) -> Callable[[list[r.SchemaBenchRow]], str]:
        return lambda some: counted(test)([row for row in some if row.instances])

    def middle(
        value: Callable[[r.SchemaBenchRow], float | None], scale: float
    ) -> Callable[[list[r.SchemaBenchRow]], str]:
        def of(some: list[r.SchemaBenchRow]) -> str:
            values = [one for row in some if row.id in shared and (one := value(row)) is not None]
            return format_median_interval(values, scale)

        return of

    lines = [
        line("schemas", lambda some: str(len(some))),
        line("declared", counted(lambda row: row.declared)),
        line("empirical", counted(lambda row: row.status == r.OK)),
        line("cut by the limit", counted(lambda row: row.cut)),
        line("repeated", counted(lambda row: _repeats(row.text or ""))),
        line("empirical, not cut", counted(lambda row: row.status == r.OK and not row.cut)),
        line(
            "good", counted(lambda row: row.status == r.OK and not row.cut and not _repeats(row.text or ""))
        ),
        line("compliance", compliance),
        line("valid by the benchmark's scripts", counted(lambda row: row.valid_2020)),
    ]
    if any(row.exact is not None for some in rows.values() for row in some):
        lines.append(line("exact (of those with instances)", judged(lambda row: row.exact)))
        lines.append(line("lax (of those with instances)", judged(lambda row: row.lax)))
    for status in r.STATUSES:
        if any(row.status == status for some in rows.values() for row in some):
            lines.append(line(status, lambda some, status=status: str(_counts(some)[status])))  # type: ignore[misc]
    if any(row.status == r.REFUSED for some in rows.values() for row in some):
        lines.append(line("refusals that name a place of the schema", _placed))
    times: dict[str, tuple[Callable[[r.SchemaBenchRow], float | None], float]] = {
        f"GCT, ms ({len(shared)} shared)": (lambda row: row.compile_seconds, 1e3),
        "TTFT, ms": (lambda row: row.first_seconds, 1e3),
        "TPOT, ms": (lambda row: row.token_seconds, 1e3),
        "tokens a second after the first": (
            lambda row: 1 / row.token_seconds if row.token_seconds else None,
            1,
        ),
        "masks, us of a token": (lambda row: row.mask_seconds, 1e6),
        "masks of a second request": (lambda row: row.again_seconds, 1e6),
        f"tokens of a text ({len(shared)} shared)": (lambda row: row.tokens, 1),
    }
    for label, (value, scale) in times.items():
        if any(value(row) is not None for some in rows.values() for row in some):
            lines.append(line(label, middle(value, scale)))
    heads = [f"{engine} {results.facts['versions'].get(engine, '')}".strip() for engine in engines]
    return ReportTable(title, heads, lines)


_repeats = cache(repeats)


def _placed(rows: list[r.SchemaBenchRow]) -> str:
    refused = [row for row in rows if row.status == r.REFUSED]
    return format_share_interval(sum(bool(_PLACE.search(row.message)) for row in refused), len(refused))


def _counts(rows: list[r.SchemaBenchRow]) -> Counter[str]:
    return Counter(row.status for row in rows)


def compliance(rows: list[r.SchemaBenchRow]) -> str:
    """Valid texts of the schemas that were taken."""
    return format_share_interval(sum(row.status == r.OK for row in rows), sum(row.declared for row in rows))


def write(results: RunResults[r.SchemaBenchRow], out: Path) -> list[ReportTable]:
    """Writes both pages to a folder; returns the tables.

    Args:
        results: what a run found.
        out: an existing folder.
    """
    tables = sections(results) if results.rows else []
    about = _facts(results)
    (out / PAGE).write_text(markdown_page("JSONSchemaBench", about, tables, about=_ABOUT), encoding="utf-8")
    (out / HTML).write_text(_page(tables, about, _plot(results.rows)), encoding="utf-8")
    return tables


def _facts(results: RunResults[r.SchemaBenchRow]) -> list[str]:
    settings, machine = results.facts["settings"], results.facts["machine"]
    about = [
        f"{settings['data']}: {len({row.id for row in results.rows})} schemas, seed {settings['seed']}",
        f"{', '.join(dict.fromkeys(row.model for row in results.rows)) or 'no model'}, greedy, {settings['max_tokens']} tokens a text, "
        f"{settings['compile_limit']:g} s for compiling and {settings['time_limit']:g} s for a text",
        summarise_machine(machine),
    ]
    about += [f"not measured: {engine}: {why}" for engine, why in results.unavailable.items()]
    return about


def _page(tables: list[ReportTable], about: list[str], picture: bytes | None) -> str:
    parts = [
        "<h1>JSONSchemaBench</h1>",
        "<ul>",
        *(f"<li>{html.escape(line)}</li>" for line in about),
        "</ul>",
    ]
    parts.append(f"<p>{html.escape(_ABOUT)}</p>")
    if not tables:
        parts.append("<p><strong>There are no rows yet.</strong></p>")
    if len(tables) > 1:
        links = (f'<a href="#{_anchor(section)}">{html.escape(section.title)}</a>' for section in tables)
        parts.append("<nav>" + " ".join(links) + "</nav>")
    if picture is not None:
        data = base64.b64encode(picture).decode()
        parts.append(
            f'<img alt="coverage by split, and times of the shared schemas" src="data:image/png;base64,{data}">'
        )
    for section in tables:
        heads = "".join(f'<th scope="col">{html.escape(head)}</th>' for head in section.columns)
        parts.append(f'<h2 id="{_anchor(section)}">{html.escape(section.title)}</h2>')
        parts.append(f'<div class="wide"><table><thead><tr><td></td>{heads}</tr></thead><tbody>')
        for label, cells in section.lines:
            row = "".join(f"<td>{_cell(cell)}</td>" for cell in cells)
            kind = ' class="status"' if label in r.STATUSES else ""
            parts.append(f'<tr{kind}><th scope="row">{html.escape(label)}</th>{row}</tr>')
        parts.append("</tbody></table></div>")
    return _FRAME.format(body="\n".join(parts))


def _anchor(section: ReportTable) -> str:
    return html.escape(section.title.replace(" ", "-"))


def _cell(cell: str) -> str:
    """A count with its part of the whole beside it, in a column of its own width."""
    count, _, part = html.escape(cell).partition(" (")
    return f"{count} <small>{part.removesuffix(')')}</small>" if part else count


_FRAME = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>JSONSchemaBench</title>
<style>
:root {{ --text: #222; --quiet: #667; --line: #ddd; --page: #fff; --link: #0645ad; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --text: #dde; --quiet: #99a; --line: #445; --page: #17181c; --link: #8ab4f8; }}
}}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--text); background: var(--page); }}
a {{ color: var(--link); }}
nav {{ display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: 1rem 0; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .15rem .9rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }}
tbody th {{ text-align: left; font-weight: normal; position: sticky; left: 0; background: var(--page); }}
tr.status th {{ padding-left: 2rem; }}
tr.status {{ color: var(--quiet); }}
small {{ display: inline-block; min-width: 3.9rem; color: var(--quiet); }}
img {{ max-width: 100%; background: #fff; border-radius: 6px; }}
</style>
{body}
</html>
"""


def _plot(rows: Sequence[r.SchemaBenchRow]) -> bytes | None:
    """Coverage of every split, and the times of shared schemas, as PNG; None without rows or matplotlib."""
    picture = io.BytesIO()

    def draw(figure: Any, panels: list[Any]) -> None:
        coverage, times = panels
        engines = _engines(rows)
        _draw_coverage(rows, engines, coverage)
        _draw_times(rows, engines, times)
        for panel in panels:
            panel.grid(alpha=0.3)
            panel.set_axisbelow(True)
            panel.spines[["top", "right"]].set_visible(False)
        figure.legend(*coverage.get_legend_handles_labels(), loc="outside upper right", ncols=len(engines))

    # One panel below the other: there may be many splits, and their names are long.
    if not rows or not save_plot(picture, draw, rows=2, size=(12, 8), dpi=120):
        return None
    return picture.getvalue()


def _draw_coverage(rows: Sequence[r.SchemaBenchRow], engines: list[str], panel: Any) -> None:
    from matplotlib import ticker

    splits = sorted({row.split for row in rows})
    shares: dict[str, list[float]] = {}
    for engine in engines:
        for split in splits:
            valid = [row.status == r.OK for row in rows if (row.engine, row.split) == (engine, split)]
            shares.setdefault(engine, []).append(statistics.fmean(valid) if valid else 0.0)
    draw_bars(panel, shares, splits)
    panel.set(ylabel="complete and valid", ylim=(0, 1))
    panel.yaxis.set_major_formatter(ticker.PercentFormatter(1.0))
    panel.margins(x=0.01)


def _draw_times(rows: Sequence[r.SchemaBenchRow], engines: list[str], panel: Any) -> None:
    from matplotlib import ticker

    for engine in engines:
        times = sorted(
            1e3 * ((row.compile_seconds or 0) + row.first_seconds)
            for row in rows
            if row.engine == engine and row.first_seconds is not None
        )
        if times:
            panel.step(times, [1 - n / len(times) for n in range(len(times))], label=engine)
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="milliseconds for compiling and the first token, of the schemas that an engine compiled",
        ylabel="share that takes longer",
    )
    panel.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    panel.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, decimals=None))
