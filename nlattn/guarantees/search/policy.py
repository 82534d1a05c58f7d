"""The constants of the search."""

from dataclasses import dataclass

__all__ = ["POLICY", "SearchPolicy"]


@dataclass(frozen=True, kw_only=True)
class SearchPolicy:
    """The constants of the search, each with its unit and the measurement or reason behind it."""

    #: The spawn key of the rows that the search draws: they never coincide with what a method draws from the same
    #: seed.
    tolerance: int = 0x746F6C65
    #: The confidence of all checks of one batch element (or head) together. The checks share the failure probability,
    #: one for each look and each size that its sample may have, and one more for what is left when heads become exact
    #: at the last look.
    confidence: float = 0.99
    #: How often an output is checked.
    looks: int = 3
    #: A candidate must cost less than this part of exact attention: otherwise probes and checks take what it saves.
    worth: float = 0.5
    #: Below this many scores (some 60 ms on two cores) exact attention is not worth a search, which takes about 10
    #: ms.
    small: int = 40_000_000
    #: Approximations must save this part of exact attention to pay for their first check.
    saving: float = 0.25
    #: The same for later checks, before which an output has been computed in vain.
    saving_later: float = 0.5
    #: Rows of each head on which candidates are tried.
    probe_rows: int = 96
    #: Blocks of rows on which candidates are tried where rows come in blocks.
    probe_blocks: int = 8
    #: One in so many rows of these blocks is compared with exact attention: neighbouring rows have similar errors.
    probe_stride: int = 5
    #: An error on probed rows must come below this part of the tolerance to be promising.
    promising: float = 0.6
    #: So many standard deviations of the later check are added to it before, as the upper limit of a check will do.
    tail: float = 3.0
    #: Errors fall at best like this power of the budget: budgets that are too small even then are not tried.
    fastest: float = 0.8
    #: Errors fall usually like this power of the budget, by which the next budget after a failed check is chosen.
    usual: float = 0.7
    #: The largest factor by which a budget grows after a failed check: that the upper limit is far too large may be due
    #: to a single row.
    most_growth: float = 2.0
    #: The share of all rows that a check takes at first, which keeps two checks cheap.
    check_share: float = 1 / 24
    #: The least number of these rows.
    check_least: int = 96
    #: The largest number of these rows.
    check_most: int = 256
    #: The share of all rows that a check may take where few rows carry the sum of the squared errors.
    check_more: float = 1 / 16
    #: The largest number of rows of such a check: beyond it, another output would be cheaper than more rows.
    check_long: int = 1024
    #: An output is accepted where its upper limit is below this part of the tolerance.
    accept: float = 0.8
    #: An estimate below this part of what is accepted deserves a larger sample.
    near: float = 0.75
    #: So many first and last rows are computed exactly. Their windows are cut off, so that they are the likeliest
    #: outliers, and too few for a sample to find: in one head, one row of 1500 carried 97 % of the squared error.
    edge: int = 16


POLICY = SearchPolicy()
