"""The largest entries of each row: candidates above a guess, then digits of their bits are counted."""

from typing import Any, NamedTuple

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled, inner
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, contiguous
from nlattn.backends.numba_cpu.runtime.pool import run, scratch, scratch_arrays
from nlattn.backends.numba_cpu.runtime.signatures import group, integer, read, write
from nlattn.backends.numba_cpu.vector.floats import order_of

__all__ = ["choose_largest"]

# Numbers that a task looks at.
GRAIN = 1 << 17
# Bits that are told apart in one pass over the candidates; the counts fill 16 kB.
DIGIT = 11
# Entries of a row from which the guess is made.
SAMPLE = 256


class Work(NamedTuple):
    """Buffers for one row.

    Attributes
    ----------
    place : shape (n,)
        Where the candidates stand.
    code : shape (n,)
        Unsigned integers that order like the candidates.
    left : shape (n,)
        The codes that are still undecided.
    counts : shape (2^DIGIT,)
    largest : shape (SAMPLE // 2,)
        The largest entries of the sample.
    """

    place: Any
    code: Any
    left: Any
    counts: Any
    largest: Any


def choose_largest(x: NumpyArray, k: int) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.choose_largest.choose_largest`."""
    n = x.shape[-1]
    if x.dtype not in (np.float32, np.float64) or not 0 < k <= n or x.size == 0:
        return NotImplemented
    rows = contiguous(x).reshape(-1, n)
    values, indices = np.empty((len(rows), k), rows.dtype), np.empty((len(rows), k), np.int64)
    step, compute = max(1, GRAIN // n), _choose[rows.dtype]

    def task(i: int) -> None:
        place, counts = scratch_arrays(np.dtype(np.int64), (n,), (1 << DIGIT,))
        code, left = scratch_arrays(np.dtype(np.uint64), (n,), (n,))
        work = place, code, left, counts, scratch(SAMPLE // 2, rows.dtype)[: SAMPLE // 2]
        compute(rows, i, min(i + step, len(rows)), work, values, indices)

    run(task, [(i,) for i in range(0, len(rows), step)])
    return values.reshape(*x.shape[:-1], k), indices.reshape(*x.shape[:-1], k)


def _signature(real: Any) -> Any:
    codes, integers = write(types.uint64, 1), write(integer, 1)
    work = group(integers, codes, codes, integers, write(real, 1))
    return types.void(read(real, 2), integer, integer, work, write(real, 2), write(integer, 2))


@compiled(_signature)
def _choose(rows, first, last, work, values, indices):  # type: ignore[no-untyped-def]
    work = Work(*work)
    k, width = values.shape[1], 8 * rows.itemsize
    for i in range(first, last):
        row = rows[i]
        candidates = _above_a_guess(row, k, work)
        for j in range(candidates):
            # -0.0 becomes 0.0, to which it is equal.
            order = np.int64(order_of(row[work.place[j]] + row.dtype.type(0)))
            work.code[j] = np.uint64(order) + np.uint64(1 << (width - 1))
        least, shift, wanted = _least_of_largest(work, candidates, k, width)
        at = 0
        for j in range(candidates):
            leading = work.code[j] >> np.uint64(shift) if shift < width else np.uint64(0)
            if leading > least or (leading == least and wanted > 0):
                wanted -= leading == least
                indices[i, at] = work.place[j]
                values[i, at] = row[work.place[j]]
                at += 1
                if at == k:
                    break


@inner()
def _above_a_guess(row, k, work):  # type: ignore[no-untyped-def]
    """Where the row is at least a lower limit of its k-th largest entry, guessed from a sample; else everywhere."""
    n, m = row.size, min(SAMPLE, row.size)
    share = m * k / n
    rank = int(share + 3 * np.sqrt(share)) + 2
    found = 0
    if rank <= m // 2:
        guess = _ranked(row, m, work.largest[:rank])
        for j in range(n):
            work.place[found] = j
            found += row[j] >= guess
    if found < k:
        found = n
        for j in range(n):
            work.place[j] = j
    return found


@inner()
def _ranked(row, m, largest):  # type: ignore[no-untyped-def]
    """The entry of that rank among m of a row, evenly spaced: the least of the largest ones, which are kept sorted."""
    last = largest.size - 1
    largest[:] = -np.inf
    for j in range(m):
        x = row[j * row.size // m]
        if x > largest[last]:
            at = last
            while at > 0 and x > largest[at - 1]:
                largest[at] = largest[at - 1]
                at -= 1
            largest[at] = x
    return largest[last]


@inner()
def _least_of_largest(work, candidates, k, width):  # type: ignore[no-untyped-def]
    """The bits from `shift` on of the least of the k largest codes, and how many codes of these bits are wanted."""
    some, size, wanted, shift = work.code, candidates, k, width
    # The `size` codes in `some` agree in all bits from `shift` on.
    while shift > 0 and size > wanted:
        step = min(DIGIT, shift)
        shift -= step
        own = np.int64((1 << step) - 1)
        work.counts[:] = 0
        for j in range(size):
            work.counts[np.int64(some[j] >> np.uint64(shift)) & own] += 1
        digit, above = own, 0
        while above + work.counts[digit] < wanted:
            above += work.counts[digit]
            digit -= 1
        wanted -= above
        kept = 0
        for j in range(size):
            code = some[j]
            work.left[kept] = code
            kept += (np.int64(code >> np.uint64(shift)) & own) == digit
        some, size = work.left, kept
    return some[0] >> np.uint64(shift) if shift < width else np.uint64(0), shift, wanted
