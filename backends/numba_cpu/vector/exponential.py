"""An exponential that is vectorised, and the maximum and the sums that a softmax needs with it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nlattn.backends.numba_cpu.runtime.compilation import inner
from nlattn.backends.numba_cpu.vector.floats import add, float_of, order_of

__all__ = ["emit_exp", "exp", "exp_sum", "maximum"]


def _fitted(degree: int) -> tuple[float, ...]:
    """Coefficients, rounded to float32, of a polynomial for 2^x on [-1/2, 1/2]: near-minimax in relative error."""
    nodes = 0.5 * np.cos(np.pi * (np.arange(40 * degree) + 0.5) / (40 * degree))
    fit = np.polynomial.Polynomial.fit(nodes, np.exp2(nodes), degree, domain=[-0.5, 0.5], w=np.exp2(-nodes))
    coefficients = fit.convert().coef
    coefficients[0] = 1.0  # 2^0 is exactly 1
    return tuple(float(np.float32(c)) for c in coefficients)


def _taylor(degree: int) -> tuple[float, ...]:
    """Coefficients of 2^x in float64, for which a fit would not be good to the last digit."""
    return tuple(math.log(2) ** k / math.factorial(k) for k in range(degree + 1))


#: Coefficients of 2^x, the bits of a fraction, and the bias of an exponent, for each precision.
_FORMATS = {types.float32: (_fitted(6), 23, 127), types.float64: (_taylor(13), 52, 1023)}


def emit_exp(builder: Any, kind: Any, x: Any, integers: Any, constant: Callable[[Any, float], Any]) -> Any:
    """exp(x) for x <= 0 of a type, or a vector of it; `constant` makes one of such a type, `integers` has its bits."""
    coefficients, fraction, bias = _FORMATS[kind]
    flags, real = ("contract",), x.type
    magic, lowest = constant(real, 1.5 * 2.0**fraction), constant(real, float(-bias))
    y = builder.fmul(x, constant(real, float(np.dtype(kind.name).type(math.log2(math.e)))), flags)
    # A comparison of this form is false for NaN, which is then kept.
    y = builder.select(builder.fcmp_ordered("<", y, lowest), lowest, y)
    # The low bits of this sum are the integer nearest to y.
    rounded = builder.fadd(y, magic, flags)
    rest = builder.fsub(y, builder.fsub(rounded, magic, flags), flags)
    power: Any = constant(real, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        power = builder.fadd(constant(real, coefficient), builder.fmul(rest, power, flags), flags)
    exponent = builder.add(builder.bitcast(rounded, integers), constant(integers, bias))
    scale = builder.bitcast(builder.shl(exponent, constant(integers, fraction)), real)
    return builder.fmul(power, scale, flags)


@intrinsic
def exp(typingctx, x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0; exp(-inf) = 0, and a NaN stays one. Relative error below 2 eps."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return emit_exp(builder, x, args[0], ir.IntType(x.bitwidth), ir.Constant)

    return x(x), codegen


@inner(fastmath={"contract"})
def exp_sum(row, shift):  # type: ignore[no-untyped-def]
    """row <- exp(row - shift) in place, for row <= shift; return the sum. -inf gives 0, NaN gives NaN."""
    total = row.dtype.type(0)
    for j in range(row.size):
        row[j] = exp(row[j] - shift)
        total = add(total, row[j])
    return total


@inner()
def maximum(row):  # type: ignore[no-untyped-def]
    """The maximum of a nonempty row.

    A NaN becomes the maximum, or is passed over where its sign is set; it then shows in the sum.
    """
    top = order_of(row[0])
    for j in range(row.size):
        top = max(top, order_of(row[j]))
    return float_of(top)
