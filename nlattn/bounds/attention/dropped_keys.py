"""What attention over some of the keys loses, and which keys keep most."""

import itertools

import numpy as np
from numpy.typing import NDArray

from nlattn.arrays.arguments import check_integer
from nlattn.bounds.attention.dense import diameter, softmax
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured, Real
from nlattn.methods.exact import exact_attention

__all__ = ["dropped_mass", "dropped_mass_divergence", "dropped_mass_identity", "kept_columns"]


@bound(
    "always",
    "||o_kept - o|| <= eps diam(V), eps the softmax mass of the dropped keys",
    hypotheses=(
        "o is the softmax mean of the values V over all keys, o_kept that over the kept keys, renormalised",
        "at least one key is kept",
    ),
    source="Follows from the law of total expectation",
)
def dropped_mass(mass: Real, values: Floats) -> Real:
    """Error of attention that is restricted to some of the keys.

    Parameters
    ----------
    mass : float, or array of shape (rows,)
        The softmax mass of the dropped keys, between 0 and 1.
    values : array, shape (S, Ev)

    Returns
    -------
    float or array
        ``mass`` times the largest distance between two values: a bound of the 2-norm of the error of each output.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.dropped_mass(np.asarray([0.1]), np.asarray([[0.0], [2.0]]))
    array([0.2])
    """
    return mass * diameter(values)


@experiment(dropped_mass, band=(0.08, 1.0))
def dropped_mass_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    query, key, values = (rng.standard_normal(shape) for shape in ((1, 4), (40, 4), (40, 3)))
    kept = rng.permutation(40) < 20
    restricted = exact_attention(query, key, values, attn_mask=kept[None], scale=1.0)
    weights = softmax(query @ key.T)
    dropped = np.sum(weights * ~kept, axis=1)
    return np.linalg.norm(restricted - weights @ values, axis=1), dropped_mass(dropped, values)


@bound(
    "identity",
    "||o_kept - o|| = eps ||o_kept - o_dropped|| in each row, eps the softmax mass of the dropped keys",
    hypotheses=(
        "o is the softmax mean of the values over all keys, o_kept and o_dropped those over the kept and over the "
        "dropped keys, each renormalised",
        "at least one key is kept and one dropped in each row",
    ),
    source="Follows from the law of total expectation; arXiv 2512.07647 splits attention in the same way",
)
def dropped_mass_identity(mass: Floats, kept: Floats, dropped: Floats) -> Floats:
    """Error of attention that is restricted to some of the keys, exactly.

    Parameters
    ----------
    mass : array, shape (rows,)
        The softmax mass of the dropped keys.
    kept, dropped : array, shape (rows, Ev)
        Attention over the kept and over the dropped keys.

    Returns
    -------
    array, shape (rows,)
        The 2-norm of the error of each output; its own 2-norm is the Frobenius norm of the error.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.dropped_mass_identity(np.asarray([0.1]), np.asarray([[0.0, 1.0]]), np.asarray([[3.0, 5.0]]))
    array([0.5])
    """
    return mass * np.linalg.norm(kept - dropped, axis=-1)


@experiment(dropped_mass_identity, band=(1 - 1e-9, 1 + 1e-9))
def dropped_mass_identity_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    query, key, values, kept, weights = _problem(rng)
    found, dropped = (exact_attention(query, key, values, attn_mask=mask, scale=1.0) for mask in (kept, ~kept))
    error = np.linalg.norm(found - weights @ values, axis=1)
    return error, dropped_mass_identity(np.sum(weights * ~kept, axis=1), found, dropped)


@bound(
    "identity",
    "eps = 1 - exp(-KL(kept || full)), eps the softmax mass of the dropped keys",
    hypotheses=(
        "full is the softmax over all keys, and kept its restriction to the kept keys, renormalised",
        "at least one key is kept",
    ),
    source="arXiv 2512.07647",
)
def dropped_mass_divergence(divergence: Real) -> Real:
    """Mass of the dropped keys, which is also the distance of the weights in total variation.

    Parameters
    ----------
    divergence : float or array
        Relative entropy sum_j p'_j log(p'_j / p_j) of the renormalised weights p' with respect to the softmax p.

    Returns
    -------
    float or array

    Examples
    --------
    >>> import math, nlattn
    >>> round(float(nlattn.bounds.dropped_mass_divergence(math.log(4 / 3))), 9)
    0.25
    """
    return -np.expm1(-divergence)


@experiment(dropped_mass_divergence, band=(1 - 1e-9, 1 + 1e-9))
def dropped_mass_divergence_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    query, key, values, kept, weights = _problem(rng)
    part, full = (
        exact_attention(query, key, values, attn_mask=mask, scale=1.0, return_lse=True)[1]
        for mask in (kept, kept | ~kept)
    )
    within = softmax(np.where(kept, query @ key.T, -np.inf))
    divergence = np.sum(within * np.log(np.where(kept, within, 1) / np.where(kept, weights, 1)), axis=1)
    return -np.expm1(part - full), dropped_mass_divergence(divergence)


@bound(
    "always",
    "the softmax mass that a set of h keys keeps, averaged over the rows, is at most the sum of the h largest means of "
    "columns of the softmax matrix, which the set of these columns attains",
    hypotheses=("all rows keep the same set of keys",),
    source="Elementary; the selection is that of arXiv 2306.14048",
)
def kept_columns(weights: Floats, count: int) -> float:
    """The largest mean softmax mass that a set of keys can keep.

    Parameters
    ----------
    weights : array, shape (rows, S)
        The softmax matrix.
    count : int
        h.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.kept_columns(np.asarray([[0.75, 0.25, 0.0], [0.25, 0.25, 0.5]]), 2))
    0.75
    """
    check_integer("count", count, least=0, most=weights.shape[1], why="the number of keys")
    means = np.sort(np.mean(weights, axis=0))
    return float(np.sum(means[means.size - count :]))


@experiment(kept_columns, trials=40, band=(1 - 1e-9, 1 + 1e-9))
def kept_columns_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    query, key = rng.standard_normal((12, 3)), rng.standard_normal((8, 3))
    # All sets of 3 of the 8 keys: the best one attains the bound.
    sets = np.zeros((56, 1, 8), bool)
    for row, chosen in zip(sets, itertools.combinations(range(8), 3), strict=True):
        row[0, list(chosen)] = True
    queries, keys = (np.broadcast_to(x, (56, *x.shape)) for x in (query, key))
    kept = exact_attention(queries, keys, keys, attn_mask=sets, scale=1.0, return_lse=True)[1]
    scores = query @ key.T
    mass = np.mean(np.exp(kept - np.log(np.sum(np.exp(scores), axis=1))), axis=1)
    return np.max(mass), kept_columns(softmax(scores), 3)


def _problem(rng: np.random.Generator) -> tuple[Floats, Floats, Floats, NDArray[np.bool], Floats]:
    """Queries, keys, values, which keys each row keeps, and the softmax matrix."""
    query, key, values = (rng.standard_normal(shape) for shape in ((6, 3), (30, 3), (30, 2)))
    kept = rng.random((6, 30)) < 0.5
    kept[:, 0], kept[:, 1] = True, False
    return query, key, values, kept, softmax(query @ key.T)
