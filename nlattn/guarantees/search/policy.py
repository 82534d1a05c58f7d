"""The constants of the search."""

from dataclasses import dataclass

__all__ = ["POLICY", "SearchPolicy"]


@dataclass(frozen=True, kw_only=True)
class SearchPolicy:
    """The constants, each with its unit and the measurement or reason behind it."""

    #: The spawn key of the rows that the search draws: they never coincide with what a method draws from the same
    #: seed.
    tolerance: int = 0x746F6C65
    #: Confidence of all checks of one batch element (or head) together, and how often an output is checked. Checks
    #: and the sizes that their samples may have share the failure probability, with one more check for what is left
    #: when heads become exact at the last.
    confidence: float = 0.99
    looks: int = 3
    #: A candidate must cost less than this part of exact attention.
    worth: float = 0.5
    #: Below this many scores (some 60 ms on two cores) exact attention is not worth a search, which takes about 10
    #: ms.
    small: int = 40_000_000
    #: Approximations must save this part of the whole to pay for their first check, and for later ones.
    saving: float = 0.25
    saving_later: float = 0.5
    #: Rows on which candidates are tried, in each head.
    probe_rows: int = 96
    #: Where rows come in blocks: the number of blocks, and the distance of the rows of a block that are compared.
    probe_blocks: int = 8
    probe_every: int = 5
    #: A trial must come below this part of the tolerance, with so many standard deviations of the later check added:
    #: that is what the upper limit of a check adds to an estimate.
    promising: float = 0.6
    tail: float = 3.0
    #: Errors fall like such powers of the budget, at best and as a rule. What is too small even at best is not
    #: tried.
    fastest: float = 0.8
    usual: float = 0.7
    #: The largest factor of a budget after a failed check: an upper limit that misses by far may be the chance of
    #: one row.
    most_growth: float = 2.0
    #: Rows of a check: this share of all rows, within the two limits, which keeps two checks cheap.
    check_share: float = 1 / 24
    check_least: int = 96
    check_most: int = 256
    #: Where few rows carry the sum a check may take this share of all rows, up to the limit, beyond which another
    #: output would be cheaper than more rows.
    check_more: float = 1 / 16
    check_long: int = 1024
    #: An output is accepted where its upper limit is below this part of the tolerance.
    accept: float = 0.8
    #: An estimate below this part of what is accepted deserves a larger sample.
    near: float = 0.75
    #: The first and last rows are computed exactly: their windows are cut off, and they are the likeliest outliers,
    #: too few for a sample to meet (measured: one row of 1500 carried 97 % of the squared error of a head).
    edge: int = 16


POLICY = SearchPolicy()
