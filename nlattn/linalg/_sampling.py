"""Sampling by importance, and products of matrices from samples."""

import math
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice, check_integer, floating, matrix
from nlattn.arrays.host import to_float
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.precision import real_dtype
from nlattn.arrays.random import generator, moved, weighted
from nlattn.kernels.top_k import top_k
from nlattn.linalg._leverage import row_norms
from nlattn.linalg._operators import adjoint

__all__ = ["Sample", "importance_sample", "product_probabilities", "sampled_product"]


class Sample(NamedTuple):
    """Items and what each stands for: ``sum_i f_i`` is estimated by ``sum_s exp(log_weight[s]) f[index[s]]``, unbiased.

    Attributes
    ----------
    index : integer array, shape (size,)
    log_weight : array, shape (size,)
        To be added to the scores of sampled keys.
    """

    index: Any
    log_weight: Any


def importance_sample(weights: Any, size: int, *, replace: bool = True, rng: Any = None) -> Sample:
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
    if not math.isfinite(most - least / 2):  # which does not overflow, but for weights that are negative
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
    index = weighted(random, wide, size)
    log_weight = math.log(to_float(xp.sum(wide)) / size) - xp.log(xp.take(wide, index))
    return Sample(index, xp.astype(log_weight, weights.dtype))


def _by_priority(weights: Any, size: int, random: np.random.Generator, dtype: Any) -> Sample:
    xp = array_namespace(weights)
    used = weights > 0
    positive = int(xp.sum(xp.astype(used, xp.int64)))
    logs = xp.where(used, xp.log(xp.where(used, weights, xp.ones_like(weights))), xp.full_like(weights, -math.inf))
    uniform = 1.0 - random.random(weights.shape[0])  # never 0
    kept = min(size, positive)
    priorities, index = top_k(logs - moved(np.log(uniform), weights), min(kept + 1, weights.shape[0]))
    threshold = to_float(priorities[kept]) if size < positive else -math.inf
    index = index[:kept]
    own = xp.take(logs, index)
    log_weight = xp.where(own > threshold, xp.zeros_like(own), threshold - own)
    return Sample(index, xp.astype(log_weight, dtype))


def product_probabilities(a: Any, b: Any, kind: str = "optimal") -> Any:
    """Probabilities with which to sample the terms of ``a @ b``, column of `a` times row of `b`.

    Parameters
    ----------
    a : array, shape (m, n)
    b : array, shape (n, p)
    kind : {"optimal", "rows", "uniform"}, default "optimal"
        Proportional to ``|a_i| |b_i|``, which is the best for the Frobenius norm; to ``|b_i|^2``, which needs `b`
        alone; or equal.

    Returns
    -------
    array, shape (n,)
        Uniform where all terms vanish.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import product_probabilities
    >>> product_probabilities(np.array([[1.0, 1.0]]), np.array([[3.0], [1.0]]))
    array([0.75, 0.25])
    """
    xp = namespace(a=a, b=b)
    a, b = _factors(a, b)
    check_choice("kind", kind, ("optimal", "rows", "uniform"))
    rows = _relative(row_norms(b))
    if kind == "optimal":
        weights = _relative(_relative(row_norms(adjoint(a))) * rows)
    else:
        weights = rows * rows if kind == "rows" else xp.ones_like(rows)
    if rows.shape[0] == 0:
        return xp.astype(weights, real_dtype(xp, a.dtype))
    total = xp.sum(weights)
    if not to_float(total) > 0:
        weights, total = xp.ones_like(weights), weights.shape[0]
    return xp.astype(weights / total, real_dtype(xp, a.dtype))


def sampled_product(a: Any, b: Any, size: int, *, kind: str = "optimal", rng: Any = None) -> Any:
    """An unbiased estimate of ``a @ b`` from some of its terms.

    Parameters
    ----------
    a : array, shape (m, n)
    b : array, shape (n, p)
        Real or complex.
    size : int
        Terms, drawn with replacement, at least 1.
    kind : {"optimal", "rows", "uniform"}, default "optimal"
        As in `product_probabilities`.
    rng : None, int, SeedSequence or Generator, optional

    Returns
    -------
    array, shape (m, p)

    Notes
    -----
    Its mean squared error is known exactly: ``sampled_product_error`` in ``nlattn.bounds`` (Drineas, Kannan and
    Mahoney, DOI 10.1137/S0097539704442684); ``sampled_attention_spectral`` for softmax weights and "rows". Costs
    m size p, and m n for "optimal".

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import sampled_product
    >>> sampled_product(np.ones((1, 4)), np.ones((4, 1)), 2, rng=0)
    array([[4.]])
    """
    size = check_integer("size", size)
    probabilities = product_probabilities(a, b, kind)
    a, b = _factors(a, b)
    xp = array_namespace(a)
    if a.shape[1] == 0:
        return a @ b
    index, log_weight = importance_sample(probabilities, size, rng=rng)
    return (xp.take(a, index, axis=1) * xp.astype(xp.exp(log_weight), a.dtype)[None, :]) @ xp.take(b, index, axis=0)


def _relative(norms: Any) -> Any:
    most = to_float(array_namespace(norms).max(norms)) if norms.shape[0] else 0.0
    return norms / most if most > 0 else norms


def _factors(a: Any, b: Any) -> tuple[Any, Any]:
    a, b = matrix("a", a, allow_complex=True), matrix("b", b, allow_complex=True)
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a and b must match in the middle, got shapes {tuple(a.shape)} and {tuple(b.shape)}")
    if a.dtype != b.dtype:
        raise TypeError(f"a and b must share one dtype, got {a.dtype} and {b.dtype}; convert one")
    return a, b
