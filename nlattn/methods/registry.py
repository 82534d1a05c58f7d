"""One declarative record a method. Tables, tests and the command line are generated from it."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from nlattn.arrays.namespaces import NAMESPACES

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
    causal : None, "mask", "weights", "keys" or "strict"
        None: no causal form. "mask": future keys have no weight, but what is selected or merged may depend on all keys
        and values. "weights": on future keys, but not on their values. "keys": future keys and values have no effect on
        past outputs. "strict": nor have future queries.
    without_lookahead : tuple of (name, value)
        Options with which it is "keys"; none if there are no such.
    masks : "any", "keys" or None
        The masks that are honoured: all, those of size 1 on the query axis, or none.
    exact_at : str or None
        The budget at which the method is exact attention.
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
    cost : str
        Multiplications for each head, an expression in L, S, E, Ev and the budgets.
    probe : "rows", "query-blocks" or "full"
        The least part of the output that can be had at a proportional price.
    compiled : bool
        Whether only compiled kernels make it faster than exact attention.
    included_in : str, optional
        A method that meets the same keys, and more of them or better ones: where it can be tried, this one is not.
    searched : bool
        Whether attention to a tolerance tries it: where on real heads no other method has a smaller error at its price.
    """

    name: str
    function: str
    family: str
    paper: str
    principle: str
    cost: str
    training_free: bool = True
    causal: Literal["mask", "weights", "keys", "strict"] | None
    without_lookahead: tuple[tuple[str, Any], ...] = ()
    masks: Literal["any", "keys"] | None
    budgets: tuple[Budget, ...] = ()
    exact_at: str | None = None
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


#: Of attention that estimates normalisers from some keys exactly and samples of the others.
_SAMPLED = (
    "normaliser_mean",
    "normaliser_variance",
    "normaliser_variance_limit",
    "normaliser_deviation",
    "normaliser_perturbation",
    "ratio_identity",
    "ratio_variance",
    "ratio_error",
    "sampled_attention_spectral",
)

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
        bounds=("online_softmax_rounding",),
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
        searched=True,
        included_in="multipole",
        bounds=("dropped_mass", "dropped_mass_identity"),
    ),
    Method(
        name="topk",
        function="nlattn.methods.sparse.topk.topk_attention",
        family="sparse",
        paper="2106.06899",
        principle="the keys with the largest scores of each query",
        cost="L * S * (E + 128) + L * top_k * (E + Ev)",  # a score is selected at the price of 128
        causal="strict",
        masks="any",
        budgets=(Budget(name="top_k", default=256, ladder=(32, 64, 128, 256, 512), unit="keys"),),
        exact_at="top_k >= S",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=True,
        deterministic=True,
        probe="rows",
        bounds=("dropped_mass", "dropped_mass_identity"),
    ),
    Method(
        name="reformer",
        function="nlattn.methods.sparse.reformer.reformer_attention",
        family="sparse",
        paper="2001.04451",
        principle="blocks of equal hash codes, and the blocks before them, in several rounds",
        cost="L * rounds * 2 * bucket_size * (E + Ev)",
        causal="weights",
        masks="keys",
        budgets=(
            Budget(name="bucket_size", default=64, ladder=(32, 64, 128, 256), unit="keys"),
            Budget(name="rounds", default=4, ladder=(1, 2, 4, 8), unit="rounds"),
        ),
        exact_at="bucket_size >= S",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=False,
        probe="full",
        bounds=("dropped_mass", "dropped_mass_identity", "cross_polytope_collision"),
    ),
    Method(
        name="smyrf",
        function="nlattn.methods.sparse.smyrf.smyrf_attention",
        family="sparse",
        paper="2010.05315",
        principle="balanced clusters of large inner products, in several rounds",
        cost="L * rounds * cluster_size * (E + Ev)",
        causal="keys",
        masks="keys",
        budgets=(
            Budget(name="cluster_size", default=128, ladder=(64, 128, 256, 512), unit="keys"),
            Budget(name="rounds", default=4, ladder=(1, 2, 4, 8), unit="rounds"),
        ),
        exact_at="cluster_size >= S",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=True,
        deterministic=False,
        probe="full",
        bounds=("transformed_distance", "dropped_mass", "dropped_mass_identity"),
    ),
    Method(
        name="hyper",
        function="nlattn.methods.sparse.hyper.hyper_attention",
        family="sparse",
        paper="2310.05869",
        principle="blocks of similar hash codes, and uniformly sampled keys for the rest",
        cost="L * (bucket_size + samples) * (E + Ev)",
        causal="keys",
        masks="keys",
        budgets=(
            Budget(name="bucket_size", default=256, ladder=(64, 128, 256, 512), unit="keys"),
            Budget(name="samples", default=256, ladder=(64, 128, 256, 512), unit="keys"),
        ),
        exact_at="bucket_size >= S",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=False,
        probe="full",
        bounds=_SAMPLED,
    ),
    Method(
        name="kdeformer",
        function="nlattn.methods.sparse.kdeformer.kdeformer_attention",
        family="sparse",
        paper="2302.02451",
        principle="blocks of similar hash codes, and keys sampled by value norms for the rest",
        cost="L * (bucket_size + samples) * (E + Ev)",
        causal="keys",
        masks="keys",
        budgets=(
            Budget(name="bucket_size", default=64, ladder=(32, 64, 128, 256), unit="keys"),
            Budget(name="samples", default=256, ladder=(64, 128, 256, 512), unit="keys"),
        ),
        exact_at="bucket_size >= S",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        linear=False,
        key_permutation=False,
        deterministic=False,
        probe="full",
        bounds=_SAMPLED,
    ),
    Method(
        name="heavy_hitter",
        function="nlattn.methods.sparse.heavy_hitter.heavy_hitter_attention",
        family="sparse",
        paper="2306.14048",
        principle="the keys that queries attend to most, and a sliding window",
        cost="L * (window + heavy) * (E + Ev) + rows * S * E",
        causal="weights",
        masks="keys",
        budgets=(
            Budget(name="heavy", default=128, ladder=(32, 64, 128, 256, 512), unit="keys"),
            Budget(name="window", default=128, ladder=(32, 64, 128, 256, 512), unit="keys"),
            Budget(name="rows", default=256, ladder=(16, 64, 256), unit="queries"),
        ),
        exact_at="heavy >= S",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=False,
        probe="rows",
        bounds=("kept_columns", "dropped_mass_identity"),
    ),
    Method(
        name="loki",
        function="nlattn.methods.sparse.loki.loki_attention",
        family="sparse",
        paper="2406.02542",
        principle="the keys with the largest scores in a few dimensions",
        cost="L * S * (rank + 128) + L * top_k * (E + Ev) + (L + S) * E * (E + rank)",
        causal="weights",
        masks="any",
        budgets=(
            Budget(name="top_k", default=256, ladder=(32, 64, 128, 256, 512), unit="keys"),
            Budget(name="rank", default=16, ladder=(4, 8, 16, 32), unit="dimensions"),
        ),
        exact_at="top_k >= S",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=True,
        deterministic=True,
        probe="rows",
        bounds=("projected_scores", "selected_score", "selected_mass", "dropped_mass_identity"),
    ),
    Method(
        name="prescored",
        function="nlattn.methods.sparse.prescored.prescored_attention",
        family="sparse",
        paper="2505.11040",
        principle="keys that stand out among the keys",
        cost="L * keep * (E + Ev) + 3 * S * keep * E",
        causal="weights",
        masks="keys",
        budgets=(Budget(name="keep", default=256, ladder=(64, 128, 256, 512, 1024), unit="keys"),),
        exact_at="keep >= S",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=False,
        probe="rows",
        bounds=("dropped_mass", "dropped_mass_identity"),
    ),
    Method(
        name="routing",
        function="nlattn.methods.sparse.routing.routing_attention",
        family="sparse",
        paper="2003.05997",
        principle="queries and keys that are nearest to the same k-means centre",
        cost="L * window * (E + Ev) + (L + S) * S / window * E + 320 * (S / window) ** 2 * E",
        causal="weights",
        masks="keys",
        budgets=(Budget(name="window", default=256, ladder=(64, 128, 256, 512), unit="keys"),),
        exact_at="window >= S",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=False,
        probe="full",
        bounds=("dropped_mass", "dropped_mass_identity"),
    ),
    Method(
        name="multipole",
        function="nlattn.methods.sparse.multipole.multipole_attention",
        family="sparse",
        paper="2506.13059",
        principle="near clusters of keys exactly, far ones by tilted moments",
        cost="L * (near + (6 * S) ** 0.5) * (E + Ev) + 32 * S * (E + Ev)",
        causal="mask",
        without_lookahead=(("clusters", "blocks"),),
        masks="keys",
        budgets=(
            Budget(
                name="near",
                default=1024,
                ladder=(256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 2048, 3072, 4096),
                unit="keys",
            ),
        ),
        exact_at="near >= S",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        linear=False,
        separate_heads=False,
        key_permutation=False,
        deterministic=True,
        differentiable=False,
        probe="query-blocks",
        searched=True,
        compiled=True,
        bounds=("monopole_mass", "monopole_output", "multipole_output"),
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
        searched=True,
        bounds=("pseudo_inverse_iteration",),
    ),
)

#: Every method, by name.
METHODS: Mapping[str, Method] = MappingProxyType({record.name: record for record in _RECORDS})
