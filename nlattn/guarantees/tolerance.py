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
        What was held against `rtol`: the estimated relative Frobenius error, or for "rows" the 95 % quantile bound of
        the row errors over the rms row norm. 0 where everything is exact.
    method : NumPy array of str, shape (..., heads)
    budget : NumPy array of int, shape (..., heads)
        Of the method's first budget argument; 0 for exact attention.
    certificate : Certificate or None
        From fresh rows, on which the choice was checked; None where every head is exact.
    tried : tuple of Attempt
    """

    output: Any = field(repr=False)
    error: Any
    method: Any
    budget: Any
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

    A few rows are computed exactly and candidates are tried on them. For each head the cheapest that passes is checked
    on fresh rows; what fails there is replaced by a larger budget, and then by exact attention.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    rtol : float, default 1e-2
        At least 8 eps of the dtype.
    criterion : {"frobenius", "rows"}, default "frobenius"
        "frobenius": \\|output - exact\\| <= rtol \\|exact\\|, accepted where the upper limit of the estimate is below
        0.8 rtol. "rows": at least 95 % of the rows within rtol of the root mean square row norm, by a rigorous bound
        of the quantile.
    per_head : bool, default False
        Whether `rtol` holds for each head, or for each batch element over all its heads.
    lookahead : bool, default True
        With `is_causal`: whether methods may be used whose selection looks at future keys. Their output is checked
        against exact causal attention like any other.
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
    The Frobenius criterion rests on an estimate: over real heads it holds in more than 99 % of the calls, but rare bad
    rows can hide from any sample. The checks of one batch element (of one head with `per_head`) share a failure
    probability of 1 %. Where `rtol` is at least 1e-3 the sampled rows are computed in float32.

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
