"""Attention to a tolerance."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nlattn.arrays.boundary import lend
from nlattn.arrays.typing import Array, RngLike
from nlattn.guarantees.certificate import Certificate
from nlattn.guarantees.search.candidates import Attempt
from nlattn.guarantees.search.choice import Criterion, Search
from nlattn.problem.arguments import checked_problem, one_dtype

__all__ = ["AttentionResult", "attention"]


@dataclass(frozen=True, kw_only=True)
class AttentionResult:
    """An output, the error that it was accepted with, and how it was found.

    Attributes
    ----------
    output : array, shape (..., heads, L, Ev)
    error : NumPy array, shape (...), or (..., heads) with `per_head`
        The error that was compared with `rtol`: the estimated relative Frobenius error, or for "rows" the bound of the
        95 % quantile of the row errors over the root mean square row norm. 0 where everything is exact.
    method : NumPy array of str, shape (..., heads)
    budget : NumPy array of int, shape (..., heads)
        The first budget of each head's method; 0 for exact attention.
    certificate : Certificate or None
        The certificate by the fresh rows on which the choice was checked; None if all heads are exact.
    tried : tuple of Attempt
    """

    output: Any = field(repr=False)
    error: np.ndarray
    method: np.ndarray
    budget: np.ndarray
    certificate: Certificate | None
    tried: tuple[Attempt, ...]


def attention(
    query: Array,
    key: Array,
    value: Array,
    rtol: float = 1e-2,
    *,
    criterion: Criterion = "frobenius",
    per_head: bool = False,
    lookahead: bool = True,
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: RngLike = None,
    check_finite: bool = True,
) -> AttentionResult:
    """Attention with a relative error of at most `rtol`, by the cheapest method that is found to reach it.

    A few rows are computed exactly, and candidates are tried on them. For each head the cheapest one that passes is
    checked on fresh rows. A head that fails there gets a larger budget, and then exact attention.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    rtol : float, default 1e-2
        At least 8 eps of the dtype.
    criterion : {"frobenius", "rows"}, default "frobenius"
        What has to hold. "frobenius": \\|output - exact\\| <= rtol \\|exact\\|, which is accepted if the upper limit of
        the estimate is below 0.8 rtol. "rows": the errors of at least 95 % of the rows are below rtol times the root
        mean square row norm, by a rigorous bound of the quantile.
    per_head : bool, default False
        Whether `rtol` is to hold for each head, or for each batch element over all its heads.
    lookahead : bool, default True
        Whether methods may be used whose selection looks at future keys, with `is_causal`. Their output is compared
        with exact causal attention like any other.
    attn_mask, is_causal, scale, check_finite
        As for `exact_attention`.
    rng : None, int, SeedSequence or Generator, default None

    Returns
    -------
    AttentionResult

    Raises
    ------
    ValueError
        For an `rtol` below 8 eps of the dtype, and as `exact_attention`.

    Notes
    -----
    The Frobenius criterion rests on an estimate. On real heads it held in more than 99 % of the calls, but rare bad
    rows can hide from any sample. All checks of one batch element, or of one head with `per_head`, share a failure
    probability of 1 %. Where `rtol` is at least 1e-3, the sampled rows are computed in float32.

    Examples
    --------
    >>> import nlattn
    >>> q, k, v = nlattn.datasets.load("smollm2")[:3]
    >>> result = nlattn.attention(q, k, v, rtol=0.3, is_causal=True, rng=0)
    >>> bool(result.error <= 0.3)
    True
    """
    lending = lend(query, key, value, attn_mask)
    if lending is not None and one_dtype(query, key, value):
        arrays = lending.arrays((query, key, value))
        found = attention(
            arrays[0],
            arrays[1],
            arrays[2],
            rtol,
            criterion=criterion,
            per_head=per_head,
            lookahead=lookahead,
            attn_mask=lending.arrays(attn_mask),
            is_causal=is_causal,
            scale=scale,
            rng=rng,
            check_finite=check_finite,
        )
        return replace(found, output=lending.tensors(found.output, query.dtype))
    problem = checked_problem(
        "attention",
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        check_finite=check_finite,
    )
    least = 8 * float(problem.xp.finfo(problem.query.dtype).eps)
    if not rtol >= least:
        raise ValueError(f"rtol must be at least {least:.1e} for {problem.query.dtype}, got {rtol!r}")
    if criterion not in ("frobenius", "rows"):
        raise ValueError(f"criterion must be 'frobenius' or 'rows', got {criterion!r}")
    search = Search(problem, float(rtol), criterion, per_head, lookahead, rng)
    sample = search.run()
    if sample is None:
        error = np.zeros((*problem.batch, problem.query.shape[1]) if per_head and problem.has_heads else problem.batch)
    else:
        scope = search.scope(sample)
        error = scope.error
        if criterion == "rows":
            error = scope.quantile(0.95) / np.where(scope.norm > 0, scope.norm, 1)
    shape = problem.query.shape[:2]
    method = np.array([[c.name if c else "exact" for c in row] for row in search.choice], dtype=str)
    budget = np.array([[c.budget if c else 0 for c in row] for row in search.choice], dtype=np.int64)
    return AttentionResult(
        output=problem.output(search.outputs.output),
        error=error,
        method=problem.per_head(method.reshape(shape)),
        budget=problem.per_head(budget.reshape(shape)),
        certificate=sample,
        tried=tuple(search.tried),
    )
