"""The Gaussian sketch."""

import numpy as np

from nlattn.arrays.boundary import carrier
from nlattn.arrays.random import generator, moved
from nlattn.arrays.typing import Array, Namespace, RngLike
from nlattn.sketch._base import Sketch, check_sizes

__all__ = ["gaussian_sketch"]


def gaussian_sketch(m: int, n: int, *, rng: RngLike = None) -> Sketch:
    """A matrix of independent N(0, 1/m) entries.

    Parameters
    ----------
    m : int
        Rows, at least 1.
    n : int
        Columns: the length that is sketched.
    rng : None, int, SeedSequence or Generator, default None

    Returns
    -------
    Sketch
        Costs O(m n) numbers of memory on the host, and 2 m n c flops for n x c.

    Notes
    -----
    Bounds: ``gaussian_embedding``, ``gaussian_variance``, ``sketched_product``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> S = nlattn.sketch.gaussian_sketch(64, 1000, rng=0)
    >>> x = np.ones(1000)
    >>> bool(abs(np.linalg.norm(S @ x) / np.linalg.norm(x) - 1) < 0.3)
    True
    """
    m, n = check_sizes(m, n)
    return _Gaussian(generator(rng).standard_normal((m, n)) / np.sqrt(m))


@carrier()
class _Gaussian(Sketch):
    """A sketch that holds its whole matrix."""

    kind = "gaussian"

    def __init__(self, draws: Array) -> None:
        self._draws = draws
        self.shape = (draws.shape[0], draws.shape[1])

    def _dense(self) -> Array:
        return self._draws

    def _last(self, xp: Namespace, x: Array) -> Array:
        return x @ xp.matrix_transpose(moved(self._draws, x, x.dtype))
