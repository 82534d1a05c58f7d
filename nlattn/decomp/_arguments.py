"""Arguments of tensor decompositions, checked."""

import math
from collections.abc import Sequence
from typing import SupportsIndex

from nlattn.arrays.arguments import check_integer, check_number, floating
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.typing import Array, Namespace

__all__ = ["Ranks", "check_mode", "check_ranks", "check_tolerance", "common", "either", "tensor"]

#: One rank for all, or one for each.
Ranks = int | Sequence[int]


def tensor(name: str, x: Array, *, check_finite: bool = True) -> Array:
    """`floating`, complex allowed, for an array with at least one axis and one element, laid out in C order."""
    x = floating(name, x, allow_complex=True, check_finite=check_finite)
    if x.ndim == 0 or 0 in x.shape:
        raise ValueError(f"{name} must have at least one axis and one element, got shape {tuple(x.shape)}")
    xp, shape = namespace(**{name: x}), tuple(x.shape)
    # Reshaping to one axis copies a strided tensor once for all; otherwise each unfolding would copy it again.
    return xp.reshape(xp.reshape(x, (math.prod(shape),)), shape)


def check_mode(mode: SupportsIndex, ndim: int) -> int:
    """`mode` as an index from 0; negative ones count from the last axis."""
    return check_integer("mode", mode, least=-ndim, most=ndim - 1, why=f"x has {ndim} axes") % ndim


def check_ranks(ranks: Ranks | None, limits: list[int], what: str, why: str) -> list[int]:
    """One rank for each limit; a single integer stands for all of them."""
    try:
        listed = list(ranks)  # type: ignore[arg-type]
    except TypeError:
        listed = [check_integer("ranks", ranks)] * len(limits)  # type: ignore[arg-type]
    if len(listed) != len(limits):
        raise ValueError(f"ranks must be one integer or {len(limits)}, one for each {what}, got {len(listed)}")
    return [
        check_integer(f"ranks[{k}]", r, most=m, why=why) for k, (r, m) in enumerate(zip(listed, limits, strict=True))
    ]


def either(ranks: Ranks | None, rtol: float | None) -> None:
    """Raise unless exactly one of the two is given."""
    if (ranks is None) == (rtol is None):
        raise ValueError(f"pass either ranks or rtol, got {'neither' if ranks is None else 'both'}")


def check_tolerance(rtol: float, eps: float) -> float:
    """`rtol` as a number that the precision can reach."""
    tolerance = check_number("rtol", rtol, above=0.0, below=1.0)
    if tolerance < 100 * eps:
        raise ValueError(f"rtol must be at least {100 * eps:.1e}, 100 times the precision of x, got {tolerance:g}")
    return tolerance


def common(**arrays: Array) -> tuple[Namespace, list[Array]]:
    """The namespace of the arrays, and the arrays in the dtype that holds them all."""
    xp = namespace(**arrays)
    checked = [floating(name, x, allow_complex=True, check_finite=False) for name, x in arrays.items()]
    dtype = xp.result_type(*checked)
    return xp, [xp.astype(x, dtype, copy=False) for x in checked]
