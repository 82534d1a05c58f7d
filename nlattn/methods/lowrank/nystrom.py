"""Nystrom attention: softmax against landmarks, joined by a pseudo-inverse."""

import math
import numbers
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from nlattn.arrays.arguments import check_integer
from nlattn.arrays.rows import repeat_heads
from nlattn.arrays.typing import Array, RngLike
from nlattn.attend.factors import attend_to_landmarks, join_factors
from nlattn.attend.intervals import interval_attention
from nlattn.kernels.over_matrices import over_matrices
from nlattn.methods.method import Method, run
from nlattn.methods.record import Budget, Record
from nlattn.problem.problem import Problem
from nlattn.select.landmarks import kmeans_landmarks, random_landmarks, segment_landmarks

__all__ = ["Nystrom", "nystrom_attention"]

Selection = Literal["segments", "random", "kmeans"]
Inverse = Literal["svd", "iter"]

SELECTIONS = {"segments": segment_landmarks, "random": random_landmarks, "kmeans": kmeans_landmarks}


def nystrom_attention(
    query: Array,
    key: Array,
    value: Array,
    landmarks: int = 64,
    *,
    selection: Selection = "segments",
    pinv: Inverse = "svd",
    rcond: float = 1e-3,
    iterations: int = 6,
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: RngLike = None,
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

    method = Nystrom(landmarks, selection=selection, pinv=pinv, rcond=rcond, iterations=iterations)
    return run(
        method,
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        rng=rng,
        check_finite=check_finite,
        also=_rank if return_rank else None,
    )


class _State(NamedTuple):
    """Key landmarks and what they stand for.

    key (B, G, m, E); value (B, H, m, Ev), what the pseudo-inverse makes of the values; bias (B, G, m), -inf for
    landmarks that are not in use; rank (B, H).
    """

    key: Array
    value: Array
    bias: Array
    rank: Array


@dataclass(frozen=True)
class Nystrom(Method[_State]):
    """See `nystrom_attention`."""

    record = Record(
        name="nystrom",
        family="lowrank",
        paper="2102.03902",
        principle="softmax against landmarks, joined by a pseudo-inverse",
        cost=lambda n, landmarks: (n.L + n.S) * landmarks * (n.E + n.Ev) + 60 * landmarks**3,
        exact_at=lambda n, landmarks: landmarks >= n.shorter,
        causal=None,
        masks="keys",
        instead="landmarks pool future tokens; use streaming_attention",
        budgets=(Budget(name="landmarks", ladder=(16, 32, 64, 128, 256), unit="keys"),),
        rows_sum_to_one=False,
        convex=False,
        key_permutation=False,
        deterministic=True,
        probe="rows",
        searched=True,
        bounds=("pseudo_inverse_iteration",),
    )

    landmarks: int = 64
    selection: Selection = "segments"
    pinv: Inverse = "svd"
    rcond: float = 1e-3
    iterations: int = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.rcond, numbers.Real) or not 0 < self.rcond < 1:
            raise ValueError(f"rcond must lie between 0 and 1, got {self.rcond!r}")
        check_integer("iterations", self.iterations)

    @property
    def claims(self) -> Record:
        """Only segments are not drawn."""
        return replace(self.record, deterministic=self.selection == "segments")

    def check(self, problem: Problem) -> None:
        """Refuse iterations whose rounding errors have grown past the result."""
        most = math.floor(-math.log(problem.xp.finfo(problem.accumulator).eps / 2) / math.log(3.25))
        if self.pinv == "iter" and self.iterations > most:
            raise ValueError(
                f"iterations must be at most {most} for {problem.query.dtype}, got {self.iterations}: "
                "rounding errors grow by 3.25 each; use pinv='svd'"
            )

    def prepare(self, problem: Problem, rng: np.random.Generator) -> _State:
        """The landmarks, the exact attention of the query landmarks, and what joins both."""
        xp, dtype = problem.xp, problem.accumulator
        b, h, _, _, s = problem.shape
        q, q_used, k, k_used = SELECTIONS[self.selection](problem, self.landmarks, rng)
        q_few, k_few = (xp.astype(x, dtype, copy=False) for x in (q, k))
        # The right factor is the query landmarks' exact attention over all keys.
        edge = xp.full((b, h, self.landmarks), s, dtype=xp.int64, device=problem.start.device)
        own = xp.astype(q_few, problem.query.dtype, copy=False)
        right = interval_attention(replace(problem, query=own, start=xp.zeros_like(edge), stop=edge)).out
        # The core and what it joins, in float64, for each head by itself.
        rcond = None if self.pinv == "iter" else self.rcond
        joined, rank = over_matrices(
            q_few,
            repeat_heads(k_few, h),
            q_used,
            repeat_heads(k_used, h),
            right,
            function=partial(join_factors, scale=problem.scale, rcond=rcond, iterations=self.iterations),
        )
        bias = xp.where(k_used, xp.zeros_like(k_few[..., 0]), -xp.inf)
        return _State(k_few, joined, bias, rank)

    def apply(self, state: _State, rows: Problem) -> Array:
        """Attention of the rows over the landmarks, and the values that these stand for."""
        return attend_to_landmarks(rows, state.key, state.value, state.bias)


def _rank(problem: Problem, state: _State | None) -> Array:
    """The rank of each head: that of exact attention has as many landmarks as tokens."""
    if state is not None:
        return state.rank
    b, h, _, length, s = problem.shape
    return problem.xp.full((b, h), min(length, s), dtype=problem.xp.int64, device=problem.start.device)
