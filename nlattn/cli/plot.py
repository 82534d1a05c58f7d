"""Error against time, as a picture."""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from nlattn.cli.inputs import Input
from nlattn.cli.labels import place_labels
from nlattn.cli.measure import Row
from nlattn.cli.table import title
from nlattn.cli.verdicts import Verdict, by_time, verdict

__all__ = ["draw"]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = "osD^vPX<>p*h"
FEW = 30  # points that are all labelled; of more, the best ones only


def draw(path: Path, tables: list[tuple[Input, list[Row]]]) -> None:
    """Draw a panel a table and save the picture; the format follows from the name."""
    figure = Figure(figsize=(6.4 * len(tables), 5.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(tables), squeeze=False)[0]
    labels = [_panel(panel, problem, rows) for panel, (problem, rows) in zip(panels, tables, strict=True)]
    figure.draw_without_rendering()
    for panel, its_labels in zip(panels, labels, strict=True):
        place_labels(panel, its_labels)
    figure.savefig(path)


def _panel(panel: Any, problem: Input, rows: list[Row]) -> list[tuple[float, float, str]]:
    """Draw all but the labels, which are returned: place and text."""
    panel.set_title("\n".join(textwrap.wrap(title(problem), 64)), fontsize=9)
    panel.set(xscale="log", yscale="log", xlabel="time of a call, ms", ylabel="relative Frobenius error, estimated")
    panel.grid(color="0.92")
    panel.set_axisbelow(True)
    floor = float(np.finfo(problem.query.dtype).eps)  # a logarithm has no place for an error of 0
    shown = [row for row in by_time(rows) if row.method != "exact" and row.error is not None]
    shown = [row for row in shown if np.isfinite(row.error or 0)]
    at = {id(row): (1e3 * (row.seconds or 0), max(row.error or 0, floor)) for row in shown}
    best = [row for row in shown if verdict(row, rows) is Verdict.BEST]
    for i, method in enumerate(dict.fromkeys(row.method for row in rows if row in shown)):
        mine = [row for row in shown if row.method == method]
        x, y = zip(*(at[id(row)] for row in mine), strict=True)
        name = f"{method} ({next(iter(mine[0].budget))})" if mine[0].budget and "(" not in method else method
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        panel.plot(x, y, marker, color=colour, markersize=6, zorder=3, label=name)
    if best:
        x, y = zip(*(at[id(row)] for row in best), strict=True)
        style = {"markersize": 12, "markerfacecolor": "none", "markeredgecolor": "0.35"}
        panel.plot(x, y, "o-", color="0.7", linewidth=1.5, zorder=2, label="best trade-offs", **style)
    _lines(panel, rows)
    panel.margins(0.12)
    _ticks(panel)
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, fontsize=8, frameon=False)
    return [
        (*at[id(row)], f"{next(iter(row.budget.values()), ''):g}" if row.budget else row.method)
        for row in (shown if len(shown) <= FEW else best)
    ]


def _lines(panel: Any, rows: list[Row]) -> None:
    baseline = next((row.baseline for row in rows if row.baseline), None)
    if baseline is not None and np.isfinite(baseline):
        panel.axhline(baseline, color="0.3", linestyle="--", linewidth=1, label="uniform baseline")
    exact = next((row.seconds for row in rows if row.method == "exact"), None)
    if exact is not None:
        panel.axvline(1e3 * exact, color="0.3", linestyle=":", linewidth=1.5, label="time of exact attention")


def _ticks(panel: Any) -> None:
    for axis, limits in ((panel.xaxis, panel.get_xlim()), (panel.yaxis, panel.get_ylim())):
        decades = np.log10(limits[1] / limits[0])
        axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7) if decades < 1 else (1, 2, 5) if decades < 3 else (1,)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.set_minor_formatter(NullFormatter())
