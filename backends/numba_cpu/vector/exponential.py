"""A vectorisable exponential, one version for each precision, and the sum and maximum that go with it."""

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic, overload

__all__ = ["add", "exp_columns", "exp_sum", "maximum"]


def _fitted(degree: int) -> tuple[Any, ...]:
    """float32 coefficients of a polynomial for 2^x on [-1/2, 1/2], near-minimax in relative error."""
    nodes = 0.5 * np.cos(np.pi * (np.arange(40 * degree) + 0.5) / (40 * degree))
    fit = np.polynomial.Polynomial.fit(nodes, np.exp2(nodes), degree, domain=[-0.5, 0.5], w=np.exp2(-nodes))
    coefficients = fit.convert().coef
    coefficients[0] = 1.0  # 2^0 is exactly 1
    return tuple(map(np.float32, coefficients))


def _taylor(degree: int) -> tuple[Any, ...]:
    """float64 coefficients of 2^x: a fit would not be good to the last digit."""
    return tuple(np.float64(math.log(2) ** k / math.factorial(k)) for k in range(degree + 1))


@intrinsic
def add(typingctx, a, b):  # type: ignore[no-untyped-def]
    """a + b, free to be reassociated; the rest of the loop is not, since (x + M) - M must stay."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.fadd(*args, flags=("reassoc", "nsz"))

    return a(a, b), codegen


S0, S1, S2, S3, S4, S5, S6 = _fitted(6)
S_LOG2E = np.float32(math.log2(math.e))
S_MAGIC, S_LOW, S_BIAS, S_BITS = np.float32(1.5 * 2**23), np.float32(-127), np.int32(127), np.int32(23)


@njit(nogil=True, fastmath={"contract"})
def _exp_sum_float32(row, shift):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for j in range(row.size):
        x = (row[j] - shift) * S_LOG2E
        x = S_LOW if x < S_LOW else x  # this form of maximum keeps a NaN
        rounded = np.float32(x + S_MAGIC)  # its low bits are the nearest integer
        r = x - (rounded - S_MAGIC)
        p = S0 + r * (S1 + r * (S2 + r * (S3 + r * (S4 + r * (S5 + r * S6)))))
        power = np.int32((rounded.view(np.int32) + S_BIAS) << S_BITS)
        e = p * power.view(np.float32)
        row[j] = e
        total = add(total, e)
    return total


@njit(nogil=True, fastmath={"contract"})
def _exp_columns_float32(tile, shift, total):  # type: ignore[no-untyped-def]
    for j in range(tile.shape[0]):
        row = tile[j]
        for i in range(row.size):
            x = (row[i] - shift[i]) * S_LOG2E
            x = S_LOW if x < S_LOW else x
            rounded = np.float32(x + S_MAGIC)
            r = x - (rounded - S_MAGIC)
            p = S0 + r * (S1 + r * (S2 + r * (S3 + r * (S4 + r * (S5 + r * S6)))))
            power = np.int32((rounded.view(np.int32) + S_BIAS) << S_BITS)
            e = p * power.view(np.float32)
            row[i] = e
            total[i] += e


D0, D1, D2, D3, D4, D5, D6, D7, D8, D9, D10, D11, D12, D13 = _taylor(13)
D_LOG2E = np.float64(math.log2(math.e))
D_MAGIC, D_LOW, D_BIAS, D_BITS = np.float64(1.5 * 2**52), np.float64(-1023), np.int64(1023), np.int64(52)


@njit(nogil=True, fastmath={"contract"})
def _exp_sum_float64(row, shift):  # type: ignore[no-untyped-def]
    total = np.float64(0)
    for j in range(row.size):
        x = (row[j] - shift) * D_LOG2E
        x = D_LOW if x < D_LOW else x
        rounded = np.float64(x + D_MAGIC)
        r = x - (rounded - D_MAGIC)
        p = D7 + r * (D8 + r * (D9 + r * (D10 + r * (D11 + r * (D12 + r * D13)))))
        p = D0 + r * (D1 + r * (D2 + r * (D3 + r * (D4 + r * (D5 + r * (D6 + r * p))))))
        power = np.int64((rounded.view(np.int64) + D_BIAS) << D_BITS)
        e = p * power.view(np.float64)
        row[j] = e
        total = add(total, e)
    return total


@njit(nogil=True, fastmath={"contract"})
def _exp_columns_float64(tile, shift, total):  # type: ignore[no-untyped-def]
    for j in range(tile.shape[0]):
        row = tile[j]
        for i in range(row.size):
            x = (row[i] - shift[i]) * D_LOG2E
            x = D_LOW if x < D_LOW else x
            rounded = np.float64(x + D_MAGIC)
            r = x - (rounded - D_MAGIC)
            p = D7 + r * (D8 + r * (D9 + r * (D10 + r * (D11 + r * (D12 + r * D13)))))
            p = D0 + r * (D1 + r * (D2 + r * (D3 + r * (D4 + r * (D5 + r * (D6 + r * p))))))
            power = np.int64((rounded.view(np.int64) + D_BIAS) << D_BITS)
            e = p * power.view(np.float64)
            row[i] = e
            total[i] += e


# A floating maximum does not vectorise without assuming NaN away; on integers that order like the floats it does.
# A NaN becomes the maximum (or is passed over where its sign is set, and then shows in the sum).
S_SIGN, S_REST, S_LEAST = np.int32(31), np.int32(2**31 - 1), np.int32(-(2**31))
D_SIGN, D_REST, D_LEAST = np.int64(63), np.int64(2**63 - 1), np.int64(-(2**63))


@njit(nogil=True)
def _maximum_float32(row):  # type: ignore[no-untyped-def]
    bits = row.view(np.int32)
    top = S_LEAST
    for j in range(bits.size):
        x = bits[j]
        x = np.int32(x ^ np.int32(np.int32(x >> S_SIGN) & S_REST))
        if x > top:
            top = x
    top = np.int32(top ^ np.int32(np.int32(top >> S_SIGN) & S_REST))
    return top.view(np.float32)


@njit(nogil=True)
def _maximum_float64(row):  # type: ignore[no-untyped-def]
    bits = row.view(np.int64)
    top = D_LEAST
    for j in range(bits.size):
        x = bits[j]
        x = np.int64(x ^ ((x >> D_SIGN) & D_REST))
        if x > top:
            top = x
    return np.int64(top ^ ((top >> D_SIGN) & D_REST)).view(np.float64)


def exp_sum(row: Any, shift: Any) -> Any:
    """row <- exp(row - shift) in place, for row <= shift; return the sum. -inf gives 0, NaN gives NaN."""
    raise NotImplementedError("for compiled code only")


def exp_columns(tile: Any, shift: Any, total: Any) -> None:
    """tile <- exp(tile - shift) in place, a shift for each column, and total += the sum of each column."""
    raise NotImplementedError("for compiled code only")


def maximum(row: Any) -> Any:
    """The maximum of a nonempty row."""
    raise NotImplementedError("for compiled code only")


@overload(exp_sum)
def _(row, shift):  # type: ignore[no-untyped-def]
    if row.dtype == types.float32:
        return lambda row, shift: _exp_sum_float32(row, shift)
    return lambda row, shift: _exp_sum_float64(row, shift)


@overload(exp_columns)
def _(tile, shift, total):  # type: ignore[no-untyped-def]
    if tile.dtype == types.float32:
        return lambda tile, shift, total: _exp_columns_float32(tile, shift, total)
    return lambda tile, shift, total: _exp_columns_float64(tile, shift, total)


@overload(maximum)
def _(row):  # type: ignore[no-untyped-def]
    if row.dtype == types.float32:
        return lambda row: _maximum_float32(row)
    return lambda row: _maximum_float64(row)
