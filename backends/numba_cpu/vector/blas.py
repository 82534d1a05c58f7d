"""GEMM on raw addresses inside compiled code.

`numpy.dot` inside numba takes contiguous blocks only and cannot accumulate; called directly, the same BLAS routine
takes any row stride, scales, and adds to what is there.
"""

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

__all__ = ["gemm"]

#: The names under which compiled code, also from the cache of another process, finds the routines of SciPy's BLAS.
_SYMBOLS = {types.float32: "nlattn_sgemm", types.float64: "nlattn_dgemm"}
for _symbol in _SYMBOLS.values():
    _routine = get_cython_function_address("scipy.linalg.cython_blas", _symbol.removeprefix("nlattn_"))
    llvmlite.binding.add_symbol(_symbol, _routine)


@intrinsic
def gemm(typingctx, left, right, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):  # type: ignore[no-untyped-def]
    """C (m, n) = alpha op(A) op(B) + beta C, column-major as BLAS counts; `left` transposes A, `right` B.

    The precision is that of `alpha`; `a`, `b` and `c` are addresses.
    """
    size, flag = types.int64, types.boolean
    sig = types.void(flag, flag, size, size, size, alpha, size, size, size, size, alpha, size, size)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        i8, i32, real = ir.IntType(8), ir.IntType(32), context.get_value_type(alpha)
        left, right, m, n, k, factor, a, lda, b, ldb, beta, c, ldc = args
        i8p, i32p, fp = i8.as_pointer(), i32.as_pointer(), real.as_pointer()
        kinds = [i8p, i8p, i32p, i32p, i32p, fp, fp, i32p, fp, i32p, fp, fp, i32p]
        type_of_routine = ir.FunctionType(ir.VoidType(), kinds)
        routine = cgutils.get_or_insert_function(builder.module, type_of_routine, _SYMBOLS[alpha])

        def by_reference(value: Any) -> Any:
            return cgutils.alloca_once_value(builder, value)

        def integer(value: Any) -> Any:
            return by_reference(builder.trunc(value, i32))

        def pointer(value: Any) -> Any:
            return builder.inttoptr(value, fp)

        def operation(transposed: Any) -> Any:
            letters = ir.Constant(i8, ord("T")), ir.Constant(i8, ord("N"))
            return by_reference(builder.select(builder.icmp_unsigned("!=", transposed, transposed.type(0)), *letters))

        sizes = integer(m), integer(n), integer(k)
        operands = by_reference(factor), pointer(a), integer(lda), pointer(b), integer(ldb)
        result = by_reference(beta), pointer(c), integer(ldc)
        builder.call(routine, [operation(left), operation(right), *sizes, *operands, *result])
        return context.get_dummy_value()

    return sig, codegen
