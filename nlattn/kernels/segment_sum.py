"""Sums of rows by segment."""

import math

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.typing import Array, Namespace
from nlattn.dispatch import kernel

__all__ = ["segment_sum"]

# Numbers gathered at a time.
BLOCK = 1 << 22
# Terms of the longest sum that is formed at once; longer ones are sums of such sums, which keeps their digits.
RUN = 64


@kernel
def segment_sum(x: Array, index: Array, m: int, weights: Array | None = None) -> Array:
    """out[..., s, :] is the sum of weights[..., i, k] x[..., i, :] over the i and k with index[..., i, k] = s.

    Parameters
    ----------
    x : array, shape (..., n, c)
        Real floating.
    index : integer array, shape (..., n, k)
        The k segments that each row is added to, from 0 to m - 1. Leading axes broadcast against those of `x`.
    m : int
        Number of segments.
    weights : array, shape of `index`, optional
        In the dtype of `x`.

    Returns
    -------
    out : array, shape (..., m, c)
        In the dtype of `x`; 0 where a segment is empty. Sums are formed in a fixed order, in float64 or as sums of
        partial sums, so that long ones keep their digits.
    """
    xp = array_namespace(x, index)
    n, c = x.shape[-2:]
    k = index.shape[-1]
    lead = np.broadcast_shapes(x.shape[:-2], index.shape[:-2])
    count = math.prod(lead)
    if 0 in (n, c, m, k, count):
        return xp.zeros((*lead, m, c), dtype=x.dtype, device=x.device)

    def flat(array: Array) -> Array:
        return xp.reshape(xp.broadcast_to(array, (*lead, n, k)), (-1,))

    # One long list sorted by segment: the rows to be added, and their segments.
    source = flat(xp.reshape(_arange(xp, math.prod(x.shape[:-1]), index), (*x.shape[:-1], 1)))
    segment = flat(index) + flat(xp.reshape(_arange(xp, count, index) * m, (*lead, 1, 1)))
    order = xp.argsort(segment, stable=True)
    source, segment = xp.take(source, order), xp.take(segment, order)
    if weights is not None:
        weights = xp.take(flat(weights), order)
    sums = xp.reshape(x, (-1, c))
    while True:
        sums, segment = _runs(sums, source, segment, count * m, weights)
        if sums.shape[0] == count * m:
            return xp.reshape(sums, (*lead, m, c))
        source, weights = _arange(xp, sums.shape[0], index), None


def _runs(rows: Array, source: Array, segment: Array, m: int, weights: Array | None) -> tuple[Array, Array]:
    """Sum runs of at most `width` rows[source] of one segment; at least one run each. Sums, and their segments."""
    xp = array_namespace(rows, segment)
    n = segment.shape[0]
    edges = xp.searchsorted(segment, _arange(xp, m + 1, segment))
    begin, end = edges[:-1], edges[1:]
    width = max(1, min(int(xp.max(end - begin)), 2 * (n // m + 4), RUN))
    runs = xp.maximum((end - begin + width - 1) // width, xp.ones_like(begin))
    last = xp.cumulative_sum(runs)
    run = _arange(xp, int(last[-1]), segment)
    segment = xp.searchsorted(last, run, side="right")
    first = xp.take(begin, segment) + width * (run - xp.take(last - runs, segment))
    end = xp.take(end, segment)
    steps = _arange(xp, width, segment)
    sums = []
    block = max(1, BLOCK // (width * rows.shape[1]))
    for i in range(0, run.shape[0], block):
        j = min(i + block, run.shape[0])
        at = first[i:j, None] + steps
        there = at < end[i:j, None]
        at = xp.reshape(xp.where(there, at, xp.zeros_like(at)), (-1,))
        found = xp.take(rows, xp.take(source, at), axis=0)
        if weights is not None:
            found = found * xp.take(weights, at)[:, None]
        found = xp.reshape(found, (j - i, width, rows.shape[1]))
        sums.append(xp.sum(xp.where(there[:, :, None], found, xp.zeros_like(found)), axis=1))
    return sums[0] if len(sums) == 1 else xp.concat(sums, axis=0), segment


def _arange(xp: Namespace, n: int, like: Array) -> Array:
    return xp.arange(n, dtype=like.dtype, device=like.device)
