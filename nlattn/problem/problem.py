"""The arguments of an attention function in the layout of the kernels."""

from dataclasses import dataclass, replace
from typing import Any

from array_api_compat import array_namespace

from nlattn.arrays.host import all_finite
from nlattn.arrays.precision import accumulator
from nlattn.problem.partials import Partial

__all__ = ["Problem", "checked_finite", "visible_keys"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Checked arguments in the layout of the kernels.

    query (B, H, L, E), key (B, G, S, E), value (B, G, S, Ev); mask and bias None or four axes that broadcast to
    (B, H, L, S); start and stop (B, H, L), the interval of keys that each row may see; position (B, H, L), the key
    that each row stands at.
    """

    xp: Any
    query: Any
    key: Any
    value: Any
    start: Any
    stop: Any
    position: Any
    scale: float
    is_causal: bool
    mask: Any
    bias: Any
    batch: tuple[int, ...]
    has_heads: bool

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """(B, H, G, L, S)."""
        b, h, length, _ = self.query.shape
        return b, h, self.key.shape[1], length, self.key.shape[2]

    @property
    def accumulator(self) -> Any:
        """The dtype in which sums are formed: float64 for float64, float32 for all others."""
        return accumulator(self.xp, self.query.dtype)

    def output(self, out: Any) -> Any:
        """An output (B, H, L, Ev) in the layout and dtype of the call."""
        return self.per_head(self.xp.astype(out, self.query.dtype, copy=False))

    def partial(self, part: Partial) -> Partial:
        """A partial in the layout of the call; its output stays in the accumulator, to be merged without rounding."""
        return Partial(self.per_head(part.out), self.per_head(part.lse))

    def per_head(self, array: Any) -> Any:
        """An array (B, H, ...), of any library, in the layout (..., heads, ...) of the call."""
        lead = (*self.batch, self.query.shape[1]) if self.has_heads else ()
        return array_namespace(array).reshape(array, (*lead, *array.shape[2:]))

    def rows(self, index: Any) -> "Problem":
        """The same problem for the query rows `index`, an integer array (B, H, m)."""
        xp = self.xp
        b, h, _, length, _ = self.shape

        def take(array: Any) -> Any:
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

    def heads(self, batch: int, heads: list[int]) -> "Problem":
        """The problem of some heads of one group of one batch element."""
        _, h, g, _, _ = self.shape
        group = heads[0] // (h // g)
        consecutive = heads == list(range(heads[0], heads[-1] + 1))

        def pick(array: Any) -> Any:
            if array is None:
                return None
            array = array[batch : batch + 1, ...] if array.shape[0] > 1 else array
            if array.shape[1] == 1:
                return array
            if consecutive:
                return array[:, heads[0] : heads[-1] + 1, ...]
            return self.xp.stack([array[:, head, ...] for head in heads], axis=1)

        names = ("query", "start", "stop", "position", "mask", "bias")
        keys = {name: getattr(self, name)[batch : batch + 1, group : group + 1, ...] for name in ("key", "value")}
        return replace(self, **{name: pick(getattr(self, name)) for name in names}, **keys, batch=(1,), has_heads=True)

    def key_mask(self) -> Any:
        """True where a key may be seen, (B|1, H|1, S), for a mask of size 1 on the query axis; None without a mask."""
        seen = None if self.mask is None else self.mask[:, :, 0, :]
        if self.bias is not None:
            weighted = self.bias[:, :, 0, :] != -self.xp.inf
            seen = weighted if seen is None else seen & weighted
        if seen is None:
            return None
        return self.xp.broadcast_to(seen, (*seen.shape[:2], self.key.shape[2]))


def visible_keys(problem: Problem) -> Any:
    """True for the keys that some row of some head of their group may attend to, shape (B, G, S)."""
    xp = problem.xp
    b, h, g, length, s = problem.shape
    position = xp.arange(s, dtype=problem.start.dtype, device=problem.start.device)
    seen = xp.zeros((b, g, s), dtype=xp.bool, device=position.device)
    step = 256
    for i in range(0, length, step):
        rows = slice(i, min(i + step, length))
        part = (position >= problem.start[:, :, rows, None]) & (position < problem.stop[:, :, rows, None])
        for array, weighs in ((problem.mask, None), (problem.bias, -xp.inf)):
            if array is not None:
                tile = array if array.shape[2] == 1 else array[:, :, rows, :]
                part = part & (tile if weighs is None else tile != weighs)
        part = xp.any(part, axis=2)
        seen = seen | xp.any(xp.reshape(part, (b, g, h // g, s)), axis=2)
    return seen


def checked_finite(problem: Problem) -> Problem:
    """Raise for NaN or inf that some row meets; blank out what no row may see, which may hold anything."""
    xp = problem.xp
    if not all_finite(xp, problem.query):
        raise ValueError("query contains NaN or inf; clean it, or pass check_finite=False to let it through")
    seen = None
    clean = {}
    for name in ("key", "value"):
        array = getattr(problem, name)
        if all_finite(xp, array):
            continue
        if seen is None:
            seen = visible_keys(problem)
        bad = seen & ~xp.all(xp.isfinite(array), axis=-1)
        if bool(xp.any(bad)):
            raise ValueError(
                f"{name} contains NaN or inf at a position that some query may attend to; "
                "mask it, clean it, or pass check_finite=False to let it through"
            )
        clean[name] = xp.where(seen[..., None], array, xp.zeros_like(array))
    return replace(problem, **clean) if clean else problem
