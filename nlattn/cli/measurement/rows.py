"""The rows of a table before they are measured: which methods, with which budgets."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import nlattn
from nlattn.cli.input.given import Input
from nlattn.methods.record import Record
from nlattn.methods.registry import METHODS

__all__ = ["Job", "Row", "jobs"]


@dataclass(slots=True, kw_only=True, eq=False)
class Row:
    """One method with one budget."""

    method: str
    budget: dict[str, int | float]
    status: str = "ok"
    reason: str | None = None
    """Why it was refused or failed; for `nlattn.attention`, what it chose."""
    error: float | None = None
    upper: float | None = None
    row95: float | None = None
    baseline: float | None = None
    seconds: float | None = None
    speedup: float | None = None
    extra_bytes: int | None = None
    heads: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Job:
    """A row to be filled in, and the call that it is about."""

    row: Row
    run: Callable[[], Any]
    times: list[float] = field(default_factory=list)


def jobs(given: Input, methods: list[str], budgets: list[int] | None, rtol: float | None, seed: int) -> list[Job]:
    """What is to be measured; exact attention first, as the others are held against it."""
    arrays = (given.query, given.key, given.value)
    found = []
    for name in dict.fromkeys(["exact", *methods]):
        record = METHODS[name]
        options = given.options if record.deterministic else given.options | {"rng": seed}
        for budget in _budgets(record, budgets, given.sizes["S"]):
            call = partial(nlattn.run, record.method(**budget), *arrays, **options)
            found.append(Job(Row(method=name, budget=budget), call))
        if not found or found[-1].row.method != name:
            found.append(Job(Row(method=name, budget={}), partial(_nothing_to_try, record, given.sizes["S"])))
    if rtol is not None:
        row = Row(method=f"attention(rtol={rtol:g})", budget={"rtol": rtol})
        found.append(Job(row, partial(nlattn.attention, *arrays, rtol=rtol, **given.options, rng=seed)))
    return found


def _budgets(record: Record, amounts: list[int] | None, s: int) -> list[dict[str, Any]]:
    if not record.budgets:
        return [{}]
    first, *others = record.budgets
    defaults = record.method().budgets
    if amounts is None:
        # From S keys on it would be exact attention once more.
        amounts = [amount for amount in first.ladder if first.unit != "keys" or amount < s]
    rest = {other.name: defaults[other.name] for other in others}
    return [{first.name: amount, **rest} for amount in amounts]


def _nothing_to_try(record: Record, s: int) -> None:
    first = record.budgets[0]
    raise NotImplementedError(
        f"every {first.name} of its ladder, from {min(first.ladder)} on, covers all {s} keys, where it is exact "
        "attention; try others with --budgets"
    )
