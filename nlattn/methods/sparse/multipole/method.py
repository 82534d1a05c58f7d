"""Multipole attention: its function, and the method behind it."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_number
from nlattn.arrays.rows import repeat_heads
from nlattn.arrays.typing import Array
from nlattn.methods.method import BlockMethod, run
from nlattn.methods.record import Budget, Record
from nlattn.methods.sparse.multipole.layouts import (
    ARRAYS,
    Grid,
    Layout,
    expansion_points,
    similar_queries,
    summed_from,
    with_key_heads,
    without_gradient,
)
from nlattn.methods.sparse.multipole.policy import POLICY
from nlattn.methods.sparse.multipole.state import State, attend_from, full_blocks, rows_of_blocks
from nlattn.methods.sparse.multipole.trial import best_layouts, fitted
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.key_clusters import Clustering, cluster_keys, cluster_size
from nlattn.select.key_metric import coordinates, query_moment

__all__ = ["Multipole", "multipole_attention"]

Kind = Literal["auto", "kmeans", "blocks"]
Order = Literal[0, 1, 2]
Variant = Literal["nlattn", "paper"]


def multipole_attention(
    query: Array,
    key: Array,
    value: Array,
    near: int = 1024,
    *,
    rtol: float | None = None,
    clusters: Kind = "auto",
    order: Order = 2,
    variant: Variant = "nlattn",
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention to the keys that matter most to neighbouring queries, and attention by cluster to the others.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    near : int, default 1024
        Keys that each query meets one by one, at least 1; with `is_causal` up to 3 in any case. With S or more the
        result is exact attention.
    rtol : float, default None
        If given, `near` is chosen for each head instead: the least with which the relative error on some rows that are
        computed exactly is clearly below `rtol`. That is an estimate, while `attention` also checks the result on fresh
        rows. With `is_causal`, future keys and values then have an influence on the choice.
    clusters : {"auto", "kmeans", "blocks"}, default "auto"
        Which keys make a cluster. "kmeans": keys that the queries see alike and that have similar values. "blocks":
        consecutive keys. "auto": "kmeans" with `is_causal`, and otherwise for each head what has the smallest error on
        some rows: one of both, or "kmeans" for blocks of similar instead of consecutive queries.
    order : {0, 1, 2}, default 2
        How the logarithm of the mass of a far cluster is expanded. 0: about 0, with its mean key and mean value. 1:
        about the mean of some hundreds of neighbouring queries, which tilts both means. 2: with the second-order term
        too, in which the variance of the keys is taken as equal in all directions.
    variant : {"nlattn", "paper"}, default "nlattn"
        With "paper" plain k-means makes clusters of 16 keys, the order is 0, and clusters are chosen by mass per key;
        `clusters` and `order` are ignored.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis: boolean, or floating (-inf masks, finite values are log-weights).
    is_causal : bool, default False
        Future keys have no weight, but which keys make a cluster depends on later keys and values too. With
        ``clusters="blocks"`` nothing depends on future keys and values.
    scale : float, default E ** -0.5
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the approximate log-sum-exp of each row.
    check_finite : bool, default True

    Returns
    -------
    out : array, shape (..., heads, L, Ev)

    Notes
    -----
    Blocks of 64 queries share their near keys. These are the first 64 keys and two blocks of the latest ones with
    `is_causal`, or a window of 16 keys on each side without it (and none for similar queries), and then clusters in the
    order of their predicted mass per key. Each query meets `near` keys and one far term for each other cluster.
    Clusters have 8 to 128 keys, growing with the square root of S. On causal heads the error with clusters of
    consecutive keys was between 1.3 times smaller and 4 times larger than with k-means.

    Source: arXiv 2506.13059, which chooses for one query at a time; the selection for blocks, the metric of the
    queries, the tilted moments and the second order are not in it. Bounds: ``monopole_mass``, ``monopole_output``,
    ``multipole_output``.

    Examples
    --------
    >>> import nlattn
    >>> q, k, v = nlattn.datasets.load("smollm2")[:3]
    >>> out = nlattn.multipole_attention(q, k, v, 512, is_causal=True)
    >>> bool(nlattn.certify(out, q, k, v, is_causal=True, rng=0).pooled.upper < 0.05)
    True
    """

    return run(
        Multipole(near if rtol is None else POLICY.first, rtol=rtol, clusters=clusters, order=order, variant=variant),
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        return_lse=return_lse,
        check_finite=check_finite,
    )


@dataclass(frozen=True)
class Multipole(BlockMethod[State]):
    """See `multipole_attention`; with `rtol`, `near` is where the search for the number of near keys begins."""

    record = Record(
        name="multipole",
        family="sparse",
        paper="2506.13059",
        principle="near clusters of keys exactly, far ones by tilted moments",
        cost=lambda n, near: n.L * (near + (6 * n.S) ** 0.5) * (n.E + n.Ev) + 32 * n.S * (n.E + n.Ev),
        exact_at=lambda n, near: near >= n.S,
        causal="mask",
        without_lookahead=(("clusters", "blocks"),),
        masks="keys",
        budgets=(
            Budget(
                name="near",
                ladder=(256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 2048, 3072, 4096),
                unit="keys",
            ),
        ),
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
    )

    near: int = 1024
    rtol: float | None = None
    clusters: Kind = "auto"
    order: Order = 2
    variant: Variant = "nlattn"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.order, bool) or self.order not in (0, 1, 2):
            raise ValueError(f"order must be 0, 1 or 2, got {self.order!r}")
        if self.rtol is not None:
            check_number("rtol", self.rtol, above=0)

    @property
    def claims(self) -> Record:
        """Clusters of consecutive keys depend neither on keys and values nor on other heads."""
        if self.clusters != "blocks" or self.variant == "paper" or self.rtol is not None:
            return self.record
        return replace(self.record, causal="keys", without_lookahead=(), linear=True, separate_heads=True)

    def prepare(self, problem: Problem, rng: np.random.Generator) -> State:
        """Divide keys and queries, and choose among the ways to do so where there are several."""
        moment = query_moment(without_gradient(problem))
        problem, weight = with_key_heads(problem)
        # Heads of a group share the metric, also where their masks differ.
        moment = repeat_heads(moment, problem.shape[2])
        plain = without_gradient(problem)
        state = self._empty(problem, weight)
        state = state._replace(layouts=self._layouts(plain, state, moment))
        if len(state.layouts) > 1:
            state = state._replace(choice=best_layouts(plain, state))
        if any(getattr(plain, name) is not getattr(problem, name) for name in ARRAYS):
            zero = self._zero
            state = state._replace(
                layouts=[summed_from(problem, state.grid, layout, zero=zero) for layout in state.layouts]
            )
        return state if self.rtol is None else fitted(problem, state, self.rtol)

    def apply(self, state: State, rows: Problem) -> Partial:
        """Attention of all rows."""
        return attend_from(state, rows)

    def blocks(self, state: State) -> range:
        """The numbers of the blocks that are full."""
        return full_blocks(state.grid)

    def block_rows(self, state: State, problem: Problem, numbers: np.ndarray) -> Array:
        """The rows of some blocks, which are consecutive or similar queries."""
        return rows_of_blocks(state, problem, numbers)

    def apply_blocks(self, state: State, rows: Problem, numbers: np.ndarray) -> Partial:
        """Attention of the rows of some blocks."""
        return attend_from(state, rows, numbers)

    def with_budgets(self, state: State, budgets: np.ndarray, heads: np.ndarray) -> State:
        """The state with other numbers of near keys, for some of the heads."""
        xp, device = array_namespace(state.near), state.near.device
        near, mine = xp.asarray(budgets, device=device), xp.asarray(heads, device=device)
        return state._replace(near=near, choice=xp.where(mine, state.choice, -1))

    @property
    def _zero(self) -> bool:
        """Whether far clusters are expanded about 0."""
        return self.order < 1 or self.variant == "paper"

    def _empty(self, problem: Problem, weight: Array | None) -> State:
        """The state as it is before layouts are made."""
        xp = problem.xp
        b, h, _, _, _ = problem.shape
        near = xp.full((b, h), self.near, dtype=xp.int64, device=problem.start.device)
        overhead = 0 if self.variant == "paper" else POLICY.overhead
        return State([], xp.zeros_like(near), near, weight, Grid.of(problem, self.near), overhead)

    def _layouts(self, plain: Problem, state: State, moment: Array) -> list[Layout]:
        """One layout, or several to choose from: for "auto", without causality, and where rows suffice for a trial."""
        xp, grid = plain.xp, state.grid
        b, _, g, length, s = plain.shape
        paper = self.variant == "paper"
        several = self.clusters == "auto" and not (paper or plain.is_causal) and length >= POLICY.trials * grid.block
        kinds: tuple[Literal["kmeans", "blocks"], ...] = ("kmeans", "blocks") if several else ("kmeans",)
        if self.clusters == "blocks" and not paper:
            kinds = ("blocks",)
        size = POLICY.paper_cluster_size if paper else cluster_size(s)
        used = xp.broadcast_to(xp.arange(s, dtype=xp.int64, device=plain.start.device) >= grid.sinks, (b, g, s))
        used = used if state.weight is None else used & (state.weight != -xp.inf)
        layouts = []
        for kind in kinds:
            # Clusters of consecutive keys end where blocks of queries do, so that none is seen in part: its variance
            # would look ahead.
            own = min(size, grid.block) if kind == "blocks" else size
            how = Clustering(kind, own, max(2048, 32 * size), POLICY.paper_steps if paper else POLICY.steps)
            there = None if kind == "blocks" or paper else coordinates(plain, used, moment)
            points = xp.astype(plain.key, plain.accumulator, copy=False) if there is None else there.points
            found = cluster_keys(plain, how, used, state.weight, points)
            if self.order < 2 or paper:
                found = found._replace(deviation=xp.zeros_like(found.deviation))
            query_orders: list[Array | None] = [None]
            if there is not None and several:
                query_orders.append(similar_queries(plain, there.queries, grid.block))
            for query_order in query_orders:
                centre = expansion_points(plain, grid.group, query_order, zero=self._zero)
                layouts.append(Layout(found, how.segment, query_order, centre))
        return layouts
