"""The table that `nlattn compare` prints."""

import textwrap

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nlattn.cli.input.given import Input
from nlattn.cli.measurement.rows import Row
from nlattn.cli.output.verdicts import Verdict, by_time, telling, verdict

__all__ = ["budget_text", "number", "print_reading_aid", "print_table", "title"]

#: From here on the verdicts are spelt out; prose stays below it, to be readable.
WIDE = 100
VERDICTS = {
    Verdict.EXACT: ("exact", "bold"),
    Verdict.NO_USE: ("no better than uniform", "dim"),
    Verdict.SLOWER: ("slower than exact", "red"),
    Verdict.BEST: ("best trade-off", "bold green"),
    Verdict.BEATEN: ("", ""),
}
READING_AID = """\
How to read this: the rows are sorted by time. "error" is the relative Frobenius error |output - exact| / |exact| over \
all heads, "<= upper" an upper limit of it. Both are estimates, from at most 256 rows of each head that are computed \
exactly (where a head has no more, they are the error itself): rare bad rows can hide from any sample. "95 % rows" is \
a bound: with probability 0.99, whatever the distribution, at least 95 % of the rows have an error of at most this \
multiple of the typical row norm (a root mean square, itself estimated). The uniform baseline gives every query the \
mean of the values that it may see; a method whose error is not below it has computed nothing ({no_use}). "ms" is the \
median time of a call, "speed" that of exact attention divided by it (below 1 it loses, {slower}), "MB" the most \
memory that the arrays of a call take at a time, its output included. Of the other rows, {best} marks those that none \
beats in both time and error."""


def print_table(console: Console, given: Input, rows: list[Row], rtol: float | None, *, everything: bool) -> None:
    """Print what is to be known about the input, all or the telling rows by time, and the refusals in sentences."""
    console.print(Text(title(given, console.width), style="bold"))
    for sentence in given.assumed:
        console.print(Text(sentence))
    baseline = next((row.baseline for row in rows if row.baseline is not None), None)
    console.print(Text(f"Error of the uniform baseline: {number(baseline)}\n"))
    wide = console.width >= WIDE
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1 if wide else 0), collapse_padding=True)
    for header in ("method", "budget"):
        table.add_column(header, overflow="fold")
    for header in ("error", "<= upper", "95 % rows", "ms", "speed", "MB"):
        table.add_column(header, justify="right", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    shown = by_time(rows) if everything else telling(rows)
    for row in shown:
        found = verdict(row, rows)
        words, style = VERDICTS[found]
        table.add_row(*_cells(row, rtol), words if wide else found.value, style=style)
    console.print(table)
    console.print()
    if hidden := len(by_time(rows)) - len(shown):
        console.print(Text(f"Without {hidden} rows that other budgets of their methods outdo; --all shows them."))
    for sentence in _remarks(rows, rtol):
        console.print(Text(sentence))


def print_reading_aid(console: Console) -> None:
    """Print what the columns mean, and which of them are bounds."""
    wide = console.width >= WIDE
    words = {each.name.lower(): f'"{VERDICTS[each][0] if wide else each.value}"' for each in Verdict}
    console.print(Text(READING_AID.format(**words), style="dim"), width=min(console.width, WIDE))


def title(given: Input, width: int) -> str:
    """What the input is, in lines of at most `width` where it can be broken after commas."""
    length, s, e, ev = given.sizes.values()
    heads, groups = len(given.query), len(given.key)
    words = f"{heads} head{'s' if heads > 1 else ''}"
    parts = [
        given.name,
        f"layer {given.layer}" if given.layer is not None else "",
        words if groups == heads else f"{heads} query and {groups} key heads",
        f"L = S = {length}" if length == s else f"L = {length}, S = {s}",
        f"E = Ev = {e}" if e == ev else f"E = {e}, Ev = {ev}",
        "causal" if given.is_causal else "not causal",
        f"scale {given.scale:.4g}",
        str(given.query.dtype),
    ]
    text = ", ".join(part.replace(" ", "\xa0") for part in parts if part)
    return "\n".join(textwrap.wrap(text, width, break_on_hyphens=False)).replace("\xa0", " ")


def number(x: float | None) -> str:
    """Three digits, or two where powers of ten are needed."""
    if x is None:
        return "-"
    if 0 < abs(x) < 1e-3 or 1e4 <= abs(x) < float("inf"):
        return f"{x:.1e}"
    return f"{x:#.3g}".rstrip(".") if x else "0"


def budget_text(row: Row) -> str:
    """The budget that is varied, by name."""
    return next((f"{name} {amount:g}" for name, amount in row.budget.items()), "")


def _cells(row: Row, rtol: float | None) -> list[str]:
    within = rtol is not None and row.upper is not None and row.upper <= rtol
    return [
        row.method.partition("(")[0],
        budget_text(row),
        number(row.error),
        number(row.upper) + ("" if rtol is None else " *" if within else "  "),
        number(row.row95),
        number(None if row.seconds is None else 1e3 * row.seconds),
        "-" if row.speedup is None else f"{row.speedup:.2f}x",
        number(None if row.extra_bytes is None else row.extra_bytes / 1e6),
    ]


def _remarks(rows: list[Row], rtol: float | None) -> list[str]:
    remarks = [] if rtol is None else [f"* The upper limit is within the tolerance of {rtol:g}."]
    for row in rows:
        if row.reason is not None:
            name = f"{row.method} {budget_text(row)}".strip() if row.status == "failed" else row.method
            remarks.append(f"{name}{'' if row.status == 'ok' else f' {row.status}'}: {row.reason.rstrip('.')}.")
    return remarks
