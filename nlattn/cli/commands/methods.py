"""What `nlattn methods` prints."""

import re

from rich.console import Console
from rich.table import Table
from rich.text import Text

import nlattn
from nlattn.methods.formulas import formula
from nlattn.methods.record import Record

__all__ = ["exact_limit", "print_methods"]

CAUSAL = {
    None: "no",
    "mask": "future keys have no weight, the selection looks ahead at keys and values",
    "weights": "future keys have no weight, the selection looks ahead at keys",
    "keys": "yes, future keys and values have no effect",
    "strict": "yes, nothing of the future has an effect",
}
MASKS = {None: "none", "keys": "of keys only, the same for all queries", "any": "any"}


def print_methods(console: Console) -> None:
    """Print the registry, a paragraph a method."""
    for record in nlattn.METHODS.values():
        console.print(Text.assemble((record.name, "bold"), f"  {record.principle}"))
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", min_width=8)
        grid.add_column(overflow="fold")
        for name, text in _facts(record).items():
            grid.add_row(f"  {name}", Text(text))
        console.print(grid)
        console.print()
    console.print("cost: multiplications for each head", style="dim")


def exact_limit(record: Record) -> str:
    """From which budget on a method is exact attention."""
    if record.exact_at is not None:
        return formula(record.exact_at)
    return "always" if record.family == "exact" else "no budget"


def _facts(record: Record) -> dict[str, str]:
    defaults = record.method().budgets
    ladders = (
        f"{budget.name} {defaults[budget.name]}"
        + (f" (or {', '.join(str(n) for n in budget.ladder)})" if len(budget.ladder) > 1 else "")
        for budget in record.budgets
    )
    return {
        "family": record.family,
        "paper": f"arXiv {record.paper}" if re.fullmatch(r"\d{4}\.\d{4,5}", record.paper) else record.paper,
        "causal": CAUSAL[record.causal],
        "masks": MASKS[record.masks],
        "budgets": ", ".join(ladders) or "none",
        "exact at": exact_limit(record),
        "cost": formula(record.cost),
    }
