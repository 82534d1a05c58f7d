"""Which rows of a table are worth having."""

import math
from enum import Enum

from nlattn.cli.measure import Row

__all__ = ["Verdict", "by_time", "verdict"]


class Verdict(Enum):
    """What a row amounts to; the value says it in a word."""

    EXACT = "exact"
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


def verdict(row: Row, rows: list[Row]) -> Verdict:
    """What `row` amounts to among `rows`."""
    if row.method == "exact":
        return Verdict.EXACT
    if not _useful(row):
        return Verdict.NO_USE
    if row.speedup is not None and row.speedup <= 1:
        return Verdict.SLOWER
    beaten = any(_dominates(other, row) for other in rows if other.status == "ok" and _useful(other))
    return Verdict.BEATEN if beaten else Verdict.BEST


def _useful(row: Row) -> bool:
    if row.error is None or row.baseline is None:
        return False
    # Where the baseline itself is exact, nothing can be below it.
    return row.error < row.baseline or row.error == row.baseline == 0


def _dominates(other: Row, row: Row) -> bool:
    first, second = _place(other), _place(row)
    return first != second and first[0] <= second[0] and first[1] <= second[1]


def _place(row: Row) -> tuple[float, float]:
    return tuple(math.inf if x is None else x for x in (row.seconds, row.error))  # type: ignore[return-value]
