"""Random directions for features and hash functions."""

import math
from typing import Literal, get_args

import numpy as np

from nlattn.arrays.arguments import check_choice, check_integer, floating
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.random import generator, moved, random_signs
from nlattn.arrays.typing import Array, RngLike
from nlattn.kernels.fwht import fwht

__all__ = ["orthogonal_projection"]

Kind = Literal["haar", "hd", "iid"]
Lengths = Literal["chi", "sqrt"]


@on_numpy
def orthogonal_projection(
    features: int,
    dimension: int,
    *,
    kind: Kind = "haar",
    lengths: Lengths = "chi",
    batch: tuple[int, ...] = (),
    rng: RngLike = None,
    like: Array | None = None,
) -> Array:
    """Random directions, orthogonal to each other within blocks of `dimension`.

    Parameters
    ----------
    features : int
        Number of directions, m; at least 1.
    dimension : int
        Length of each, d; at least 1.
    kind : {"haar", "hd", "iid"}, default "haar"
        "haar": blocks of uniformly distributed orthogonal matrices, each row uniform on the sphere. "hd": blocks of
        three Hadamard matrices, each with random signs; d must be a power of two; cheaper to draw, and uniform on the
        sphere only approximately. "iid": independent directions.
    lengths : {"chi", "sqrt"}, default "chi"
        "chi": the lengths of independent standard normal vectors, so that with "haar" and "iid" each row is one.
        "sqrt": sqrt(d), the root mean square of these.
    batch : tuple of int, default ()
        Leading axes, of independent draws.
    rng : None, int, SeedSequence or Generator, default None
    like : array, default None
        Gives the library, device and dtype of the result; a NumPy array in float64 otherwise.

    Returns
    -------
    array, shape (*batch, m, d)

    Notes
    -----
    Costs O(m d^2), "hd" O(m d log d); drawn on the host in float64. A QR factorisation alone is not uniformly
    distributed: LAPACK fixes the signs of R, which leaves the rows of Q with a preferred direction and makes
    `positive_log_features` biased (by 28 % at d = 16 and x + y = (1/2, ..., 1/2)). Here the signs of the diagonal of R
    are put into Q. Source: Mezzadri, arXiv math-ph/0609050; arXiv 2009.14794.
    Bounds: ``orthogonal_positive_variance``, ``orthogonal_hyperbolic_variance``, ``orthogonal_trigonometric_variance``,
    ``orthogonal_moment``, ``regularised_softmax``, ``regularised_softmax_variance``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> W = nlattn.sketch.orthogonal_projection(6, 4, lengths="sqrt", rng=0)
    >>> np.allclose(W[:4] @ W[:4].T, 4 * np.eye(4)), np.allclose(np.sum(W**2, axis=1), 4)
    (True, True)
    """
    m, d = check_integer("features", features), check_integer("dimension", dimension)
    check_choice("kind", kind, get_args(Kind))
    check_choice("lengths", lengths, get_args(Lengths))
    batch = tuple(check_integer("batch", size, least=0) for size in batch)
    if kind == "hd" and d & (d - 1):
        raise ValueError(
            f"dimension must be a power of two for kind 'hd', got {d}; pad the vectors with zeros, or use 'haar'"
        )
    random = generator(rng)
    blocks = -(-m // d)
    if kind == "hd":
        rows = _hadamard(random, (*batch, blocks, d))
    elif kind == "haar":
        rows = _haar(random, (*batch, blocks, d, d))
    else:
        rows = random.standard_normal((*batch, m, d))
    rows = np.reshape(rows, (*batch, -1, d))[..., :m, :]
    if kind == "iid" and lengths == "sqrt":
        rows = rows * (math.sqrt(d) / np.linalg.norm(rows, axis=-1, keepdims=True))
    elif kind != "iid":
        scale = math.sqrt(d) if lengths == "sqrt" else np.sqrt(random.chisquare(d, (*batch, m, 1)))
        rows = scale * rows
    if like is None:
        return np.ascontiguousarray(rows)
    return moved(rows, like, floating("like", like, check_finite=False).dtype)


def _haar(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Orthogonal matrices, uniformly distributed."""
    q, r = np.linalg.qr(rng.standard_normal(shape))
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return q * signs[..., None, :]


def _hadamard(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """H D3 H D2 H D1 with orthonormal H, scaled at the end: until then the entries are integers, and exact."""
    d = shape[-1]
    signs = random_signs(rng, (3, *shape, 1))
    rows = np.broadcast_to(np.eye(d), (*shape, d))
    for diagonal in signs:
        rows = fwht(diagonal * rows, axis=-2)
    return rows / d**1.5
