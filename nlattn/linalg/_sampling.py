"""Sampling by importance."""

import math
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_integer, floating
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.guards import nonzero
from nlattn.arrays.host import to_float
from nlattn.arrays.random import generator, moved, weighted_draws
from nlattn.arrays.typing import Array, DType, RngLike
from nlattn.kernels.top_k import top_k

__all__ = ["Sample", "importance_sample"]


class Sample(NamedTuple):
    """Items and what each stands for: ``sum_i f_i`` is estimated by ``sum_s exp(log_weight[s]) f[index[s]]``, unbiased.

    Attributes
    ----------
    index : integer array, shape (size,)
    log_weight : array, shape (size,)
        To be added to the scores of sampled keys.
    """

    index: Array  # type: ignore[assignment]  # which hides the method `index` of tuples
    log_weight: Array


@on_numpy
def importance_sample(weights: Array, size: int, *, replace: bool = True, rng: RngLike = None) -> Sample:
    """Draw items with probabilities proportional to weights.

    Parameters
    ----------
    weights : array, shape (n,)
        Finite and not negative, with a positive sum; float32 is enough, sums are formed in float64.
    size : int
        m. Without replacement there may be fewer positive weights: then all of those are returned, each for itself.
    replace : bool, default True
        True: independent draws, and log-weights ``-log(m p)``. False: priority sampling (arXiv cs/0509026), distinct
        items, each with the log-weight ``log(max(w, t) / w)`` for a threshold t.
    rng : None, int, SeedSequence or Generator, optional

    Returns
    -------
    Sample
        ``index`` and ``log_weight``. An item of weight 0 is never drawn.

    Notes
    -----
    ``nlattn.bounds``: ``sampled_product_error``, ``leverage_sampling``; for sampled keys of attention
    ``normaliser_variance``, ``normaliser_deviation`` and ``ratio_variance``.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> index, log_weight = nlattn.importance_sample(np.array([0.0, 3.0, 1.0]), 2, replace=False, rng=0)
    >>> sorted(index.tolist()), log_weight.tolist()
    ([1, 2], [0.0, 0.0])
    """
    weights = floating("weights", weights, check_finite=False)
    xp = array_namespace(weights)
    if weights.ndim != 1:
        raise ValueError(f"weights must have one axis, got shape {tuple(weights.shape)}")
    size = check_integer("size", size, least=0)
    wide = xp.astype(weights, xp.float64)
    least, most = (to_float(xp.min(wide)), to_float(xp.max(wide))) if weights.shape[0] else (0.0, 0.0)
    # Half the difference does not overflow, unless for weights that are refused below as negative.
    if not math.isfinite(most - least / 2):
        raise ValueError(f"weights must be finite, got {most if math.isfinite(least) else least:g}; clean them")
    if least < 0:
        raise ValueError(f"weights must not be negative, got {least:g}")
    random = generator(rng)
    if size > 0 and most == 0:
        raise ValueError("weights must have a positive sum, got none above 0: there is nothing to draw")
    if not replace:
        return _by_priority(wide, size, random, weights.dtype)
    if size == 0:
        return Sample(xp.zeros((0,), dtype=xp.int64, device=weights.device), weights[:0])
    wide = wide / most
    index = weighted_draws(random, wide, size)
    log_weight = math.log(to_float(xp.sum(wide)) / size) - xp.log(xp.take(wide, index))
    return Sample(index, xp.astype(log_weight, weights.dtype))


def _by_priority(weights: Array, size: int, random: np.random.Generator, dtype: DType) -> Sample:
    """The items of the largest priorities ``weight / uniform``, compared by their logarithms."""
    xp = array_namespace(weights)
    used = weights > 0
    positive = int(xp.sum(xp.astype(used, xp.int64)))
    logs = xp.where(used, xp.log(nonzero(weights)), xp.full_like(weights, -math.inf))
    uniform = 1.0 - random.random(weights.shape[0])  # never 0
    kept = min(size, positive)
    priorities, index = top_k(logs - moved(np.log(uniform), weights), min(kept + 1, weights.shape[0]))
    threshold = to_float(priorities[kept]) if size < positive else -math.inf
    index = index[:kept]
    own = xp.take(logs, index)
    log_weight = xp.where(own > threshold, xp.zeros_like(own), threshold - own)
    return Sample(index, xp.astype(log_weight, dtype))
