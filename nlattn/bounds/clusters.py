"""What attention loses that replaces clusters of keys by their moments."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from nlattn.bounds.cluster_remainders import mass_limits, output_remainder
from nlattn.bounds.registry import bound, experiment
from nlattn.bounds.selection import softmax
from nlattn.cluster import kmeans
from nlattn.methods.exact import exact_attention

__all__ = ["monopole_mass", "monopole_output", "monopole_share", "multipole_output"]

MOMENTS = "x_1, ..., x_N have mean 0, |x_j| <= r, and variance s^2"
SOURCE = "Bennett's extremal distribution; derived for the centroids of arXiv 2506.13059"


@bound(
    "always",
    "(1/N) sum_j e^x_j <= (s^2 e^r + r^2 e^(-s^2/r))/(r^2 + s^2) <= cosh(r) <= e^(r^2/2)",
    hypotheses=(MOMENTS,),
    source=SOURCE,
    band=(0.9, 1.0),
)
def monopole_mass(radius: Any, variance: Any = None) -> Any:
    """Softmax mass of a cluster of keys over that of as many keys in its centre.

    Parameters
    ----------
    radius : array
        r >= 0, at least the largest difference in modulus of the score of a key and of the centre; with x_j the
        difference of key j.
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


@bound(
    "always",
    "N / sum_j e^x_j <= (r^2 + s^2)/(s^2 e^-r + r^2 e^(s^2/r)) <= 1",
    hypotheses=(MOMENTS,),
    source=SOURCE,
    band=(0.9, 1.0),
)
def monopole_share(radius: Any, variance: Any = None) -> Any:
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
    band=(0.2, 0.6),
)
def monopole_output(log_weights: Any, radius: Any, spread: Any, centres: Any, out: Any, variance: Any = None) -> Any:
    """Error of attention with clusters of keys replaced by their means, from what is known after the fact.

    Parameters
    ----------
    log_weights : array, shape (..., rows, clusters)
        log a_c: the score of the mean plus log N_c minus the log-sum-exp of the row; -inf for clusters that the row
        attends to key by key.
    radius : array, shape (..., rows, clusters)
        r_c, in which the bound grows exponentially: the largest difference of scores, or what is known to be larger, as
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
    return output_remainder(log_weights, radius, spread, centres, out, variance)


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
    band=(0.08, 0.35),
)
def multipole_output(
    log_weights: Any,
    radius: Any,
    spread: Any,
    centres: Any,
    out: Any,
    variance: Any = None,
    least_variance: Any = None,
    log_factor: Any = None,
    dipole: bool = False,
) -> Any:
    """Error of attention with clusters of keys replaced by moments of higher order.

    Parameters
    ----------
    log_weights, radius, spread, centres, out, variance
        As in `monopole_output`; `centres` without the dipoles.
    least_variance : array, shape (..., rows, clusters), optional
        A lower limit of the variance of the scores in each cluster, for b_c. Else 0.
    log_factor : array, shape (..., rows, clusters), optional
        log g_c, for one half the variance. Else 0.
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
    return output_remainder(
        log_weights, radius, spread, centres, out, variance, least_variance, log_factor, dipole=dipole
    )


def _scores(rng: np.random.Generator) -> tuple[Any, Any]:
    """Differences of scores of few keys, and the largest of them: in half of the rows almost two values only."""
    x = rng.standard_normal((100, 6)) * rng.uniform(0.1, 2, (100, 1))
    x[:50, 1:] *= 0.05
    x -= np.mean(x, axis=1, keepdims=True)
    return x, np.max(np.abs(x), axis=1)


@experiment(monopole_mass)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    x, radius = _scores(rng)
    return np.mean(np.exp(x), axis=1), monopole_mass(radius, np.mean(x**2, axis=1))


@experiment(monopole_share)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    x, radius = _scores(rng)
    return 1 / np.mean(np.exp(x), axis=1), monopole_share(radius, np.mean(x**2, axis=1))


def clustered(rng: np.random.Generator, order: int, clusters: int = 5) -> tuple[Any, dict[str, Any]]:
    """Errors of rows with all but eight keys in clusters, and what `multipole_output` takes; mass of order 0 or 2."""
    query, key, values = (rng.standard_normal(shape) for shape in ((6, 2), (48, 2), (48, 3)))
    values[:, 0] += 3 * key[:, 0]
    exact = softmax(0.5 * query @ key.T) @ values
    far, rest = key[8:], values[8:]
    labels = kmeans(far, clusters, rng=rng).labels
    masks = labels == np.arange(clusters)[:, None]
    counts = np.sum(masks, axis=1)
    means, centres = (masks @ x / counts[:, None] for x in (far, rest))
    x = np.stack([0.5 * query @ (far - means[c]).T * masks[c] for c in range(clusters)], axis=1)
    variance = np.sum(x**2, axis=-1) / counts
    factor = variance / 2 if order == 2 else np.zeros_like(variance)
    bias = np.concatenate([np.zeros((6, 8)), np.log(counts) + factor], axis=1)
    found, lse = exact_attention(
        query,
        np.concatenate([key[:8], means]),
        np.concatenate([values[:8], centres]),
        attn_mask=bias,
        scale=0.5,
        return_lse=True,
    )
    log_weights = 0.5 * query @ means.T + bias[:, 8:] - lse[:, None]
    if order:
        dipoles = x @ rest / counts[:, None]
        found = found + np.sum(np.exp(log_weights)[..., None] * dipoles, axis=1)
    offsets = masks[..., None] * (rest - centres[:, None])
    covariance = offsets.swapaxes(1, 2) @ offsets / counts[:, None, None]
    arguments = {
        "log_weights": log_weights,
        "radius": np.max(np.abs(x), axis=-1),
        "spread": np.sqrt(np.linalg.eigvalsh(covariance)[:, -1]),
        "centres": centres,
        "out": found,
        "variance": variance,
    }
    if order:
        arguments |= {"log_factor": factor, "least_variance": variance, "dipole": True}
    return np.linalg.norm(found - exact, axis=1), arguments


@experiment(monopole_output)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    error, arguments = clustered(rng, 0)
    return error, monopole_output(**arguments)


@experiment(multipole_output)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    error, arguments = clustered(rng, int(rng.integers(3)))
    return error, multipole_output(**arguments)
