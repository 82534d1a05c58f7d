"""What attention loses that replaces clusters of keys by their moments."""

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.bounds.attention.cluster_remainders import distances, mass_limits, value_remainder
from nlattn.bounds.attention.cluster_trials import clustered_attention, score_differences
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Measured

__all__ = ["monopole_mass", "monopole_output", "monopole_share", "multipole_output"]

MOMENTS = "x_1, ..., x_N have mean 0, |x_j| <= r, and variance s^2"
SOURCE = "Bennett's extremal distribution; derived for the centroids of arXiv 2506.13059"


@bound(
    "always",
    "(1/N) sum_j e^x_j <= (s^2 e^r + r^2 e^(-s^2/r))/(r^2 + s^2) <= cosh(r) <= e^(r^2/2)",
    hypotheses=(MOMENTS,),
    source=SOURCE,
)
def monopole_mass(radius: Array, variance: Array | None = None) -> Array:
    """Softmax mass of a cluster of keys over that of as many keys in its centre.

    Parameters
    ----------
    radius : array
        r >= 0, at least the largest |x_j|; x_j is the difference of the scores of key j and of the centre.
    variance : array, optional
        s^2, or more. Without it the bound is cosh(r).

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.monopole_mass(np.asarray([1.0]), np.asarray([0.25])).round(3)
    array([1.167])
    """
    xp = array_namespace(radius)
    with np.errstate(over="ignore"):
        return 1 + xp.exp(radius) * mass_limits(radius, variance)[1]


@experiment(monopole_mass, band=(0.9, 1.0))
def monopole_mass_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x, radius = score_differences(rng)
    return np.mean(np.exp(x), axis=1), np.asarray(monopole_mass(radius, np.mean(x**2, axis=1)))


@bound(
    "always",
    "N / sum_j e^x_j <= (r^2 + s^2)/(s^2 e^-r + r^2 e^(s^2/r)) <= 1",
    hypotheses=(MOMENTS,),
    source=SOURCE,
)
def monopole_share(radius: Array, variance: Array | None = None) -> Array:
    """Softmax mass of keys in the centre of a cluster over that of the cluster, which is never less.

    Parameters
    ----------
    radius : array
        r >= 0, as in `monopole_mass`.
    variance : array, optional
        s^2, or less. Without it the bound is 1.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.monopole_share(np.asarray([1.0]), np.asarray([0.25])).round(3)
    array([0.908])
    """
    xp = array_namespace(radius)
    with np.errstate(over="ignore"):
        return 1 / (1 + xp.exp(radius) * mass_limits(radius, None, variance)[0])


@experiment(monopole_share, band=(0.9, 1.0))
def monopole_share_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x, radius = score_differences(rng)
    return 1 / np.mean(np.exp(x), axis=1), np.asarray(monopole_share(radius, np.mean(x**2, axis=1)))


@bound(
    "always",
    "||o' - o|| <= sum_c a_c (min(sinh r_c, s_c (e^r_c - 1)/r_c) rho_c + (B(r_c, s_c^2) - 1) ||v_c - o'||), "
    "B the bound of monopole_mass",
    hypotheses=(
        "o' has each cluster c replaced by its N_c keys in their mean, with the mean v_c of their values; a_c is its "
        "weight in o'; keys in no cluster are exact",
        "the scores of the keys differ from that of their mean by at most r_c, with a variance of at most s_c^2",
        "rho_c^2 is at least the largest eigenvalue of the covariance of the values of cluster c",
    ),
    source="Derived",
)
def monopole_output(
    log_weights: Array, radius: Array, spread: Array, centres: Array, out: Array, variance: Array | None = None
) -> Array:
    """Error of attention with clusters of keys replaced by their means, from what is known after the fact.

    Parameters
    ----------
    log_weights : array, shape (..., rows, clusters)
        log a_c: the score of the mean plus log N_c minus the log-sum-exp of the row; -inf for clusters that the row
        attends to key by key.
    radius : array, shape (..., rows, clusters)
        r_c, in which the bound grows exponentially: the largest difference of scores, or a limit of it such as
        ``scale * ||q||`` times the largest distance of a key from the mean, or (N_c - 1)^(1/2) s_c.
    spread : array, shape (..., clusters)
        rho_c. The root mean square distance of the values from their mean will do, and the largest one.
    centres : array, shape (..., clusters, Ev)
        v_c.
    out : array, shape (..., rows, Ev)
        o'.
    variance : array, shape (..., rows, clusters), optional
        s_c^2, or more: ``scale^2 q^T C q`` for the covariance C of the keys. Else r_c^2.

    Returns
    -------
    array, shape (..., rows)
        A bound of the 2-norm of the error of each output, rounding apart; inf where it overflows.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> log_weights, radius = np.log(np.asarray([[0.5]])), np.asarray([[0.1]])
    >>> centres, out = np.asarray([[1.0, 0.0]]), np.zeros((1, 2))
    >>> nlattn.bounds.monopole_output(log_weights, radius, np.asarray([2.0]), centres, out).round(4)
    array([0.1027])
    """
    return multipole_output(log_weights, radius, spread, centres, out, variance)


@experiment(monopole_output, band=(0.2, 0.6))
def monopole_output_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    error, arguments = clustered_attention(rng, 0)
    return error, np.asarray(monopole_output(**arguments))


@bound(
    "always",
    "||o' - o|| <= sum_c (a_c/g_c) (t_c rho_c + max(B_c - g_c, g_c - b_c) ||v_c - o'||) / (1 - h), "
    "h = sum_c a_c max(1 - b_c/g_c, 0) < 1, B_c and 1/b_c the bounds of monopole_mass and monopole_share, t_c the "
    "factor of rho_c in monopole_output, or with dipoles t_c = min(1/2, s_c/r_c) (e^r_c - 1 - r_c) + |g_c - 1| s_c",
    hypotheses=(
        "the weight of the mean of each cluster is multiplied by g_c > 0; with dipoles its value is v_c + "
        "mean_j x_j v_j, x_j the differences of the scores",
        "otherwise those of monopole_output; the weights a_c contain g_c",
    ),
    source="Derived",
)
def multipole_output(
    log_weights: Array,
    radius: Array,
    spread: Array,
    centres: Array,
    out: Array,
    variance: Array | None = None,
    least_variance: Array | None = None,
    log_factor: Array | None = None,
    dipole: bool = False,
) -> Array:
    """Error of attention with clusters of keys replaced by moments of higher order.

    Parameters
    ----------
    log_weights, radius, spread, centres, out, variance
        As in `monopole_output`; `centres` without the dipoles.
    least_variance : array, shape (..., rows, clusters), optional
        A lower limit of the variance of the scores in each cluster, for b_c. Else 0.
    log_factor : array, shape (..., rows, clusters), optional
        log g_c, such as one half of the variance. Else 0.
    dipole : bool, default False
        Whether the value of a cluster has the first-order term.

    Returns
    -------
    array, shape (..., rows)
        inf where the denominator is not positive.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> log_weights, radius = np.log(np.asarray([[0.5]])), np.asarray([[0.1]])
    >>> centres, out = np.asarray([[1.0, 0.0]]), np.zeros((1, 2))
    >>> nlattn.bounds.multipole_output(log_weights, radius, np.asarray([2.0]), centres, out, dipole=True).round(4)
    array([0.0051])
    """
    xp = array_namespace(log_weights, radius, spread, centres, out)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        least, most = mass_limits(radius, variance, least_variance)
        deviation = radius if variance is None else xp.minimum(xp.sqrt(variance), radius)
        first = value_remainder(radius, deviation, dipole=dipole)
        change = xp.zeros_like(radius)
        log_scale = log_weights + radius
        if log_factor is not None:
            # Factors above e^radius set the scale.
            shift = xp.clip(log_factor - radius, 0.0, None)
            damped = xp.exp(-shift)
            change = xp.exp(log_factor - radius - shift) - xp.exp(-radius) * damped
            first, most, least = first * damped, most * damped, least * damped
            log_scale = log_scale - log_factor + shift
            if dipole:
                first = first + xp.abs(change) * deviation
        scale = xp.exp(log_scale)
        terms = first * spread[..., None, :] + xp.maximum(most - change, change - least) * distances(out, centres)
        over = xp.clip(change - least, 0.0, None)
        # Where a term is 0 the scale may be inf.
        error, lost = (xp.sum(xp.where(x > 0, scale * x, 0.0), axis=-1) for x in (terms, over))
        return xp.where(lost < 1, error / (1 - lost), xp.inf)


@experiment(multipole_output, band=(0.08, 0.35))
def multipole_output_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    error, arguments = clustered_attention(rng, int(rng.integers(3)))
    return error, np.asarray(multipole_output(**arguments))
