"""Attention over the largest scores of each row."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nlattn.arrays.host import stop_gradient
from nlattn.arrays.typing import Array
from nlattn.attend.own_keys import attend_to
from nlattn.kernels.choose_largest import choose_largest
from nlattn.methods.method import Method, run
from nlattn.methods.record import Budget, Record
from nlattn.problem.partials import Partial, concat_rows
from nlattn.problem.problem import Problem
from nlattn.problem.scores import hide, products, row_tiles

__all__ = ["TopK", "topk_attention"]


def topk_attention(
    query: Array,
    key: Array,
    value: Array,
    top_k: int = 256,
    *,
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention of each query over the `top_k` keys with its largest scores.

    No other choice of as many keys for each query holds more softmax mass, so this is what other selections are
    measured against. It is not meant to be fast: all scores are computed, a few rows at a time.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    top_k : int, default 256
        At least 1. A query that may see fewer keys sees them all. With S or more it is exact attention.
    attn_mask, is_causal, scale, check_finite
        As for `exact_attention`. A floating mask is part of the scores by which keys are chosen.
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp over the chosen keys.

    Returns
    -------
    out : array, shape (..., heads, L, Ev)

    Notes
    -----
    Where scores are equal, the key that comes first is chosen; where they differ by rounding alone, another array
    library may choose another key. If eps is the softmax mass of the keys that are not chosen, the output is off by
    exactly ``eps (out - out of those keys)``. Gradients take the choice as constant. The cost is L S E multiplications
    and the selection, in memory linear in the length. The choice is that of arXiv 2106.06899, and a limit for methods
    such as arXiv 2406.02542. Bounds: ``dropped_mass``, ``dropped_mass_identity``.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> sample = nlattn.datasets.load("smollm2")
    >>> q, k, v = (x[:1, :512] for x in (sample.query, sample.key, sample.value))
    >>> exact = nlattn.exact_attention(q, k, v, is_causal=True)
    >>> out = nlattn.topk_attention(q, k, v, 64, is_causal=True)
    >>> bool(np.linalg.norm(out - exact) < 0.1 * np.linalg.norm(exact))
    True
    """

    return run(
        TopK(top_k),
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        return_lse=return_lse,
        check_finite=check_finite,
    )


@dataclass(frozen=True)
class TopK(Method[Array]):
    """See `topk_attention`."""

    record = Record(
        name="topk",
        family="sparse",
        paper="2106.06899",
        principle="the keys with the largest scores of each query",
        # To select from scores costs about as much as 128 multiplications for each of them.
        cost=lambda n, top_k: n.L * n.S * (n.E + 128) + n.L * top_k * (n.E + n.Ev),
        exact_at=lambda n, top_k: top_k >= n.S,
        causal="strict",
        masks="any",
        budgets=(Budget(name="top_k", ladder=(32, 64, 128, 256, 512), unit="keys"),),
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=True,
        deterministic=True,
        probe="rows",
        bounds=("dropped_mass", "dropped_mass_identity"),
    )

    top_k: int = 256

    def prepare(self, problem: Problem, rng: np.random.Generator) -> Array:
        """The keys in the dtype of the scores, without gradient."""
        return problem.xp.astype(stop_gradient(problem.key), problem.accumulator, copy=False)

    def apply(self, state: Array, rows: Problem) -> Partial:
        """For a tile of rows at a time: all scores, a choice, and attention over the chosen keys."""
        xp = rows.xp
        parts = []
        for tile in row_tiles(rows):
            query = xp.astype(stop_gradient(tile.query), rows.accumulator, copy=False) * rows.scale
            keys = tile.key.shape[2]
            scores = hide(tile, products(tile, query, state[:, :, :keys, :]))
            values, index = choose_largest(scores, min(self.top_k, keys))
            parts.append(attend_to(tile, index, values != -xp.inf))
        return concat_rows(parts)
