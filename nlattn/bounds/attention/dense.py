"""Dense formulas with which attention is compared."""

import numpy as np

from nlattn.bounds.catalogue.typing import Floats

__all__ = ["diameter", "softmax"]


def softmax(scores: Floats) -> Floats:
    """Rows of softmax weights."""
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return weights / np.sum(weights, axis=-1, keepdims=True)


def diameter(values: Floats) -> float:
    """The largest distance between two values (S, Ev)."""
    differences = values[:, None, :] - values[None, :, :]
    return float(np.sqrt(np.max(np.sum(differences**2, axis=-1))))
