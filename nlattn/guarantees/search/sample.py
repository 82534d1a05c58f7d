"""Rows on which candidates are tried, and rows on which an output is checked."""

from typing import Any, NamedTuple

from nlattn.arrays.typing import Array
from nlattn.problem.problem import Problem

__all__ = ["Probe", "Sample"]


class Sample(NamedTuple):
    """Rows on which an output was checked."""

    index: Any
    """Their numbers, a NumPy array (B, H, m)."""
    rows: Problem
    exact: Array
    error: Any
    """Squared row errors (B, H, m)."""


class Probe(NamedTuple):
    """Rows on which candidates are tried."""

    rows: Problem
    """What is computed."""
    numbers: Any
    """The blocks that the rows make up, or None."""
    every: int
    """The distance of the rows that are compared."""
    exact: Array
    """The exact output of these."""
