"""The tables of the documentation that follow from records; ``python docs/tables.py`` rewrites them in place.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``. A test holds that all are up to date.
"""

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from nlattn import METHODS, Record
from nlattn.bounds import BOUNDS
from nlattn.methods.formulas import formula

ROOT = Path(__file__).parents[1]

#: The methods of each page, in the order of the survey's chapters.
CHAPTERS = {
    "baselines": ("exact", "streaming", "topk", "heavy_hitter"),
    "clustering": ("reformer", "routing", "smyrf", "multipole", "kdeformer", "hyper", "prescored"),
    "low-rank": ("loki", "nystrom"),
}
FILES = ("README.md", "proofs/README.md", *(f"docs/methods/{name}.md" for name in CHAPTERS))


def overview() -> str:
    """All methods, a line each."""
    rows = [
        [
            f"`{record.name}_attention`",
            record.principle,
            record.causal or "no",
            record.masks or "no",
            _budgets(record),
            _source(record),
        ]
        for record in METHODS.values()
    ]
    return _table(("method", "principle", "causal", "masks", "budgets", "source"), rows)


def chapter(names: Iterable[str]) -> str:
    """What a page says of its methods: with their costs, exact limits and bounds."""
    rows = []
    for record in (METHODS[name] for name in names):
        limit = "-" if record.exact_at is None else f"`{formula(record.exact_at)}`"
        links = ", ".join(f"[{id}](../proofs/{id}.md)" for id in record.bounds)
        rows.append([f"`{record.name}_attention`", f"`{formula(record.cost)}`", limit, _budgets(record), links])
    return _table(("method", "multiplications for each head", "exact at", "budgets", "bounds"), rows)


def bounds() -> str:
    """All bounds, with links to their proofs."""
    rows = []
    for record in sorted(BOUNDS.values(), key=lambda record: record.id):
        statement, source = (text.replace("|", r"\|") for text in (record.statement, record.source))
        rows.append([f"[{record.id}]({record.id}.md)", statement, record.kind, source])
    return _table(("id", "statement", "kind", "source"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "methods": overview,
    "bounds": bounds,
    **{name: lambda names=names: chapter(names) for name, names in CHAPTERS.items()},  # type: ignore[misc]
}


def rewritten(text: str) -> str:
    """A text with its tables made anew."""

    def table(match: re.Match[str]) -> str:
        return f"<!-- table: {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end of table -->"

    return re.sub(r"<!-- table: (.*?) -->\n.*?<!-- end of table -->", table, text, flags=re.DOTALL)


def main() -> None:
    """Rewrite what has changed."""
    for name in FILES:
        path = ROOT / name
        before = path.read_text(encoding="utf-8")
        after = rewritten(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{name} rewritten", file=sys.stderr)


def _budgets(record: Record) -> str:
    return ", ".join(f"`{name}` = {amount}" for name, amount in record.method().budgets.items()) or "-"


def _source(record: Record) -> str:
    return f"arXiv {record.paper}"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = list(header)
    lines = ["| " + " | ".join(cells) + " |" for cells in [header, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


if __name__ == "__main__":
    main()
