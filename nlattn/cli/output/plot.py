"""Error against time, as a picture."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from nlattn.cli.input.given import Input
from nlattn.cli.measurement.rows import Row
from nlattn.cli.output.labels import Label, place_labels
from nlattn.cli.output.table import title
from nlattn.cli.output.verdicts import Verdict, by_time, verdict
from nlattn.methods.registry import METHODS

__all__ = ["draw"]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = "osD^vPX<>p*h"
FEW = 30  # points that are all labelled; of more, the best ones only


def draw(path: Path, tables: list[tuple[Input, list[Row]]]) -> None:
    """Draw a panel a table and save the picture; the format follows from the name."""
    figure = Figure(figsize=(6.4 * len(tables), 5.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(tables), squeeze=False)[0]
    labels = [_panel(panel, given, rows) for panel, (given, rows) in zip(panels, tables, strict=True)]
    figure.draw_without_rendering()
    for panel, its_labels in zip(panels, labels, strict=True):
        place_labels(panel, its_labels)
    figure.savefig(path)


def _panel(panel: Any, given: Input, rows: list[Row]) -> list[Label]:
    """Draw all but the labels, which are returned."""
    panel.set_title(title(given, 64), fontsize=9)
    panel.set(xscale="log", yscale="log", xlabel="time of a call, ms", ylabel="relative Frobenius error, estimated")
    panel.grid(color="0.92")
    panel.set_axisbelow(True)
    labels: list[Label] = []
    best = []
    seen: set[str] = set()
    for row in by_time(rows):
        found = verdict(row, rows)
        # Exact attention, by whatever name, is a line: its error would leave no room for the others.
        if found is Verdict.EXACT or not row.error or not row.seconds or not np.isfinite(row.error):
            continue
        name, amount = next(iter(row.budget.items()), (row.method, ""))
        own = "(" in row.method
        look = (list(METHODS).index(row.method) if row.method in METHODS else -1) % len(COLOURS)
        at = (1e3 * row.seconds, row.error)
        legend = None if row.method in seen else row.method if own else f"{row.method} ({name})"
        seen.add(row.method)
        panel.plot(*at, MARKERS[look], color=COLOURS[look], markersize=6, zorder=3, label=legend)
        labels.append(Label(*at, f"{name} {amount}" if own else f"{amount}" or name, COLOURS[look]))
        if found is Verdict.BEST:
            best.append(labels[-1])
    if best:
        style = {"markersize": 12, "markerfacecolor": "none", "markeredgecolor": "0.35", "linewidth": 1.5}
        x, y = [label.x for label in best], [label.y for label in best]
        panel.plot(x, y, "o-", color="0.7", zorder=2, label="best trade-offs", **style)
    _lines(panel, rows)
    panel.margins(0.12)
    _ticks(panel)
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, fontsize=8, frameon=False)
    return labels if len(labels) <= FEW else best


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
        subs = (1, 2, 3, 5, 7) if decades < 1 else (1, 2, 5) if decades < 3 else (1,)
        axis.set_major_locator(MaxNLocator(6) if decades < 0.5 else LogLocator(subs=subs))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.set_minor_formatter(NullFormatter())
