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
        The number of landmarks of the queries and of the keys, at least 1. With min(L, S) or more the result is exact
        attention.
    selection : {"segments", "random", "kmeans"}, default "segments"
        Landmarks are the means of segments of consecutive tokens of nearly equal length (the first ones may be one
        shorter), a sample of the tokens, or k-means centres that start from such a sample. Masked keys are left out.
    pinv : {"svd", "iter"}, default "svd"
        "svd" drops the singular values below ``rcond`` times the largest, in float64. "iter" is the iteration of the
        paper, started for each matrix by itself. It cuts small singular values off smoothly and gives no
        pseudo-inverse; see Notes.
    rcond : float, default 1e-3
        Between 0 and 1. Only for "svd".
    iterations : int, default 6
        Only for "iter": 1 to 14, or to 31 for float64 input. With more, rounding errors outgrow the result.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis: boolean, or floating (-inf masks, finite values are log-weights).
        Where L = S, masked tokens are also left out of the query landmarks.
    is_causal : bool
        Refused, since landmarks pool future tokens, and the pseudo-inverse mixes them into all rows.
    scale : float, default E ** -0.5
    rng : None, int, SeedSequence or Generator, default None
        Only for "random" and "kmeans".
    return_rank : bool, default False
        Also return the number of singular values that were kept.
    check_finite : bool, default True

    Returns
    -------
    out : array, shape (..., heads, L, Ev)
        It may leave the hull of the values: weights can be negative and need not sum to 1.
    rank : integer array, shape (..., heads)
        Only with `return_rank`. For "iter" the number of landmarks in use, for exact attention min(L, S).

    Raises
    ------
    NotImplementedError
        For `is_causal`, and for masks that differ between queries.

    Notes
    -----
    Source: arXiv 2102.03902, without its learned convolution. Departures: the pseudo-inverse is cut off (an iteration
    that runs to convergence amplifies noise), segments may be uneven, means leave masked tokens out, and the start of
    the iteration does not depend on other heads or batch elements.

    More landmarks can make the error larger where the core is ill-conditioned: on sharp heads it was 0.6 with 64
    landmarks and 1.2 with 128. Certify the output, and raise `rcond` there. With E = I - A Z for the core A, the step
    of the iteration is E <- (3 E^3 + E^4) / 4, which inverts a direction of singular value s only if s^2 is above about
    3.25^-iterations times |A|_1 |A|_inf. Bounds: ``pseudo_inverse_iteration``.

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
    """Key landmarks, and the values that they stand for.

    Attributes
    ----------
    key : array, shape (B, G, m, E)
    value : array, shape (B, H, m, Ev)
        The pseudo-inverse of the core times the exact outputs of the query landmarks.
    bias : array, shape (B, G, m)
        -inf for landmarks that are not in use, otherwise 0.
    rank : integer array, shape (B, H)
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
        """Landmarks by segments draw nothing."""
        return replace(self.record, deterministic=self.selection == "segments")

    def check(self, problem: Problem) -> None:
        """Refuse so many iterations that their rounding errors would outgrow the result."""
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
        found = SELECTIONS[self.selection](problem, self.landmarks, rng)
        query, key = (xp.astype(x, dtype, copy=False) for x in (found.query, found.key))
        # The right factor is the exact attention of the query landmarks over all keys.
        edge = xp.full((b, h, self.landmarks), s, dtype=xp.int64, device=problem.start.device)
        own = xp.astype(query, problem.query.dtype, copy=False)
        right = interval_attention(replace(problem, query=own, start=xp.zeros_like(edge), stop=edge)).out
        # The core and what it joins, in float64, for each head by itself.
        rcond = None if self.pinv == "iter" else self.rcond
        joined, rank = over_matrices(
            query,
            repeat_heads(key, h),
            found.query_used,
            repeat_heads(found.key_used, h),
            right,
            function=partial(join_factors, scale=problem.scale, rcond=rcond, iterations=self.iterations),
        )
        bias = xp.where(found.key_used, xp.zeros_like(key[..., 0]), -xp.inf)
        return _State(key, joined, bias, rank)

    def apply(self, state: _State, rows: Problem) -> Array:
        """Attention of the rows over the key landmarks with the values that they stand for."""
        return attend_to_landmarks(rows, state.key, state.value, state.bias)


def _rank(problem: Problem, state: _State | None) -> Array:
    """The rank of each head; for exact attention the number of queries or of keys, whichever is smaller."""
    if state is not None:
        return state.rank
    b, h, _, length, s = problem.shape
    return problem.xp.full((b, h), min(length, s), dtype=problem.xp.int64, device=problem.start.device)
