"""Which keys estimated scores find."""

import numpy as np

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured, Real
from nlattn.cluster import augment_for_inner_products
from nlattn.kernels.top_k import top_k
from nlattn.linalg import randomized_svd

__all__ = ["projected_scores", "selected_mass", "selected_score", "transformed_distance"]


@bound(
    "always",
    "||s' - s|| <= scale ||K - K U U^T||_2 ||q - U U^T q||, s = scale K q, s' from keys and query projected on U; "
    "the first norm is sigma_{r+1}(K) for the first r right singular vectors",
    hypotheses=("the columns of U are orthonormal",),
    source="Elementary, with the theorem of Eckart and Young; the method is that of arXiv 2406.02542",
)
def projected_scores(query: Floats, key: Floats, basis: Floats, scale: float = 1.0) -> Floats:
    """Error of scores from queries and keys in a subspace.

    Parameters
    ----------
    query : array, shape (L, E)
    key : array, shape (S, E)
    basis : array, shape (E, r)
        U.
    scale : float, default 1

    Returns
    -------
    array, shape (L,)
        A bound of the 2-norm of the errors of the scores of each query, hence of the largest of them.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.projected_scores(np.asarray([[3.0, 1.0]]), np.diag([5.0, 2.0]), np.asarray([[1.0], [0.0]]))
    array([2.])
    """
    query, key = (x - (x @ basis) @ basis.T for x in (query, key))
    return abs(scale) * np.linalg.norm(key, 2) * np.linalg.norm(query, axis=1)


@experiment(projected_scores, band=(0.45, 0.85))
def projected_scores_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    query, key = rng.standard_normal((5, 6)), rng.standard_normal((40, 6)) * 0.5 ** np.arange(6)
    basis = randomized_svd(key, 3, rng=rng).Vh.T
    error = (query @ basis) @ (key @ basis).T - query @ key.T
    return 0.4 * np.linalg.norm(error, axis=1), projected_scores(query, key, basis, 0.4)


@bound(
    "always",
    "s_(k) - s_j <= 2 e for every key j among the k with the largest estimated scores, s_(k) the k-th largest score; "
    "so these are the k with the largest scores if s_(k) - s_(k+1) > 2 e",
    hypotheses=("each estimate differs from its score by at most e",),
    source="Elementary",
)
def selected_score(error: Real) -> Real:
    """By how much the scores of the chosen keys can fall short of the best choice.

    Parameters
    ----------
    error : float or array
        e.

    Returns
    -------
    float or array

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.selected_score(0.5)
    1.0
    """
    return 2 * error


@experiment(selected_score, band=(0.12, 0.5))
def selected_score_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    scores, chosen = _estimated(rng)
    return scores[:, 19] - np.min(chosen, axis=1), selected_score(0.2)


@bound(
    "always",
    "the k keys with the largest scores have at most e^(2 e) times the softmax mass of the k with the largest "
    "estimates",
    hypotheses=("each estimate differs from its score by at most e",),
    source="Elementary",
)
def selected_mass(error: float, mass: Real) -> Real:
    """The largest softmax mass that as many other keys can have.

    Parameters
    ----------
    error : float
        e.
    mass : float or array
        The softmax mass of the keys with the largest estimates.

    Returns
    -------
    float or array
        At most 1.

    Examples
    --------
    >>> import nlattn
    >>> round(float(nlattn.bounds.selected_mass(0.1, 0.5)), 3)
    0.611
    """
    return np.minimum(np.exp(2 * error) * mass, 1)


@experiment(selected_mass, band=(0.6, 0.8))
def selected_mass_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    scores, chosen = _estimated(rng)
    total = np.sum(np.exp(scores), axis=1)
    best, found = (np.sum(np.exp(x), axis=1) / total for x in (scores[:, :20], chosen))
    return best, selected_mass(0.2, found)


def _estimated(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Scores (rows, keys) in descending order, and those of the twenty keys with the largest estimates."""
    scores = np.sort(rng.standard_normal((20, 200)), axis=1)[:, ::-1]
    index = top_k(scores + 0.2 * rng.uniform(-1, 1, scores.shape), 20)[1]
    return scores, np.take_along_axis(scores, index, axis=1)


@bound(
    "identity",
    "||F(q) - G(k)||^2 = 2 (Q^2 + K^2 - q.k), F and G the xbox+ transforms, Q and K the largest norms",
    hypotheses=(
        "F(q) = (q, 0, (Q^2 + K^2 - ||q||^2)^(1/2)) and G(k) = (k, (Q^2 + K^2 - ||k||^2)^(1/2), 0)",
        "||q|| <= Q and ||k|| <= K",
    ),
    source="arXiv 2010.05315",
)
def transformed_distance(query: Floats, key: Floats) -> Floats:
    """Squared distances of all transformed queries from all transformed keys.

    Parameters
    ----------
    query : array, shape (L, E)
    key : array, shape (S, E)

    Returns
    -------
    array, shape (L, S)
        Among all pairs of a query and a key the nearer one has the larger inner product.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.transformed_distance(np.asarray([[1.0, 0.0]]), np.asarray([[2.0, 0.0], [0.0, 1.0]]))
    array([[ 6., 10.]])
    """
    most = sum(np.max(np.sum(x**2, axis=1)) for x in (query, key))
    return 2 * (most - query @ key.T)


@experiment(transformed_distance, band=(1 - 1e-9, 1 + 1e-9))
def transformed_distance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    query, key = rng.standard_normal((6, 4)), 3 * rng.standard_normal((7, 4))
    f, g = augment_for_inner_products(query, key, kind="xbox+")
    return np.sum((f[:, None] - g) ** 2, axis=-1).ravel(), transformed_distance(query, key).ravel()
