"""Sums over the keys whose hash codes meet that of a query, each weighted by how rarely that happens."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlattn.arrays.arguments import check_integer
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.cluster import hyperplane_codes

__all__ = ["collision_count_variance", "collision_union_variance"]

HYPOTHESES = (
    "the codes are of R rounds with b hyperplanes each, whose normals are independent N(0, I_d) vectors",
    "neither the query nor a key is 0, and no key is opposite to the query",
)
JOINT = "p_jl = (1 - (t_j + t_l + t_jl)/(2 pi))^b, t the angles of query and key and of two keys, p_j = p_jj"
BITS, ROUNDS = 2, 4
#: Sets of rounds in one experiment.
REPLICATES = 4000


@bound(
    "moment",
    "E ||sum_j (c_j/(R p_j) - 1) f_j||^2 = (1/R) sum_jl (p_jl/(p_j p_l) - 1) f_j.f_l, c_j the number of rounds in "
    f"which key j meets the query, {JOINT}",
    hypotheses=HYPOTHESES,
    source="Derived",
)
def collision_count_variance(query: Floats, key: Floats, terms: Floats, bits: int, rounds: int) -> float:
    """Variance of an unbiased sum over the keys of a hash bucket, counted once for each round.

    Parameters
    ----------
    query : array, shape (E,)
    key : array, shape (S, E)
    terms : array, shape (S, F)
        f. For attention A_j and A_j v_j, which give the normaliser and the numerator.
    bits : int
        b.
    rounds : int
        R.

    Returns
    -------
    float
        For one key ``(1 - p)/(R p) |f|^2``.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> query, key = np.asarray([1.0, 0.0]), np.asarray([[0.0, 1.0]])
    >>> round(nlattn.bounds.collision_count_variance(query, key, np.ones((1, 1)), 2, 3), 9)
    1.0
    """
    check_integer("rounds", rounds)
    single, joint = _probabilities(query, key, bits)
    return _quadratic(terms, joint / (single[:, None] * single) - 1) / rounds


@experiment(collision_count_variance, trials=20_000, band=(0.9, 1.1))
def collision_count_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    counts, chance, problem = _meetings(rng)
    error = (counts / (ROUNDS * chance) - 1) @ problem.terms
    return np.sum(error**2, axis=1), collision_count_variance(*problem, BITS, ROUNDS)


@bound(
    "moment",
    "E ||sum_{j met} f_j/u_j - sum_j f_j||^2 = sum_jl (u_jl/(u_j u_l) - 1) f_j.f_l, over the keys met in some round, "
    f"u_j = 1 - (1 - p_j)^R, u_jl = 1 - (1 - p_j)^R - (1 - p_l)^R + (1 - p_j - p_l + p_jl)^R, {JOINT}",
    hypotheses=HYPOTHESES,
    source="Derived; keys sampled by collisions are those of arXiv 2410.16179",
)
def collision_union_variance(query: Floats, key: Floats, terms: Floats, bits: int, rounds: int) -> float:
    """Variance of an unbiased sum over the keys of a hash bucket, counted once.

    Parameters as in `collision_count_variance`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> query, key = np.asarray([1.0, 0.0]), np.asarray([[0.0, 1.0]])
    >>> round(nlattn.bounds.collision_union_variance(query, key, np.ones((1, 1)), 1, 2), 9)
    0.333333333
    """
    check_integer("rounds", rounds)
    single, joint = _probabilities(query, key, bits)
    missed = (1 - single) ** rounds
    both = 1 - missed[:, None] - missed + np.clip(1 - single[:, None] - single + joint, 0, None) ** rounds
    return _quadratic(terms, both / ((1 - missed[:, None]) * (1 - missed)) - 1)


@experiment(collision_union_variance, trials=20_000, band=(0.9, 1.1))
def collision_union_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    counts, chance, problem = _meetings(rng)
    error = ((counts > 0) / (1 - (1 - chance) ** ROUNDS) - 1) @ problem.terms
    return np.sum(error**2, axis=1), collision_union_variance(*problem, BITS, ROUNDS)


def _quadratic(terms: Floats, factors: Floats) -> float:
    """sum_jl factors_jl f_j.f_l."""
    return float(np.sum(factors * (terms @ terms.T)))


def _probabilities(query: Floats, key: Floats, bits: int) -> tuple[Floats, Floats]:
    """Probabilities that a round brings each key, and each pair of keys, together with the query."""
    check_integer("bits", bits)
    to_query = _angles(key, query[None])[:, 0]
    between = _angles(key, key)
    np.fill_diagonal(between, 0.0)
    joint = (1 - (to_query[:, None] + to_query + between) / (2 * math.pi)) ** bits
    return np.diagonal(joint), joint


def _angles(x: Floats, y: Floats) -> Floats:
    """Angles of all rows of x with all rows of y, by half chords, which are accurate also for small angles."""
    x, y = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, y))
    apart, along = (np.linalg.norm(x[:, None] - sign * y, axis=-1) for sign in (1, -1))
    return 2 * np.arctan2(apart, along)


class _Problem(NamedTuple):
    query: Floats
    key: Floats
    terms: Floats


def _meetings(rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats, _Problem]:
    """In how many rounds each key meets the query, (REPLICATES, S), and the probability that it does in one."""
    query, key, terms = rng.standard_normal(4), rng.standard_normal((8, 4)), rng.standard_normal((8, 2))
    key += 0.7 * query
    normals = rng.standard_normal((REPLICATES, ROUNDS, BITS, 4))
    codes = hyperplane_codes(np.concatenate([query[None], key]), normals)
    cosine = key @ query / (np.linalg.norm(key, axis=1) * np.linalg.norm(query))
    chance = (1 - np.arccos(cosine) / np.pi) ** BITS
    return np.sum(codes[..., 1:] == codes[..., :1], axis=1), chance, _Problem(query, key, terms)
