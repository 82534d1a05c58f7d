"""What hides keys from rows, and the weights of keys, applied to a tile of scores."""

from typing import Any, NamedTuple

import numpy as np

from nlattn.backends.numba_cpu.runtime.compilation import inner
from nlattn.backends.numba_cpu.runtime.layout import frozen
from nlattn.backends.numba_cpu.runtime.signatures import group, integer
from nlattn.backends.numba_cpu.vector.lines import line, strided_line
from nlattn.backends.numba_cpu.vector.score_rows import biased

__all__ = ["HIDDEN", "WORD", "ZERO", "Hidden", "Masks", "by_intervals", "hidden", "hide", "hide_edges", "rows_that_see"]

# A position before and after all others.
FIRST, LAST = np.int64(-(1 << 62)), np.int64(1 << 62)
# The type of positions and codes, and its bytes.
ZERO, WORD = np.int64(0), 8


class Hidden(NamedTuple):
    """What hides keys from rows, as integers; addresses of arrays are 0 where nothing is hidden by them.

    Attributes
    ----------
    length, keys : int
        L and S.
    start, stop : address of integers, shape (B H, L)
        A row sees the keys whose positions p are start <= p < stop.
    position : address of integers, shape (B G, S)
        0 where keys stand in the order of their positions.
    weight : address of numbers, shape (B G, S)
        Added to the scores of a key; -inf hides it.
    rounds, code, key_code : int and addresses of integers, shapes (B H, R, L), (B G, R, S)
        A row does not see the keys whose code equals its own for one of the R.
    mask, bias : address of bools and numbers, shape (B, H, L, S)
        False hides a pair, the bias is added. Each is followed by the bytes to the next element of its axes.
    """

    length: int
    keys: int
    start: int
    stop: int
    position: int
    weight: int
    rounds: int
    code: int
    key_code: int
    mask: int
    mask_batch: int
    mask_head: int
    mask_row: int
    mask_key: int
    bias: int
    bias_batch: int
    bias_head: int
    bias_row: int
    bias_key: int


#: The type of `Hidden` in a signature.
HIDDEN = group(*(integer,) * len(Hidden._fields))


class Masks(NamedTuple):
    """The arrays of `Hidden`, with axes for batch and heads; codes have rows or keys before their last axis."""

    start: Any = None
    stop: Any = None
    position: Any = None
    weight: Any = None
    met: tuple[Any, Any] | None = None
    mask: Any = None
    bias: Any = None


def by_intervals(masks: Masks) -> bool:
    """Whether only intervals of keys in the order of their positions hide keys."""
    return all(x is None for x in masks[2:])


def hidden(masks: Masks, length: int, keys: int, dtype: Any) -> tuple[Hidden, list[Any]]:
    """`Hidden` of arrays, and what must live as long as it is used."""
    met = masks.met or (None, None)
    codes = [None if x is None else np.moveaxis(x, -1, -2) for x in met]
    whole = [None if x is None else frozen(x, np.int64) for x in (masks.start, masks.stop, masks.position, *codes)]
    weight = None if masks.weight is None else frozen(masks.weight, dtype)
    pairs = [
        None if x is None else np.require(x, kind, "A") for x, kind in ((masks.mask, np.bool_), (masks.bias, dtype))
    ]
    start, stop, position, code, key_code, at = (*(0 if x is None else x.ctypes.data for x in (*whole, weight)),)
    strided = [(0,) * 5 if x is None else (x.ctypes.data, *x.strides) for x in pairs]
    rounds = 0 if codes[0] is None else codes[0].shape[2]
    found = Hidden(length, keys, start, stop, position, at, rounds, code, key_code, *strided[0], *strided[1])
    return found, [*whole, weight, *pairs]


@inner()
def rows_that_see(hidden, row, m, begin, end):  # type: ignore[no-untyped-def]
    """Which of m rows see keys of begin <= j < end.

    Return the first of these rows, the row after the last of them, and whether all m rows see all of the keys.
    """
    start, stop = line(hidden.start + row * WORD, m, ZERO), line(hidden.stop + row * WORD, m, ZERO)
    first, last, all_of_them = m, 0, True
    for i in range(m):
        if start[i] < end and stop[i] > begin:
            first, last = min(first, i), i + 1
        all_of_them = all_of_them and start[i] <= begin and stop[i] >= end
    return first, last, all_of_them


@inner()
def hide(hidden, head, i0, columns, j0, tile):  # type: ignore[no-untyped-def]
    """Add the weights of the keys from j0 on to a tile of scores, and set to -inf what its rows do not see.

    Column i of the tile is row i0 + i. `head` holds the number of the head and of its group, counted through the batch,
    and how many heads a batch element has; `columns` the first and last of the columns that are met, and whether
    intervals hide nothing from them.
    """
    (h, group, heads), (first, last, simple), n = head, columns, tile.shape[0]
    # Loops run from 0 over parts of arrays: numba cannot tell that an index i0 + i is not negative, and does not
    # vectorise such loops.
    m, row, key, like = last - first, i0 + first, group * hidden.keys + j0, tile.dtype.type(0)
    if hidden.weight:
        _add_weights(line(hidden.weight + key * tile.itemsize, n, like), first, last, tile)
    if hidden.bias:
        at = hidden.bias + h // heads * hidden.bias_batch + h % heads * hidden.bias_head + row * hidden.bias_row
        for i in range(m):
            at_row = at + i * hidden.bias_row + j0 * hidden.bias_key
            _add_bias(strided_line(at_row, hidden.bias_key, n, like), tile[:, first + i])
    if hidden.mask:
        at = hidden.mask + h // heads * hidden.mask_batch + h % heads * hidden.mask_head + row * hidden.mask_row
        for i in range(m):
            at_row = at + i * hidden.mask_row + j0 * hidden.mask_key
            _hide_masked(strided_line(at_row, hidden.mask_key, n, True), tile[:, first + i])
    if not simple:
        if hidden.position:
            at = (h * hidden.length + row) * WORD
            start, stop = line(hidden.start + at, m, ZERO), line(hidden.stop + at, m, ZERO)
            _hide_positions(line(hidden.position + key * WORD, n, ZERO), start, stop, first, tile)
        else:
            hide_edges(hidden, h * hidden.length + row, m, first, j0, tile)
    for c in range(hidden.rounds):
        own = hidden.code + ((h * hidden.rounds + c) * hidden.length + row) * WORD
        other = hidden.key_code + ((group * hidden.rounds + c) * hidden.keys + j0) * WORD
        _hide_codes(line(own, m, ZERO), line(other, n, ZERO), first, tile)


@inner()
def _add_weights(weight, first, last, tile):  # type: ignore[no-untyped-def]
    low = tile.dtype.type(-np.inf)
    for j in range(weight.size):
        row, extra = tile[j, first:last], weight[j]
        for i in range(row.size):
            row[i] = low if extra == low else row[i] + extra


@inner()
def _add_bias(bias, column):  # type: ignore[no-untyped-def]
    for j in range(bias.size):
        column[j] = biased(column[j], bias[j])


@inner()
def _hide_masked(mask, column):  # type: ignore[no-untyped-def]
    low = column.dtype.type(-np.inf)
    for j in range(mask.size):
        column[j] = column[j] if mask[j] else low


@inner()
def _hide_positions(position, start, stop, first, tile):  # type: ignore[no-untyped-def]
    low, m = tile.dtype.type(-np.inf), start.size
    latest, soonest = FIRST, LAST
    for i in range(m):
        latest, soonest = max(latest, start[i]), min(soonest, stop[i])
    for j in range(position.size):
        p = position[j]
        if p < latest or p >= soonest:
            row = tile[j, first : first + m]
            for i in range(m):
                row[i] = row[i] if start[i] <= p and p < stop[i] else low


@inner()
def hide_edges(hidden, row, m, first, j0, tile):  # type: ignore[no-untyped-def]
    """Set the scores of the keys that m rows do not see to -inf, where keys stand in the order of their positions.

    The tile begins with key j0; what a row does not see lies at its two ends. `row` is the number of the first row,
    counted through all heads, and `first` its column.
    """
    start, stop = line(hidden.start + row * WORD, m, ZERO), line(hidden.stop + row * WORD, m, ZERO)
    low, n = tile.dtype.type(-np.inf), tile.shape[0]
    for i in range(m):
        left, right = min(max(start[i] - j0, 0), n), min(max(stop[i] - j0, 0), n)
        for j in range(left):
            tile[j, first + i] = low
        for j in range(right, n):
            tile[j, first + i] = low


@inner()
def _hide_codes(code, key_code, first, tile):  # type: ignore[no-untyped-def]
    low, m = tile.dtype.type(-np.inf), code.size
    for j in range(key_code.size):
        row, other = tile[j, first : first + m], key_code[j]
        for i in range(m):
            row[i] = low if code[i] == other else row[i]
