"""Rows on which candidates are tried, and rows on which an output is checked."""

from typing import NamedTuple

import numpy as np

from nlattn.arrays.typing import Array
from nlattn.problem.problem import Problem

__all__ = ["Probe", "Sample"]


class Sample(NamedTuple):
    """Rows on which an output was checked.

    Attributes
    ----------
    drawn : NumPy integer array, shape (B, H, m)
        Which rows these are.
    rows : Problem
        The problem of these rows.
    exact : array, shape (B, H, m, Ev)
        Their exact output.
    error : NumPy array, shape (B, H, m)
        Squared row errors.
    """

    drawn: np.ndarray
    rows: Problem
    exact: Array
    error: np.ndarray


class Probe(NamedTuple):
    """Rows on which candidates are tried.

    Attributes
    ----------
    rows : Problem
        The problem of the rows that candidates compute.
    numbers : NumPy integer array, or None
        The blocks that the rows make up, if they are whole blocks.
    stride : int
        One in so many of the rows is compared with exact attention.
    exact : array, shape (B, H, m, Ev)
        The exact output of the rows that are compared.
    """

    rows: Problem
    numbers: np.ndarray | None
    stride: int
    exact: Array
