"""Points in groups, and what tests of clusters ask of results."""

import numpy as np

from nlattn.testing import to_numpy

__all__ = ["clustered", "result", "unit"]


def clustered(n, d, groups, spread=4.0, seed=0):
    """Standard normal points around centres that are `spread` times as far apart."""
    r = np.random.default_rng(seed)
    return r.standard_normal((n, d)) + spread * r.standard_normal((groups, d))[r.integers(0, groups, n)]


def unit(x):
    """Rows of length 1; rows of zeros stay."""
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(norm == 0, 1, norm)


def result(found):
    """The parts of a result, arrays as NumPy arrays."""
    return tuple(np.asarray(to_numpy(part)) if hasattr(part, "shape") else part for part in found)
