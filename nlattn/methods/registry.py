"""One declarative record a method. Tables, tests and the command line are generated from it."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from nlattn.validation import NAMESPACES

__all__ = ["METHODS", "Budget", "Method"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """An argument that trades cost for accuracy."""

    name: str
    default: int
    ladder: tuple[int, ...]
    """Values worth trying, from cheap to dear."""
    unit: str
    """What one unit of it is: ``"keys"`` where it counts keys, so that S of them are exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """What a method is, what it costs, and what it can and cannot do.

    Attributes
    ----------
    causal : None, "weights", "keys" or "strict"
        None: no causal form. "weights": future weights are masked, but the selection looks at future keys. "keys":
        future keys and values have no effect on past outputs. "strict": nor have future queries.
    masks : "any", "keys" or None
        The masks that are honoured: all, those of size 1 on the query axis, or none.
    exact_at : str or None
        The budget at which the method is exact attention.
    partial : bool
        Whether it accepts ``return_lse=True``.
    rows_sum_to_one, convex : bool
        Whether the weights of a row sum to 1, and whether they are also non-negative.
    key_permutation : bool
        Whether permuting keys and values together leaves the output unchanged.
    cost : str
        Multiplications for each head, an expression in L, S, E, Ev and the budgets.
    probe : "rows", "query-blocks" or "full"
        The least part of the output that can be had at a proportional price.
    """

    name: str
    function: str
    family: str
    paper: str
    principle: str
    cost: str
    training_free: bool = True
    causal: Literal["weights", "keys", "strict"] | None
    masks: Literal["any", "keys"] | None
    budgets: tuple[Budget, ...] = ()
    exact_at: str | None = None
    partial: bool = False
    rows_sum_to_one: bool
    convex: bool
    key_permutation: bool
    deterministic: bool
    differentiable: bool = True
    shared_qk: bool = False
    cross_length: bool = True
    namespaces: tuple[str, ...] = NAMESPACES
    probe: Literal["rows", "query-blocks", "full"]
    bounds: tuple[str, ...] = ()

    def operations(self, **sizes: int) -> float:
        """`cost`, multiplications, for L, S, E, Ev and the budgets (their defaults where not given)."""
        names = {budget.name: budget.default for budget in self.budgets} | sizes
        return float(eval(self.cost, {"__builtins__": {}}, names))

    def module(self) -> Any:
        """The module of the function, with its `_prepare` and `_apply`."""
        return importlib.import_module(self.function.rpartition(".")[0])

    def resolve(self) -> Callable[..., Any]:
        """Import and return the function."""
        function: Callable[..., Any] = getattr(self.module(), self.function.rpartition(".")[2])
        return function


_RECORDS = (
    Method(
        name="exact",
        function="nlattn.methods.exact.exact_attention",
        family="exact",
        paper="1706.03762",
        principle="softmax over all keys, streamed in tiles",
        cost="L * S * (E + Ev)",
        causal="strict",
        masks="any",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=True,
        deterministic=True,
        probe="rows",
    ),
    Method(
        name="streaming",
        function="nlattn.methods.sparse.streaming.streaming_attention",
        family="sparse",
        paper="2309.17453",
        principle="the first keys and a sliding window",
        cost="L * (window + sinks) * (E + Ev)",
        causal="strict",
        masks="any",
        budgets=(
            Budget(name="window", default=256, ladder=(64, 128, 256, 512, 1024), unit="keys"),
            Budget(name="sinks", default=4, ladder=(4,), unit="keys"),
        ),
        exact_at="window + sinks >= S",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=True,
        probe="rows",
    ),
    Method(
        name="nystrom",
        function="nlattn.methods.lowrank.nystrom.nystrom_attention",
        family="lowrank",
        paper="2102.03902",
        principle="softmax against landmarks, joined by a pseudo-inverse",
        cost="(L + S) * landmarks * (E + Ev) + 60 * landmarks**3",
        causal=None,
        masks="keys",
        budgets=(Budget(name="landmarks", default=64, ladder=(16, 32, 64, 128, 256), unit="keys"),),
        exact_at="landmarks >= min(L, S)",
        rows_sum_to_one=False,
        convex=False,
        key_permutation=False,
        deterministic=True,
        probe="rows",
    ),
)

#: Every method, by name.
METHODS: Mapping[str, Method] = MappingProxyType({record.name: record for record in _RECORDS})
