"""How well a sketch preserves all lengths in a subspace."""

import math

import numpy as np

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Measured
from nlattn.sketch import count_sketch, gaussian_sketch, srht_sketch

__all__ = ["count_sketch_embedding", "gaussian_embedding", "srht_embedding"]

ORTHONORMAL = "U (n x k) has orthonormal columns and does not depend on S"
FAILURE = 0.05


@bound(
    "probability",
    "max_i |sigma_i(S U) - 1| <= sqrt(k / m) + sqrt(2 ln(2 / failure) / m)",
    hypotheses=("S is an m x n sketch from gaussian_sketch", ORTHONORMAL),
    source="Davidson and Szarek 2001, Theorem II.13, DOI 10.1016/S1874-5849(01)80010-3",
)
def gaussian_embedding(k: int, m: int, failure: float) -> float:
    """Distance of the singular values of a sketched orthonormal basis from 1, for a Gaussian sketch.

    Parameters
    ----------
    k : int
        Dimension of the subspace.
    m : int
        Rows of the sketch.
    failure : float
        Between 0 and 1.

    Returns
    -------
    float

    Examples
    --------
    >>> import nlattn
    >>> round(nlattn.bounds.gaussian_embedding(10, 1000, 0.01), 3)
    0.203
    """
    return math.sqrt(k / m) + math.sqrt(2 * math.log(2 / failure) / m)


@experiment(gaussian_embedding, trials=1000, band=(0.4, 0.8), failure=FAILURE)
def gaussian_embedding_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    k, m = 16, 200
    # Coordinate vectors are the hardest subspace for a sketch with few nonzeros, and like any other for this one.
    sketched = gaussian_sketch(m, 20, rng=rng) @ np.eye(20)[:, :k]
    return np.max(np.abs(np.linalg.svd(sketched, compute_uv=False) - 1)), gaussian_embedding(k, m, FAILURE)


@bound(
    "probability",
    "|U^T S^T S U - I|_F <= sqrt(k (k + 1) / (m failure))",
    hypotheses=(
        "S is an m x n sketch from count_sketch (balanced or not), sparse_sign_sketch or srht_sketch",
        ORTHONORMAL,
    ),
    source="arXiv 1211.1002 (Nelson and Nguyen); second moment and Markov's inequality",
)
def count_sketch_embedding(k: int, m: int, failure: float) -> float:
    """Distance of the squared singular values of a sketched orthonormal basis from 1, for a CountSketch.

    Parameters as in `gaussian_embedding`.

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.count_sketch_embedding(4, 2000, 0.01)
    1.0
    """
    return math.sqrt(k * (k + 1) / (m * failure))


@experiment(count_sketch_embedding, trials=1000, band=(0.1, 0.3), failure=FAILURE)
def count_sketch_embedding_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    k, m = 4, 500
    sketched = count_sketch(m, 60, rng=rng) @ np.linalg.qr(rng.standard_normal((60, k)))[0]
    return np.linalg.norm(sketched.T @ sketched - np.eye(k)), count_sketch_embedding(k, m, FAILURE)


@bound(
    "probability",
    "|U^T S^T S U - I|_2 <= (sqrt(k) + sqrt(2 ln(2 N / failure))) sqrt(3 ln(4 k / failure) / m), N = 2^ceil(log2 n)",
    hypotheses=("S is an m x n sketch from srht_sketch", ORTHONORMAL, "the right-hand side is at most 1"),
    source="After Tropp, arXiv 1011.1595, with explicit failure probability; derived in the proof",
)
def srht_embedding(n: int, k: int, m: int, failure: float) -> float:
    """Distance of the squared singular values of a sketched orthonormal basis from 1, for an SRHT.

    Parameters
    ----------
    n : int
        Columns of the sketch.
    k, m, failure
        As in `gaussian_embedding`.

    Returns
    -------
    float
        inf where the right-hand side is above 1, since nothing is claimed there.

    Examples
    --------
    >>> import nlattn
    >>> round(nlattn.bounds.srht_embedding(4096, 4, 2048, 0.05), 3)
    0.634
    """
    padded = 1 << max(n - 1, 0).bit_length()
    longest_row = math.sqrt(k) + math.sqrt(2 * math.log(2 * padded / failure))
    distance = longest_row * math.sqrt(3 * math.log(4 * k / failure) / m)
    return distance if distance <= 1 else math.inf


@experiment(srht_embedding, trials=400, band=(0.01, 0.2), failure=FAILURE)
def srht_embedding_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    n, k, m = 1500, 2, 1024
    sketched = srht_sketch(m, n, rng=rng) @ np.eye(n)[:, :k]
    return np.linalg.norm(sketched.T @ sketched - np.eye(k), 2), srht_embedding(n, k, m, FAILURE)
