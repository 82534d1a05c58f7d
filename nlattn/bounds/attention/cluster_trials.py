"""Attention with clusters of keys replaced by their moments, on which its bounds are measured."""

from typing import Any

import numpy as np

from nlattn.bounds.attention.dense import softmax
from nlattn.bounds.catalogue.typing import Floats
from nlattn.cluster import kmeans
from nlattn.methods.exact import exact_attention

__all__ = ["clustered_attention", "score_differences"]

SCALE = 0.5
#: Keys that are met one by one.
NEAR = 8
CLUSTERS = 5


def score_differences(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Differences of the scores of six keys from their mean, and the largest of them; half of the rows have an outlier.

    With an outlier the differences take almost two values only, where the bounds of the mass are attained.
    """
    x = rng.standard_normal((100, 6)) * rng.uniform(0.1, 2, (100, 1))
    x[:50, 1:] *= 0.05
    x -= np.mean(x, axis=1, keepdims=True)
    return x, np.max(np.abs(x), axis=1)


def clustered_attention(rng: np.random.Generator, order: int) -> tuple[Floats, dict[str, Any]]:
    """Errors of rows of attention with all but NEAR keys in clusters, and the arguments of `multipole_output`.

    Orders 1 and 2 have dipoles, and order 2 also has a factor for the mass.
    """
    query, key, values = (rng.standard_normal(shape) for shape in ((6, 2), (48, 2), (48, 3)))
    values[:, 0] += 3 * key[:, 0]
    exact = softmax(SCALE * query @ key.T) @ values
    far, rest = key[NEAR:], values[NEAR:]
    members = kmeans(far, CLUSTERS, rng=rng).labels == np.arange(CLUSTERS)[:, None]
    counts = np.sum(members, axis=1)
    means, centres = (members @ x / counts[:, None] for x in (far, rest))
    x = np.stack([SCALE * query @ (far - means[c]).T * members[c] for c in range(CLUSTERS)], axis=1)
    variance = np.sum(x**2, axis=-1) / counts
    factor = variance / 2 if order == 2 else np.zeros_like(variance)
    bias = np.concatenate([np.zeros((6, NEAR)), np.log(counts) + factor], axis=1)
    keys, shown = np.concatenate([key[:NEAR], means]), np.concatenate([values[:NEAR], centres])
    found, lse = exact_attention(query, keys, shown, attn_mask=bias, scale=SCALE, return_lse=True)
    log_weights = SCALE * query @ means.T + bias[:, NEAR:] - lse[:, None]
    if order:
        dipoles = x @ rest / counts[:, None]
        found = found + np.sum(np.exp(log_weights)[..., None] * dipoles, axis=1)
    offsets = members[..., None] * (rest - centres[:, None])
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
