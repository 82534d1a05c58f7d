"""The few vector operations that the kernels in LLVM's language are made of."""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from nlattn.backends.numba_cpu.vector.host import HOST

__all__ = ["Emitter"]

INDEX = ir.IntType(64)


class Emitter:
    """Emits operations on vectors of numbers of a type, which lie at addresses that are plain integers.

    A vector fills a register of the host, or has `lanes` numbers.
    """

    def __init__(self, context: Any, builder: Any, kind: Any, lanes: int | None = None) -> None:
        self.builder = builder
        self.size = kind.bitwidth // 8
        self.lanes = lanes or HOST.lanes(self.size)
        self.real = context.get_value_type(kind)
        self.integer = ir.IntType(kind.bitwidth)
        self.vector = ir.VectorType(self.real, self.lanes)
        self.integers = ir.VectorType(self.integer, self.lanes)

    def index(self, x: int) -> Any:
        return ir.Constant(INDEX, x)

    def all(self, x: float) -> Any:
        """A vector of equal constants."""
        return ir.Constant(self.vector, [x] * self.lanes)

    def splat(self, x: Any) -> Any:
        """A vector of equal numbers."""
        none = ir.Constant(ir.VectorType(x.type, self.lanes), ir.Undefined)
        first = self.builder.insert_element(none, x, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, none, zeros)

    def offset(self, address: Any, numbers: int) -> Any:
        return self.builder.add(address, self.index(numbers * self.size)) if numbers else address

    def load_one(self, address: Any) -> Any:
        return self._aligned(self.builder.load(self.builder.inttoptr(address, self.real.as_pointer())))

    def load(self, address: Any) -> Any:
        return self._aligned(self.builder.load(self.builder.inttoptr(address, self.vector.as_pointer())))

    def store(self, x: Any, address: Any) -> None:
        self._aligned(self.builder.store(x, self.builder.inttoptr(address, self.vector.as_pointer())))

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """x y + z, in one operation where the processor has it."""
        name = f"llvm.fmuladd.v{self.lanes}f{8 * self.size}"
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), (x, y, z))

    def loop(self, count: Any, starts: Sequence[Any], body: Callable[[list[Any]], list[Any]]) -> list[Any]:
        """Carry values through `body` so many times; none at all are legal. Return the last ones."""
        builder = self.builder
        entry, inside, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        zero = self.index(0)
        builder.cbranch(builder.icmp_signed(">", count, zero), inside, after)
        builder.position_at_end(inside)
        i = builder.phi(INDEX)
        i.add_incoming(zero, entry)
        carried = [builder.phi(x.type) for x in starts]
        for phi, x in zip(carried, starts, strict=True):
            phi.add_incoming(x, entry)
        new = body(carried)
        following, last = builder.add(i, self.index(1)), builder.block
        i.add_incoming(following, last)
        for phi, x in zip(carried, new, strict=True):
            phi.add_incoming(x, last)
        builder.cbranch(builder.icmp_signed("<", following, count), inside, after)
        builder.position_at_end(after)
        results = [builder.phi(x.type) for x in starts]
        for phi, before, x in zip(results, starts, new, strict=True):
            phi.add_incoming(before, entry)
            phi.add_incoming(x, last)
        return results

    def _aligned(self, instruction: Any) -> Any:
        instruction.align = self.size
        return instruction
