"""Scores of so few rows that reading the keys takes longer than computing with them."""

from nlattn.backends.numba_cpu.runtime.compilation import inner
from nlattn.backends.numba_cpu.vector.floats import add
from nlattn.backends.numba_cpu.vector.lines import line
from nlattn.backends.numba_cpu.vector.products import lanes

__all__ = ["FEW", "few_scores", "sum_of_keys"]

#: Up to so many rows, dot products take the place of a product whose vectors the rows would not fill.
FEW = 2


@inner(fastmath={"contract"})
def few_scores(rows, m, key_at, key_row, tile):  # type: ignore[no-untyped-def]
    """tile[:, :m] = K rows[:m]^T for scaled queries (m, e) and as many rows of K; 0 in the rest of the first vector."""
    zero = rows.dtype.type(0)
    for j in range(tile.shape[0]):
        tile[j, m : lanes(zero)] = zero
        key = line(key_at + j * key_row, rows.shape[1], zero)
        for i in range(m):
            row, total = rows[i], zero
            for c in range(row.size):
                total = add(total, row[c] * key[c])
            tile[j, i] = total


@inner()
def sum_of_keys(key_at, key_row, n, e, zero):  # type: ignore[no-untyped-def]
    """The sum of all numbers of n keys, which is finite only if they are."""
    total = zero
    for j in range(n):
        key = line(key_at + j * key_row, e, zero)
        for c in range(e):
            total = add(total, key[c])
    return total
