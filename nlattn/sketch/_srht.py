"""The subsampled randomised Hadamard transform."""

import numpy as np

from nlattn.arrays.boundary import carrier
from nlattn.arrays.random import generator, moved, random_signs
from nlattn.arrays.typing import Array, Namespace, RngLike
from nlattn.kernels.fwht import fwht
from nlattn.sketch._base import Sketch, check_sizes
from nlattn.sketch._hadamard import padded_length

__all__ = ["srht_sketch"]


def srht_sketch(m: int, n: int, *, rng: RngLike = None) -> Sketch:
    """Rows of a Walsh-Hadamard matrix, drawn without replacement, times random signs.

    Parameters
    ----------
    m : int
        Rows, from 1 to N, the least power of two that is at least n.
    n : int
        Columns: the length that is sketched, padded with zeros to N.
    rng : None, int, SeedSequence or Generator, default None

    Returns
    -------
    Sketch
        m^(-1/2) P H D. Applying it to n x c costs N log2(N) c additions.

    Notes
    -----
    Source: Tropp, arXiv 1011.1595. m = N gives an isometry.
    Bounds: ``srht_embedding``, ``srht_variance``, ``sketched_product``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> S = nlattn.sketch.srht_sketch(8, 8, rng=0).matrix(np.zeros(1))
    >>> np.allclose(S.T @ S, np.eye(8))
    True
    """
    m, n = check_sizes(m, n)
    padded = padded_length(n)
    if m > padded:
        raise ValueError(f"m must be at most {padded}, the least power of two that is at least n = {n}, got {m}")
    rng = generator(rng)
    signs = random_signs(rng, n) / np.sqrt(m)
    return _SRHT(padded, rng.choice(padded, m, replace=False), signs)


@carrier()
class _SRHT(Sketch):
    """Rows of the transform of `padded` numbers, those beyond the given ones 0, each with its sign."""

    kind = "srht"

    def __init__(self, padded: int, rows: Array, signs: Array) -> None:
        self.shape = (rows.size, signs.size)
        self._padded = padded
        self._rows = rows
        self._signs = signs

    def _dense(self) -> Array:
        odd = np.bitwise_count(self._rows[:, None] & np.arange(self.shape[1])) & 1
        return (1.0 - 2.0 * odd) * self._signs

    def _forward(self, xp: Namespace, x: Array) -> Array:
        return self._transformed(xp, x * moved(self._signs, x, x.dtype)[:, None])

    def _last(self, xp: Namespace, x: Array) -> Array:
        return self._transformed(xp, x * moved(self._signs, x, x.dtype))

    def _transformed(self, xp: Namespace, x: Array) -> Array:
        """Axis 1 padded, transformed and sampled."""
        missing = self._padded - x.shape[1]
        if missing:
            shape = (x.shape[0], missing, *x.shape[2:])
            x = xp.concat([x, xp.zeros(shape, dtype=x.dtype, device=x.device)], axis=1)
        return xp.take(fwht(x, axis=1), moved(self._rows, x), axis=1)

    def _backward(self, xp: Namespace, y: Array) -> Array:
        m, n = self.shape
        # A place of the transform that no row of y belongs to takes the row of zeros that is put behind them.
        place = np.full(self._padded, m)
        place[self._rows] = np.arange(m)
        y = xp.concat([y, xp.zeros_like(y[:, :1, :])], axis=1)
        x = fwht(xp.take(y, moved(place, y), axis=1), axis=1)[:, :n, :]
        return x * moved(self._signs, y, y.dtype)[:, None]
