"""The arguments of an attention function in the layout of the kernels."""

from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import array_api_compat
import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.precision import accumulator
from nlattn.arrays.typing import Array, Namespace
from nlattn.problem.partials import Partial

__all__ = ["Problem"]

A = TypeVar("A", bound=Array)


@dataclass(frozen=True, slots=True)
class Problem:
    """Checked arguments in the layout of the kernels: B batch elements, H query heads and G key-value heads.

    Attributes
    ----------
    xp : module
        The array API namespace of all arrays.
    query : array, shape (B, H, L, E)
    key : array, shape (B, G, S, E)
    value : array, shape (B, G, S, Ev)
    start, stop : integer array, shape (B, H, L)
        Each row may see the keys start <= j < stop.
    position : integer array, shape (B, H, L)
        The key that each row stands at: row i of the call stands at key i + S - L.
    scale : float
    is_causal : bool
    mask : boolean array of four axes that broadcast to (B, H, L, S), or None
    bias : floating array of four axes that broadcast to (B, H, L, S), or None
    batch : tuple of int
        The leading axes of the call, which make up B.
    has_heads : bool
        Whether the arrays of the call have a heads axis.
    finite : bool
        Whether NaN and inf have been ruled out wherever a row may see them.
    """

    xp: Namespace
    query: Array
    key: Array
    value: Array
    start: Array
    stop: Array
    position: Array
    scale: float
    is_causal: bool
    mask: Array | None
    bias: Array | None
    batch: tuple[int, ...]
    has_heads: bool
    finite: bool = True

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """(B, H, G, L, S)."""
        b, h, length, _ = self.query.shape
        return b, h, self.key.shape[1], length, self.key.shape[2]

    @property
    def accumulator(self) -> object:
        """The dtype in which sums are formed: float64 for float64, float32 for all others."""
        return accumulator(self.xp, self.query.dtype)

    def output(self, out: Array) -> Array:
        """An output (B, H, L, Ev) in the layout and dtype of the call."""
        return self.per_head(self.xp.astype(out, self.query.dtype, copy=False))

    def partial(self, part: Partial) -> Partial:
        """A partial in the layout of the call; its output stays in the accumulator, to be merged without rounding."""
        return Partial(self.per_head(part.out), self.per_head(part.lse))

    def per_head(self, array: A) -> A:
        """An array (B, H, ...), of any library, in the layout (..., heads, ...) of the call."""
        lead = (*self.batch, self.query.shape[1]) if self.has_heads else ()
        reshaped: A = array_namespace(array).reshape(array, (*lead, *array.shape[2:]))
        return reshaped

    def rows(self, index: Array) -> Self:
        """The same problem for the query rows `index` (B, H, m), integers of NumPy or of the problem's library."""
        xp = self.xp
        if isinstance(index, np.ndarray):
            index = xp.asarray(np.ascontiguousarray(index), device=array_api_compat.device(self.query))
        b, h, _, length, _ = self.shape

        def take(array: Array | None) -> Array | None:
            if array is None or array.shape[2] == 1:
                return array
            full = xp.broadcast_to(array, (b, h, length, array.shape[3]))
            taken: Array = xp.take_along_axis(full, index[..., None], axis=2)
            return taken

        return replace(
            self,
            query=xp.take_along_axis(self.query, index[..., None], axis=2),
            start=xp.take_along_axis(self.start, index, axis=2),
            stop=xp.take_along_axis(self.stop, index, axis=2),
            position=xp.take_along_axis(self.position, index, axis=2),
            mask=take(self.mask),
            bias=take(self.bias),
        )

    def heads(self, batch: int, heads: list[int]) -> Self:
        """The problem of some heads of one group of one batch element."""
        _, h, g, _, _ = self.shape
        group = heads[0] // (h // g)
        consecutive = heads == list(range(heads[0], heads[-1] + 1))

        def pick(array: Array | None) -> Array | None:
            if array is None:
                return None
            array = array[batch : batch + 1, ...] if array.shape[0] > 1 else array
            if array.shape[1] == 1:
                return array
            if consecutive:
                return array[:, heads[0] : heads[-1] + 1, ...]
            return self.xp.stack([array[:, head, ...] for head in heads], axis=1)

        names = ("query", "start", "stop", "position", "mask", "bias")
        own: dict[str, Any] = {name: pick(getattr(self, name)) for name in names}
        own |= {name: getattr(self, name)[batch : batch + 1, group : group + 1, ...] for name in ("key", "value")}
        return replace(self, **own, batch=(1,), has_heads=True)

    def key_mask(self) -> Array | None:
        """True where a key may be seen, (B|1, H|1, S), for a mask of size 1 on the query axis; None without a mask."""
        seen = None if self.mask is None else self.mask[:, :, 0, :]
        if self.bias is not None:
            weighted = self.bias[:, :, 0, :] != -self.xp.inf
            seen = weighted if seen is None else seen & weighted
        if seen is None:
            return None
        return self.xp.broadcast_to(seen, (*seen.shape[:2], self.key.shape[2]))
