"""GEMM on raw addresses inside compiled code.

`numpy.dot` inside numba takes contiguous blocks only and cannot accumulate; called directly, the same BLAS routine
takes any row stride, scales, and adds to what is there.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

__all__ = ["GEMM_ADDRESS", "gemm"]

GEMM_ADDRESS = {
    "float32": get_cython_function_address("scipy.linalg.cython_blas", "sgemm"),
    "float64": get_cython_function_address("scipy.linalg.cython_blas", "dgemm"),
}


@intrinsic
def gemm(typingctx, address, left, right, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):  # type: ignore[no-untyped-def]
    """C (m, n) = alpha op(A) op(B) + beta C, column-major as BLAS counts; `left` transposes A, `right` B.

    The precision is that of `alpha`; `a`, `b`, `c` are addresses, `address` is that of the routine.
    """
    i64 = types.int64
    sig = types.void(i64, types.boolean, types.boolean, i64, i64, i64, alpha, i64, i64, i64, i64, alpha, i64, i64)
    number = ir.FloatType() if alpha == types.float32 else ir.DoubleType()

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        i8, i32 = ir.IntType(8), ir.IntType(32)
        address, left, right, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = args
        i8p, i32p, fp = i8.as_pointer(), i32.as_pointer(), number.as_pointer()
        kinds = [i8p, i8p, i32p, i32p, i32p, fp, fp, i32p, fp, i32p, fp, fp, i32p]
        routine = builder.inttoptr(address, ir.FunctionType(ir.VoidType(), kinds).as_pointer())

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
        operands = by_reference(alpha), pointer(a), integer(lda), pointer(b), integer(ldb)
        result = by_reference(beta), pointer(c), integer(ldc)
        builder.call(routine, [operation(left), operation(right), *sizes, *operands, *result])
        return context.get_dummy_value()

    return sig, codegen
