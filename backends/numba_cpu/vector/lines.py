"""One-dimensional arrays at addresses: what compiled code is handed as an array takes much longer to compile."""

from typing import Any

from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

__all__ = ["line", "strided_line"]


@intrinsic
def line(typingctx, address, count, like):  # type: ignore[no-untyped-def]
    """`count` numbers of the type of `like`, side by side."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _array(context, builder, signature.return_type, args[0], None, args[1])

    return types.Array(like, 1, "C")(address, count, like), codegen


@intrinsic
def strided_line(typingctx, address, step, count, like):  # type: ignore[no-untyped-def]
    """The same, `step` bytes apart."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _array(context, builder, signature.return_type, *args[:3])

    return types.Array(like, 1, "A")(address, step, count, like), codegen


def _array(context: Any, builder: Any, kind: Any, address: Any, step: Any, count: Any) -> Any:
    number = context.get_data_type(kind.dtype)
    size = context.get_constant(types.intp, context.get_abi_sizeof(number))
    array = make_array(kind)(context, builder)
    data, strides = builder.inttoptr(address, number.as_pointer()), [size if step is None else step]
    populate_array(array, data=data, shape=[count], strides=strides, itemsize=size, meminfo=None)
    return array._getvalue()
