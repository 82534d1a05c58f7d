"""Nystrom attention: softmax against landmarks, joined by a pseudo-inverse."""

import math
import numbers
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_integer
from nlattn.arrays.random import children
from nlattn.attend.intervals import attend
from nlattn.kernels.over_matrices import over_matrices
from nlattn.kernels.softmax_attention import softmax_attention
from nlattn.linalg._pseudo_inverse import iterated_inverse, solve_truncated
from nlattn.problem.arguments import prepare, refuse_causal
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.landmarks import kmeans_landmarks, random_landmarks, segment_landmarks

__all__ = ["nystrom_attention"]

SELECTIONS = {"segments": segment_landmarks, "random": random_landmarks, "kmeans": kmeans_landmarks}


def nystrom_attention(
    query: Any,
    key: Any,
    value: Any,
    landmarks: int = 64,
    *,
    selection: Literal["segments", "random", "kmeans"] = "segments",
    pinv: Literal["svd", "iter"] = "svd",
    rcond: float = 1e-3,
    iterations: int = 6,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: Any = None,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """Attention of rank `landmarks`: softmax(Q K~^T) pinv(softmax(Q~ K~^T)) softmax(Q~ K^T) V.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    landmarks : int, default 64
        Landmarks of the queries and of the keys, at least 1. From min(L, S) on the result is exact attention.
    selection : {"segments", "random", "kmeans"}, default "segments"
        Means of contiguous segments of nearly equal length (the first ones one shorter), a sample of the tokens, or
        k-means centres that start from such a sample. Masked keys are left out.
    pinv : {"svd", "iter"}, default "svd"
        "svd" drops the singular values below ``rcond`` times the largest, in float64. "iter" is the paper's
        iteration, started for each matrix by itself: a smooth cut-off, not a pseudo-inverse; see Notes.
    rcond : float, default 1e-3
        In (0, 1). For "svd".
    iterations : int, default 6
        For "iter": 1 to 14, or 31 for float64 input. Beyond that rounding errors have grown past the result.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis: boolean, or floating (-inf masks, finite values are log-weights).
        Where L = S, masked tokens are also left out of the query landmarks.
    is_causal : bool
        Refused: landmarks pool future tokens, and the pseudo-inverse mixes them into all rows.
    scale : float, default E ** -0.5
    rng : None, int, SeedSequence or Generator, default None
        For "random" and "kmeans".
    return_rank : bool, default False
        Also return the number of singular values that were kept.
    check_finite : bool, default True

    Returns
    -------
    out : array, shape (..., heads, L, Ev)
        May leave the hull of the values: its weights can be negative and need not sum to 1.
    rank : integer array, shape (..., heads)
        With `return_rank`; for "iter" the number of landmarks in use, for exact attention min(L, S).

    Raises
    ------
    NotImplementedError
        For `is_causal`, and for masks that differ between queries.

    Notes
    -----
    Source: arXiv 2102.03902, without its learned convolution. Departures: the cut-off pseudo-inverse (one run to
    convergence amplifies noise), uneven segments, masked means, and a start of the iteration that does not depend on
    other heads or batch elements. More landmarks can make it worse where the core is ill-conditioned (seen on sharp
    heads: error 0.6 at 64, 1.2 at 128): certify the output, and raise `rcond`. With E = I - A Z the iteration is
    E <- (3 E^3 + E^4) / 4: a direction of singular value s is inverted only if s^2 is above about 3.25^-iterations of
    |A|_1 |A|_inf. Bounds: ``pseudo_inverse_iteration``.

    Examples
    --------
    >>> import nlattn
    >>> sample = nlattn.datasets.load("minilm")
    >>> out = nlattn.nystrom_attention(sample.query, sample.key, sample.value, 64)
    >>> error = nlattn.certify(out, sample.query, sample.key, sample.value, rng=0).pooled
    >>> bool(error.upper < 0.3 < error.baseline)
    True
    """
    landmarks = check_integer("landmarks", landmarks)
    refuse_causal("nystrom_attention", is_causal, "landmarks pool future tokens; use streaming_attention")
    problem = prepare(
        "nystrom_attention",
        query,
        key,
        value,
        attn_mask=attn_mask,
        scale=scale,
        masks="keys",
        check_finite=check_finite,
    )
    state = _prepare(problem, landmarks, selection=selection, pinv=pinv, rcond=rcond, iterations=iterations, rng=rng)
    out = problem.output(_apply(state, problem).out)
    if not return_rank:
        return out
    b, h, _, length, s = problem.shape
    full = problem.xp.full((b, h), min(length, s), dtype=problem.xp.int64, device=problem.start.device)
    return out, problem.per_head(full if state is None else state.rank)


class _State(NamedTuple):
    """Key landmarks and what is attached to them: out = softmax_attention(query, key, value, bias)."""

    key: Any
    value: Any
    bias: Any
    rank: Any


def _prepare(
    problem: Problem,
    landmarks: int,
    *,
    selection: str = "segments",
    pinv: str = "svd",
    rcond: float = 1e-3,
    iterations: int = 6,
    rng: Any = None,
) -> _State | None:
    """None where the landmarks are all tokens: exact attention."""
    xp = problem.xp
    b, h, g, length, s = problem.shape
    children(rng, 0)  # an rng that is not needed must still be one
    if selection not in tuple(SELECTIONS):
        raise ValueError(f"selection must be one of {', '.join(map(repr, SELECTIONS))}, got {selection!r}")
    if pinv not in ("svd", "iter"):
        raise ValueError(f"pinv must be 'svd' or 'iter', got {pinv!r}")
    if not isinstance(rcond, numbers.Real) or not 0 < rcond < 1:
        raise ValueError(f"rcond must lie between 0 and 1, got {rcond!r}")
    check_integer("iterations", iterations)
    most = math.floor(-math.log(xp.finfo(problem.accumulator).eps / 2) / math.log(3.25))
    if pinv == "iter" and iterations > most:
        raise ValueError(
            f"iterations must be at most {most} for {problem.query.dtype}, got {iterations}: "
            "rounding errors grow by 3.25 each; use pinv='svd'"
        )
    if landmarks >= min(length, s):
        return None
    q, q_used, k, k_used = SELECTIONS[selection](problem, landmarks, rng)
    dtype = problem.accumulator
    q_few, k_few = xp.astype(q, dtype, copy=False), xp.astype(k, dtype, copy=False)

    # Right factor: the query landmarks' exact attention over all keys.
    edge = xp.full((b, h, landmarks), s, dtype=xp.int64, device=problem.start.device)
    right = attend(
        replace(problem, query=xp.astype(q_few, problem.query.dtype, copy=False), start=xp.zeros_like(edge), stop=edge)
    ).out

    # The core and what it joins, in float64, for each head by itself.
    def per_head(array: Any) -> Any:
        own = array.shape[2:]
        wide = xp.broadcast_to(xp.reshape(array, (b, g, 1, *own)), (b, g, h // g, *own))
        return xp.reshape(wide, (b, h, *own))

    joined, rank = over_matrices(
        q_few,
        per_head(k_few),
        q_used,
        per_head(k_used),
        right,
        function=partial(_join, scale=problem.scale, rcond=None if pinv == "iter" else rcond, iterations=iterations),
    )
    bias = xp.where(k_used, xp.zeros_like(k_few[..., 0]), -xp.inf)
    return _State(k_few, joined, bias, rank)


def _join(
    q: Any, k: Any, q_used: Any, k_used: Any, right: Any, *, scale: float, rcond: float | None, iterations: int
) -> tuple[Any, Any]:
    """pinv(softmax(scale q k^T)) @ right without rows and columns of unused landmarks, and the rank."""
    xp = array_namespace(q, k)
    scores = scale * (xp.astype(q, xp.float64) @ xp.matrix_transpose(xp.astype(k, xp.float64)))
    scores = xp.where(k_used[..., None, :], scores, -xp.inf)
    top = xp.max(scores, axis=-1, keepdims=True)
    core = xp.exp(scores - xp.where(top == -xp.inf, xp.zeros_like(top), top))
    total = xp.sum(core, axis=-1, keepdims=True)
    core = core / xp.where(total == 0, xp.ones_like(total), total)
    core = xp.where(q_used[..., None], core, xp.zeros_like(core))
    wide = xp.astype(right, xp.float64)
    wide = xp.where(q_used[..., None], wide, xp.zeros_like(wide))
    if rcond is not None:
        joined, rank = solve_truncated(core, wide, rcond)
    else:
        inverse = iterated_inverse(xp.astype(core, right.dtype), iterations)
        joined = xp.astype(inverse, xp.float64) @ wide
        rank = xp.sum(xp.astype(q_used, xp.int64), axis=-1)
    return xp.astype(joined, right.dtype), rank


def _apply(state: _State | None, rows: Problem) -> Partial:
    if state is None:
        return attend(rows)
    xp = rows.xp
    b, h, g, length, _ = rows.shape
    _, _, landmarks, e = state.key.shape
    ev = state.value.shape[3]
    # The joined values belong to a query head, the landmarks' keys to its group: the groups go to the batch.
    lead = (b * g, h // g)
    stop = xp.full((*lead, length), landmarks, dtype=xp.int64, device=rows.start.device)
    out, lse = softmax_attention(
        xp.reshape(xp.astype(rows.query, rows.accumulator, copy=False), (*lead, length, e)),
        xp.broadcast_to(xp.reshape(state.key, (b * g, 1, landmarks, e)), (*lead, landmarks, e)),
        xp.reshape(state.value, (*lead, landmarks, ev)),
        xp.zeros_like(stop),
        stop,
        scale=rows.scale,
        bias=xp.reshape(state.bias, (b * g, 1, 1, landmarks)),
    )
    return Partial(xp.reshape(out, (b, h, length, ev)), xp.reshape(lse, (b, h, length)))
