"""Pivots among candidates, and the Cholesky factor of their block."""

from array_api_compat import array_namespace

from nlattn.arrays.host import to_float, to_host
from nlattn.arrays.typing import Array, Namespace
from nlattn.dispatch import kernel

__all__ = ["choose_pivots"]


@kernel
def choose_pivots(core: Array, floors: Array, threshold: float, draws: Array | None, most: int) -> tuple[Array, Array]:
    """Which candidates become pivots of a Cholesky factorisation, one after the other.

    Parameters
    ----------
    core : array, shape (b, b)
        Rows and columns of the candidates, of what is left of a semidefinite matrix; real or complex Hermitian.
    floors : array, shape (b,)
        A candidate is passed over when no more than this is left on its diagonal.
    threshold : float
        The largest diagonal entry elsewhere.
    draws : array, shape (b,), or None
        Uniform on [0, 1). The candidates are taken in order, and each becomes a pivot if its draw times its diagonal
        in `core` is below what the pivots before it have left there. None: the largest candidate in turn,
        as long as it is not below `threshold`; the first one in any case.
    most : int
        No more pivots than this.

    Returns
    -------
    chosen : integer array, shape (r,)
        Numbers of candidates, in order; there may be none.
    triangle : array, shape (r, r)
        Lower triangular: ``triangle @ triangle^H`` is the block of the pivots.
    """
    xp = array_namespace(core)
    is_complex = xp.isdtype(core.dtype, "complex floating")
    rest: Array = core
    before = to_host(_diagonal(xp, core)).tolist()
    least = to_host(floors).tolist()
    uniform = None if draws is None else to_host(draws).tolist()
    chosen: list[int] = []
    columns: list[Array] = []
    for step in range(core.shape[0]):
        if len(chosen) == most:
            break
        now = _diagonal(xp, rest)
        at = step if uniform is not None else int(xp.argmax(now))
        value = to_float(now[at])
        if uniform is None:
            if value <= least[at] or (chosen and value < threshold):
                break
        elif value <= least[at] or uniform[at] * before[at] >= value:
            continue
        column = rest[:, at] / value**0.5
        rest = rest - column[:, None] * (xp.conj(column) if is_complex else column)[None, :]
        chosen.append(at)
        columns.append(column)
    index = xp.asarray(chosen, dtype=xp.int64, device=core.device)
    if not chosen:
        return index, core[:0, :0]
    triangle = xp.take(xp.stack(columns, axis=1), index, axis=0)
    return index, xp.tril(triangle)


def _diagonal(xp: Namespace, a: Array) -> Array:
    d = xp.linalg.diagonal(a)
    return xp.real(d) if xp.isdtype(a.dtype, "complex floating") else d
