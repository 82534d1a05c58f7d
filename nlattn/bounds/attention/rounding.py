"""Rounding errors of softmax means."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Measured
from nlattn.dispatch import use_backend
from nlattn.methods.exact import exact_attention
from nlattn.problem.partials import Partial, merge_partials

__all__ = ["merge_rounding", "online_softmax_rounding"]

#: Relative error of exp, in units of the unit roundoff: NumPy's in float32 reaches 3.6 on [-80, 0].
EXP_ERROR = 4
#: Unit roundoff of float32.
UNIT = 2.0**-24
ROUNDED = "u is the unit roundoff; sums, products and quotients round to nearest, without underflow that matters"


@bound(
    "always",
    "|o' - o| <= 2 c/(1 - c) max |o_t|, c = 1.02 (T + 3 + x + ln T) u, o' the merge of T parts in floating point",
    hypotheses=(
        ROUNDED,
        "exp has a relative error of at most x u; u max |lse_t - max lse| <= 1/100 for the log-masses; c <= 1/50",
    ),
    source="Standard rounding analysis, with the entropy bound sum_t p_t |log p_t| <= ln T",
)
def merge_rounding(outputs: NDArray[Any], unit: float, exp_error: float = EXP_ERROR) -> float:
    """Rounding error of merging partial attentions.

    Parameters
    ----------
    outputs : array, shape (T, ...)
        The outputs of the parts for one row.
    unit : float
        u: 2^-24 in float32, 2^-53 in float64.
    exp_error : float, default 4
        x.

    Returns
    -------
    float
        A bound of the error of each entry; inf where c > 1/50.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.merge_rounding(np.ones((2, 3)), 2.0**-24) < 2e-6
    True
    """
    return _limit(len(outputs), len(outputs) + 3 + exp_error, unit, float(np.max(np.abs(outputs))))


@experiment(merge_rounding, trials=300, band=(0.005, 1.0))
def merge_rounding_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    count = int(rng.integers(2, 9))
    outs = rng.standard_normal((count, 1, 6)).astype(np.float32)
    lses = (3 * rng.standard_normal((count, 1)) + 20 * rng.integers(0, 2)).astype(np.float32)
    merged = merge_partials(*(Partial(o, lse) for o, lse in zip(outs, lses, strict=True))).out
    weights = np.exp(lses.astype(np.float64) - np.max(lses))
    exact = np.sum(weights[..., None] * outs, axis=0) / np.sum(weights, axis=0)[..., None]
    return np.max(np.abs(merged - exact)), merge_rounding(outs, UNIT)


@bound(
    "always",
    "|o' - o| <= 2 c/(1 - c) max |v_j|, c = 1.02 (b + 3 + 3 B + (B + 1) x + ln S) u, o' by online softmax, B blocks "
    "of at most b keys",
    hypotheses=(
        ROUNDED,
        "exp has a relative error of at most x u; u max |s_j - max s| <= 1/100; c <= 1/50",
        "the scores s_j are taken as given",
    ),
    source="Standard rounding analysis, with the entropy bound sum_j p_j |log p_j| <= ln S",
)
def online_softmax_rounding(
    values: NDArray[Any], block: int, blocks: int, unit: float, exp_error: float = EXP_ERROR
) -> float:
    """Rounding error of attention that streams over blocks of keys, with a running maximum.

    Parameters
    ----------
    values : array, shape (S, Ev)
    block, blocks : int
        b and B. Within a block sums may be formed in any order.
    unit : float
        u: 2^-24 in float32, 2^-53 in float64.
    exp_error : float, default 4
        x.

    Returns
    -------
    float
        A bound of the error of each entry; inf where c > 1/50. The error of the scores themselves comes on top, see
        `logit_perturbation`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.online_softmax_rounding(np.ones((1000, 3)), 250, 4, 2.0**-24) < 4e-5
    True
    """
    operations = block + 3 + 3 * blocks + (blocks + 1) * exp_error
    return _limit(len(values), operations, unit, float(np.max(np.abs(values))))


@experiment(online_softmax_rounding, trials=300, band=(1e-4, 1.0))
def online_softmax_rounding_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    count = int(rng.integers(300, 1500))
    # With one feature and the query 1 the scores are the keys, without rounding.
    keys = (4 * rng.standard_normal((count, 1))).astype(np.float32)
    values = rng.standard_normal((count, 3)).astype(np.float32)
    # The generic backend takes blocks of 1024 keys.
    with use_backend("generic"):
        out = exact_attention(np.ones((1, 1), np.float32), keys, values, scale=1.0)
    weights = np.exp(keys[:, 0].astype(np.float64) - np.max(keys))
    exact = weights @ values / np.sum(weights)
    return np.max(np.abs(out - exact)), online_softmax_rounding(values, min(count, 1024), -(-count // 1024), UNIT)


def _limit(count: int, operations: float, unit: float, size: float) -> float:
    """2 c/(1 - c) times the size of what is averaged, for c = 1.02 (operations + ln count) u."""
    # The factor 1.02 pays for products of errors, as long as the errors add up to at most 1/100 + 1/50.
    c = 1.02 * (operations + math.log(count)) * unit
    return 2 * c / (1 - c) * size if c <= 1 / 50 else math.inf
