"""Routing attention: queries meet the keys that are near the same centres."""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from nlattn.arrays.arguments import check_integer, floating
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.rows import unit_rows
from nlattn.arrays.typing import Array, RngLike
from nlattn.attend.cluster_members import Members, SortedKeys, averaged, in_clusters, in_nearest, joined, sorted_keys
from nlattn.attend.newest_key import with_newest_key
from nlattn.methods.method import Method, run
from nlattn.methods.record import Budget, Record
from nlattn.problem.partials import Partial, SignedPartial
from nlattn.problem.problem import Problem
from nlattn.select.shared_centres import directions, memberships, nearest, shared_centres, taken_by_centres
from nlattn.select.usable_keys import seen_keys

__all__ = ["Routing", "routing_attention"]

Fallback = Literal["nearest", "zero"]
Variant = Literal["nlattn", "paper"]


def routing_attention(
    query: Array,
    key: Array,
    value: Array,
    keys_per_centre: int = 256,
    *,
    clusters: int | None = None,
    centres: Array | None = None,
    fallback: Fallback = "nearest",
    variant: Variant = "nlattn",
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: RngLike = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention among the queries and keys that are nearest to the same k-means centre.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    keys_per_centre : int, default 256
        Keys that each centre takes, at least 1; it takes ceil(keys_per_centre L / S) of the queries of each head.
        Several centres may take a token, or none. With S or more it is exact attention.
    clusters : int, default ceil(S / keys_per_centre)
    centres : array, shape (heads_kv, clusters, E), default None
        Centres to be taken, with which queries and keys are compared by direction alone. By default they are found by a
        spherical k-means of queries and keys.
    fallback : {"nearest", "zero"}, default "nearest"
        What a query gets that no centre took: attention to the keys of its nearest centre, or 0.
    variant : {"nlattn", "paper"}, default "nlattn"
        "nlattn": one softmax over all keys that a query meets, each of which counts once; queries and keys are
        clustered in coordinates that keep their scores and in which both have the same second moments. "paper": the
        mean of the outputs in the clusters of a query; queries and keys are clustered after their means are subtracted.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis.
    is_causal, scale, check_finite
        As for `exact_attention`. The clusters look ahead: past outputs depend on future queries and keys, though not on
        future values.
    rng : None, int, SeedSequence or Generator, default None
        Only for centres that are not given.
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp over the keys that were met.
        Refused for "paper".

    Returns
    -------
    out : array, shape (..., heads, L, Ev)

    Notes
    -----
    Source: arXiv 2003.05997, which learns the centres. Centres found by k-means leave much out on real heads: relative
    errors were 0.22 to 0.63 on layers of DINOv2, MiniLM and Whisper ("paper": 0.31 to 0.77), 0.06 to 0.36 with twice as
    many `clusters`, and 1 to 2.3 on layers of SmolLM2, where windows and heavy keys hold far more mass. So certify the
    output.

    A query to which causality or masks leave no such key attends to the newest key that it may see, unless `fallback`
    is "zero". Gradients take the clusters as constant. The cost is about L keys_per_centre (E + Ev) multiplications for
    the default number of clusters, and (L + S) clusters E to find them. Bounds: ``dropped_mass``,
    ``dropped_mass_identity``, neither of which holds for "paper".

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> q, k, v, scale, causal = nlattn.datasets.load("dinov2")[:5]
    >>> exact = nlattn.exact_attention(q, k, v, scale=scale)
    >>> out = nlattn.routing_attention(q, k, v, scale=scale, rng=0)
    >>> bool(np.linalg.norm(out - exact) < 0.5 * np.linalg.norm(exact))
    True
    """

    return run(
        Routing(keys_per_centre, clusters=clusters, centres=centres, fallback=fallback, variant=variant),
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        rng=rng,
        return_lse=return_lse,
        check_finite=check_finite,
    )


class _State(NamedTuple):
    """What each centre took, and the keys in the order of the centres."""

    members: Members
    keys: SortedKeys


@dataclass(frozen=True, eq=False)
class Routing(Method[_State]):
    """See `routing_attention`."""

    record = Record(
        name="routing",
        family="sparse",
        paper="2003.05997",
        principle="queries and keys that are nearest to the same k-means centre",
        cost=lambda n, keys_per_centre: (
            n.L * keys_per_centre * (n.E + n.Ev)
            + (n.L + n.S) * n.S / keys_per_centre * n.E
            + 320 * (n.S / keys_per_centre) ** 2 * n.E
        ),
        exact_at=lambda n, keys_per_centre: keys_per_centre >= n.S,
        causal="weights",
        masks="keys",
        budgets=(Budget(name="keys_per_centre", ladder=(64, 128, 256, 512), unit="keys"),),
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=False,
        probe="full",
        bounds=("dropped_mass", "dropped_mass_identity"),
    )

    keys_per_centre: int = 256
    clusters: int | None = None
    centres: Array | None = None
    fallback: Fallback = "nearest"
    variant: Variant = "nlattn"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.centres is None and self.clusters is not None:
            object.__setattr__(self, "clusters", check_integer("clusters", self.clusters))

    @property
    def claims(self) -> Record:
        """A mean of outputs has no log-sum-exp."""
        return replace(self.record, partial=self.variant == "nlattn")

    def check(self, problem: Problem) -> None:
        """Refuse given centres of another library or a wrong shape or number."""
        if self.centres is not None:
            _given(problem, self.centres, self.clusters)

    def prepare(self, problem: Problem, rng: np.random.Generator) -> _State:
        """Find the centres and what each of them takes, and sort the keys by centre."""
        _, _, _, length, s = problem.shape
        seen = seen_keys(problem)
        paper = self.variant == "paper"
        found = directions(problem, seen, "given" if self.centres is not None else "mean" if paper else "common")
        if self.centres is None:
            clusters = min(self.clusters or -(-s // self.keys_per_centre), length + s)
            centres = shared_centres(problem, found, clusters, rng)
        else:
            centres = _given(problem, self.centres, self.clusters)
        queries, _ = taken_by_centres(centres, found.query, min(length, -(-self.keys_per_centre * length // s)))
        keys, there = taken_by_centres(centres, found.key, self.keys_per_centre, found.seen)
        labels = nearest(centres, found.query) if self.fallback == "nearest" else None
        members = Members(queries, keys, there, memberships(queries, length), labels)
        return _State(members, sorted_keys(problem, members))

    def apply(self, state: _State, rows: Problem) -> Partial | SignedPartial:
        """Attention in each cluster and of queries that no centre took; then the partials of a query are merged."""
        xp = rows.xp
        b, h, _, length, _ = rows.shape
        members, keys = state
        once = self.variant == "nlattn"
        parts = [in_clusters(rows, members, keys, once=once)]
        index = [xp.reshape(members.queries, (b, h, parts[0].lse.shape[2]))]
        if members.labels is not None:
            free = members.routed.counts == 0
            rest = xp.where(free, members.labels, xp.full_like(members.labels, keys.clusters))
            others = in_nearest(rows, rest, keys)
            if others is not None:
                parts.append(others[0])
                index.append(others[1])
        rows_of_parts = xp.concat(index, axis=-1)
        if once:
            part = joined(parts, rows_of_parts, length)
            return part if members.labels is None else with_newest_key(part, rows)
        mean = averaged(parts, rows_of_parts, length)
        return mean if members.labels is None else with_newest_key(mean, rows)


def _given(problem: Problem, centres: Array, clusters: int | None) -> Array:
    """Check given centres, and return them as unit vectors (B, G, C, E)."""
    xp = namespace(query=problem.query, centres=centres)
    centres = floating("centres", centres)
    b, _, g, _, _ = problem.shape
    e = problem.key.shape[3]
    shape = tuple(centres.shape)
    if len(shape) != 3 or shape[0] != g or shape[1] == 0 or shape[2] != e:
        raise ValueError(f"centres must have shape (heads_kv, clusters, E) = ({g}, clusters, {e}), got {shape}")
    if clusters not in (None, shape[1]):
        raise ValueError(f"clusters must be the number of centres, {shape[1]}, or None, got {clusters!r}")
    unit, _ = unit_rows(xp.astype(centres, problem.accumulator))
    return xp.broadcast_to(unit, (b, g, *shape[1:]))
