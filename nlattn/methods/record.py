"""The record of a method: what it is, what it can and cannot do, and what it costs.

Tables, tests and attention to a tolerance follow it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from nlattn.arrays.namespaces import NAMESPACES

if TYPE_CHECKING:
    from nlattn.problem.problem import Problem

__all__ = ["Budget", "Record", "Sizes"]


class Sizes(NamedTuple):
    """The sizes that a cost depends on: L queries, S keys, E features of a key and Ev of a value."""

    L: int
    S: int
    E: int
    Ev: int

    @classmethod
    def of(cls, problem: Problem) -> Sizes:
        """The sizes of a problem."""
        return cls(problem.query.shape[2], problem.key.shape[2], problem.query.shape[3], problem.value.shape[3])

    @property
    def shorter(self) -> int:
        """min(L, S)."""
        return min(self.L, self.S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """An argument that trades cost for accuracy. Its default is that of the method's field of the same name."""

    name: str
    ladder: tuple[int, ...]
    """Values worth trying, from cheap to dear."""
    unit: str
    """What it counts: ``"keys"`` where S or more of them make the method exact."""
    least: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a method is, what it costs, and what it can and cannot do.

    Attributes
    ----------
    name : str
        Its public function, where it has one, is ``<name>_attention``.
    family : str
    paper : str
        arXiv id.
    principle : str
    cost : callable
        ``cost(sizes, **budgets)``: multiplications for each head.
    exact_at : callable, optional
        ``exact_at(sizes, **budgets)``: whether the method is exact attention, which then runs in its place.
    causal : None, "mask", "weights", "keys" or "strict"
        None: no causal form. "mask": future keys have no weight, but what is selected or merged may depend on all keys
        and values. "weights": on future keys, but not on their values. "keys": future keys and values have no effect on
        past outputs. "strict": future queries have none either.
    without_lookahead : tuple of (name, value)
        Options with which the causal form is "keys"; empty if there are no such options.
    masks : "any", "keys" or None
        The masks that are honoured: all, those of size 1 on the query axis, or none.
    instead : str
        What to use, and why, where there is no causal form or a mask is refused.
    partial : bool
        Whether it accepts ``return_lse=True``.
    rows_sum_to_one, convex : bool
        Whether the weights of a row sum to 1, and whether they are also non-negative.
    linear : bool
        Whether the output is linear in the values: whether the weights do not depend on them.
    separate_heads : bool
        Whether the query heads of a group have nothing to do with each other.
    key_permutation : bool
        Whether permuting keys and values together leaves the output unchanged.
    probe : "rows", "query-blocks" or "full"
        The smallest part of the output that can be computed at a proportional cost. "query-blocks" needs a
        `BlockMethod`.
    compiled : bool
        Whether only compiled kernels make it faster than exact attention.
    included_in : str, optional
        A method that meets the same keys and others besides. Where attention to a tolerance can try it, this one is
        left out.
    searched : bool
        Whether attention to a tolerance tries it. It should where no other method has a smaller error at the same cost
        on real heads.
    bounds : tuple of str
        Ids of the bounds that apply to it.
    method : type
        The subclass of `Method` that the record belongs to. Each subclass enters itself.
    """

    name: str
    family: str
    paper: str
    principle: str
    cost: Callable[..., float]
    exact_at: Callable[..., bool] | None = None
    training_free: bool = True
    causal: Literal["mask", "weights", "keys", "strict"] | None
    without_lookahead: tuple[tuple[str, Any], ...] = ()
    masks: Literal["any", "keys"] | None
    instead: str = "use exact_attention or streaming_attention"
    budgets: tuple[Budget, ...] = ()
    partial: bool = False
    rows_sum_to_one: bool
    convex: bool
    linear: bool = True
    separate_heads: bool = True
    key_permutation: bool
    deterministic: bool
    differentiable: bool = True
    shared_qk: bool = False
    cross_length: bool = True
    namespaces: tuple[str, ...] = NAMESPACES
    probe: Literal["rows", "query-blocks", "full"]
    searched: bool = False
    compiled: bool = False
    included_in: str | None = None
    bounds: tuple[str, ...] = ()
    method: type[Any] = field(default=object, repr=False, compare=False)
