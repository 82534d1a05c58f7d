"""The Gaussian sketch."""

from typing import Any

import numpy as np

from nlattn.arrays.random import generator, moved
from nlattn.sketch._base import Sketch, check_sizes

__all__ = ["gaussian_sketch"]


def gaussian_sketch(m: int, n: int, *, rng: Any = None) -> Sketch:
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


class _Gaussian(Sketch):
    kind = "gaussian"

    def __init__(self, draws: Any) -> None:
        self._draws = draws
        self.shape = draws.shape

    def _dense(self) -> Any:
        return self._draws

    def _last(self, xp: Any, x: Any) -> Any:
        return x @ xp.matrix_transpose(moved(self._draws, x, x.dtype))
