"""The counter from which threads take the numbers of their tasks."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["take"]


@intrinsic
def take(typingctx, address):  # type: ignore[no-untyped-def]
    """Add 1 to the integer at an address, and return what it was before: each number goes to one thread."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        integer = ir.IntType(64)
        place = builder.inttoptr(args[0], integer.as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(integer, 1), "monotonic")

    return types.int64(address), codegen
