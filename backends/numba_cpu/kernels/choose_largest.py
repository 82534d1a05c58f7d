"""The largest entries of each row: candidates above a guess, then digits of their bits are counted."""

from typing import Any

import numpy as np
from numba import njit

from nlattn.backends.numba_cpu.runtime.pool import run, scratch

__all__ = ["choose_largest"]

# Numbers that a task looks at.
GRAIN = 1 << 17
DIGIT = 11
SAMPLE = 256


def choose_largest(x: Any, k: int) -> tuple[Any, Any]:
    """See :func:`nlattn.kernels.choose_largest.choose_largest`."""
    n = x.shape[-1]
    if x.dtype not in (np.float32, np.float64) or not 0 < k <= n or x.size == 0:
        return NotImplemented
    rows = np.require(x, x.dtype.newbyteorder("="), ["C", "A"]).reshape(-1, n)
    values = np.empty((len(rows), k), rows.dtype)
    indices = np.empty((len(rows), k), np.int64)
    step = max(1, GRAIN // n)

    def task(i: int) -> None:
        _choose(rows, i, min(i + step, len(rows)), scratch(3 * n, np.dtype(np.uint64)), values, indices)

    run(task, [(i,) for i in range(0, len(rows), step)])
    return values.reshape(*x.shape[:-1], k), indices.reshape(*x.shape[:-1], k)


@njit(nogil=True, cache=True)
def _choose(rows, first, last, buffer, values, indices):  # type: ignore[no-untyped-def]
    n, k = rows.shape[1], values.shape[1]
    width = 8 * rows.itemsize
    counts = np.empty(1 << DIGIT, np.int64)
    keys, left, spots = buffer[:n], buffer[n : 2 * n], buffer[2 * n : 3 * n].view(np.int64)
    sample = np.empty(min(SAMPLE, n), rows.dtype)
    for i in range(first, last):
        row = rows[i]
        candidates = _above_a_guess(row, k, sample, spots)
        _order(row, spots[:candidates], keys)
        # Of the `size` keys in `some`, which agree in all bits from `shift` on, the `wanted` largest are to be found.
        some, size, wanted, shift = keys, candidates, k, width
        while shift > 0 and size > wanted:
            step = min(DIGIT, shift)
            shift -= step
            own = np.int64((1 << step) - 1)
            counts[:] = 0
            for j in range(size):
                counts[np.int64(some[j] >> np.uint64(shift)) & own] += 1
            digit, above = own, 0
            while above + counts[digit] < wanted:
                above += counts[digit]
                digit -= 1
            wanted -= above
            kept = 0
            for j in range(size):
                key = some[j]
                left[kept] = key
                kept += (np.int64(key >> np.uint64(shift)) & own) == digit
            some, size = left, kept
        least = some[0] >> np.uint64(shift) if shift < width else np.uint64(0)
        at = 0
        for j in range(candidates):
            top = keys[j] >> np.uint64(shift) if shift < width else np.uint64(0)
            if top > least or (top == least and wanted > 0):
                wanted -= top == least
                indices[i, at] = spots[j]
                values[i, at] = row[spots[j]]
                at += 1
                if at == k:
                    break


@njit(nogil=True)
def _above_a_guess(row, k, sample, spots):  # type: ignore[no-untyped-def]
    """Where the row is at least a lower limit of its k-th largest entry, guessed from a sample; else everywhere."""
    n, m = row.size, sample.size
    share = m * k / n
    rank = int(share + 3 * np.sqrt(share)) + 2
    found = 0
    if rank <= m // 2:
        for j in range(m):
            sample[j] = row[j * n // m]
        sample.sort()
        guess = sample[m - rank]
        for j in range(n):
            spots[found] = j
            found += row[j] >= guess
    if found < k:
        found = n
        for j in range(n):
            spots[j] = j
    return found


@njit(nogil=True)
def _order(row, spots, keys):  # type: ignore[no-untyped-def]
    """Unsigned integers that order like the numbers, with 0 = -0."""
    zero = row.dtype.type(0)
    if row.itemsize == 4:
        for j in range(spots.size):
            bits = np.float32(row[spots[j]] + zero).view(np.int32)
            bits = np.int32(bits ^ np.int32(np.int32(bits >> np.int32(31)) & np.int32(2**31 - 1)))
            keys[j] = np.uint64(np.int64(bits) + np.int64(2**31))
    else:
        for j in range(spots.size):
            wide = np.float64(row[spots[j]] + zero).view(np.int64)
            wide = np.int64(wide ^ (np.int64(wide >> np.int64(63)) & np.int64(2**63 - 1)))
            keys[j] = np.uint64(wide) ^ np.uint64(1 << 63)
