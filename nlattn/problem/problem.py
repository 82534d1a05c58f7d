"""The arguments of an attention function in the layout of the kernels."""

from dataclasses import dataclass, replace
from typing import Any, Self

import array_api_compat
import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.precision import accumulator
from nlattn.arrays.typing import Array, Namespace
from nlattn.problem.partials import Partial

__all__ = ["Problem"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Checked arguments in the layout of the kernels.

    query (B, H, L, E), key (B, G, S, E), value (B, G, S, Ev); mask and bias None or four axes that broadcast to
    (B, H, L, S); start and stop (B, H, L), the interval of keys that each row may see; position (B, H, L), the key
    that each row stands at.
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
    """The leading axes of the call, which make up B."""
    has_heads: bool
    finite: bool = True
    """Whether NaN and inf have been ruled out wherever a row may see them."""

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

    def per_head(self, array: Any) -> Any:
        """An array (B, H, ...), of any library, in the layout (..., heads, ...) of the call."""
        lead = (*self.batch, self.query.shape[1]) if self.has_heads else ()
        return array_namespace(array).reshape(array, (*lead, *array.shape[2:]))

    def rows(self, index: Array) -> Self:
        """The same problem for the query rows `index`, an integer array (B, H, m) of NumPy or its own library."""
        xp = self.xp
        if isinstance(index, np.ndarray):
            index = xp.asarray(np.ascontiguousarray(index), device=array_api_compat.device(self.query))
        b, h, _, length, _ = self.shape

        def take(array: Array | None) -> Any:
            if array is None or array.shape[2] == 1:
                return array
            full = xp.broadcast_to(array, (b, h, length, array.shape[3]))
            return xp.take_along_axis(full, index[..., None], axis=2)

        return replace(
            self,
            query=take(self.query) if length > 1 else xp.take_along_axis(self.query, index[..., None], axis=2),
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
