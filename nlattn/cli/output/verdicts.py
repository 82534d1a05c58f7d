"""Which rows of a table are worth having."""

import math
from enum import Enum

from nlattn.cli.measurement.rows import Row
from nlattn.methods.registry import METHODS

__all__ = ["Verdict", "by_time", "telling", "verdict"]


class Verdict(Enum):
    """What a row amounts to; the value says it in a word."""

    EXACT = "exact"
    """It is exact attention, up to rounding."""
    NO_USE = "no use"
    """Its error is not below that of the uniform baseline."""
    SLOWER = "slower"
    """It is not faster than exact attention."""
    BEST = "best"
    """No other row is both faster and more accurate."""
    BEATEN = ""


def by_time(rows: list[Row]) -> list[Row]:
    """The rows that have an output, the fastest first."""
    done = [row for row in rows if row.status == "ok" and row.seconds is not None]
    return sorted(done, key=lambda row: row.seconds or 0.0)


def telling(rows: list[Row]) -> list[Row]:
    """Exact attention, the best trade-offs, and for each other method its row of the least error times time."""
    found = by_time(rows)
    kept = [row for row in found if row.method not in METHODS or verdict(row, rows) == Verdict.BEST]
    known = {row.method for row in kept}

    def price(row: Row) -> tuple[bool, float]:
        unknown = row.error is None or row.seconds is None
        return verdict(row, rows) == Verdict.EXACT, math.inf if unknown else row.error * row.seconds  # type: ignore[operator]

    for row in sorted(found, key=price):
        if row.method not in known:
            known.add(row.method)
            kept.append(row)
    return by_time(kept)


def verdict(row: Row, rows: list[Row]) -> Verdict:
    """What `row` amounts to among `rows`."""
    if _exact(row, rows):
        return Verdict.EXACT
    if not _useful(row):
        return Verdict.NO_USE
    if row.speedup is not None and row.speedup <= 1:
        return Verdict.SLOWER
    rivals = (other for other in rows if other.status == "ok" and _useful(other) and not _exact(other, rows))
    return Verdict.BEATEN if any(_dominates(other, row) for other in rivals) else Verdict.BEST


def _exact(row: Row, rows: list[Row]) -> bool:
    """Whether it is exact attention, by name or because a method ended in it: then they differ by rounding alone."""
    if row.method == "exact":
        return True
    reference = next((other.error for other in rows if other.method == "exact"), None)
    return None not in (reference, row.error) and (row.error or 0.0) <= 10 * (reference or 0.0)


def _useful(row: Row) -> bool:
    return row.error is not None and row.baseline is not None and row.error < row.baseline


def _dominates(other: Row, row: Row) -> bool:
    first, second = _place(other), _place(row)
    return first != second and first[0] <= second[0] and first[1] <= second[1]


def _place(row: Row) -> tuple[float, float]:
    return tuple(math.inf if x is None else x for x in (row.seconds, row.error))  # type: ignore[return-value]
