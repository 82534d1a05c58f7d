"""SMYRF: rounds of balanced clusters of queries and keys with large inner products."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.random import children
from nlattn.arrays.rows import repeat_heads
from nlattn.arrays.typing import Array, RngLike
from nlattn.attend.halving import Halves, attend_to_halves, prepare_halves
from nlattn.attend.intervals import interval_attention
from nlattn.attend.rounds import attend_in_rounds
from nlattn.cluster import augment_for_inner_products
from nlattn.methods.method import Method, run
from nlattn.methods.record import Budget, Record
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.block_pairs import Pairing, pair_blocks
from nlattn.select.draw_per_head import draw_per_head
from nlattn.select.usable_keys import valid_keys

__all__ = ["Smyrf", "smyrf_attention"]

Multiplicity = Literal["unique", "sum"]


def smyrf_attention(
    query: Array,
    key: Array,
    value: Array,
    cluster_size: int = 128,
    rounds: int = 4,
    *,
    multiplicity: Multiplicity = "unique",
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: RngLike = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention within clusters of equal size, found by several random projections.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    cluster_size : int, default 128
        Keys of a cluster, at least 1. With S or more the result is exact attention.
    rounds : int, default 4
        The number of projections, each of which makes clusters of its own.
    multiplicity : {"unique", "sum"}, default "unique"
        How often a key counts that a query meets in several rounds: once, or as often as they meet.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis: boolean, or floating (-inf masks, finite values are log-weights).
    is_causal : bool, default False
        Works by recursive halving. Attention is exact within stretches of at most ``2 * cluster_size * rounds`` keys;
        between the halves of longer stretches, the later queries meet the earlier keys, in `rounds` rounds on each
        level. Future keys and values have no influence, but which cluster a query meets may depend on later queries.
    scale : float, default E ** -0.5
    rng : None, int, SeedSequence or Generator, default None
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp over the keys that were met.
    check_finite : bool, default True

    Returns
    -------
    out : array, shape (..., heads, L, Ev)
        Convex combinations of the values.

    Notes
    -----
    Queries and keys get two more coordinates each, which make all their norms equal without changing inner products
    (see "xbox+" of `nlattn.cluster.augment_for_inner_products`): then the nearer two are, the larger is their inner
    product. Each round projects both on one random direction, sorts both, and lets the queries of block t meet the keys
    of block t. The order of the keys does not matter, except among keys of equal projection.

    By "unique" the result is the softmax over the union of these keys: if m is the softmax mass of the others, its
    error is m times the distance between the means over both sets, and m never rises with `rounds`. By "sum" a key has
    the weight c exp(score) if it is met in c rounds, which favours similar keys. The cost is rounds L cluster_size (E +
    Ev) multiplications and sorting, with causality for each level. Bounds: ``transformed_distance``, and for "unique"
    ``dropped_mass``, ``dropped_mass_identity``.

    At the default budgets relative errors were 0.15 to 0.41 on layers of MiniLM, DINOv2 and Whisper, and 0.3 to 1.2 on
    layers of SmolLM2, so certify the output.

    Source: arXiv 2010.05315. Departures: "unique" (the official code has "sum"); queries and keys are augmented in
    units of the longest of each, so that the result depends on the scores alone; cluster sizes need not divide lengths;
    and the causal form. If future keys were only masked, the first rows would meet next to nothing in their clusters,
    and future keys would decide what.

    Examples
    --------
    >>> import nlattn
    >>> sample = nlattn.datasets.load("minilm")
    >>> out = nlattn.smyrf_attention(sample.query, sample.key, sample.value, 32, rng=0)
    >>> out.shape == sample.query.shape
    True
    """

    return run(
        Smyrf(cluster_size, rounds, multiplicity=multiplicity),
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


@dataclass(frozen=True)
class Smyrf(Method[Halves[list[Pairing]]]):
    """See `smyrf_attention`."""

    record = Record(
        name="smyrf",
        family="sparse",
        paper="2010.05315",
        principle="balanced clusters of large inner products, in several rounds",
        cost=lambda n, cluster_size, rounds: n.L * rounds * cluster_size * (n.E + n.Ev),
        exact_at=lambda n, cluster_size, rounds: cluster_size >= n.S,
        causal="keys",
        masks="keys",
        budgets=(
            Budget(name="cluster_size", ladder=(64, 128, 256, 512), unit="keys"),
            Budget(name="rounds", ladder=(1, 2, 4, 8), unit="rounds"),
        ),
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=True,
        deterministic=False,
        probe="full",
        bounds=("transformed_distance", "dropped_mass", "dropped_mass_identity"),
    )

    cluster_size: int = 128
    rounds: int = 4
    multiplicity: Multiplicity = "unique"

    def prepare(self, problem: Problem, rng: np.random.Generator) -> Halves[list[Pairing]]:
        """Project and sort in each round, once or for each level of the causal form."""
        b, _, g, _, _ = problem.shape
        # A half with no more keys than a row would meet in it costs no more when it is met exactly.
        most = 2 * self.cluster_size * self.rounds
        return prepare_halves(problem, most, partial(self._pairings, generators=children(rng, b * g)))

    def apply(self, state: Halves[list[Pairing]], rows: Problem) -> Partial:
        """Attention to the clusters round by round, and with causality to exact stretches."""
        return attend_to_halves(rows, state, self._attend)

    def _attend(self, pairings: list[Pairing], problem: Problem) -> Partial:
        """Attention of a problem that is not causal."""
        if not pairings:
            return interval_attention(problem)
        return attend_in_rounds(problem, valid_keys(problem), pairings, unique=self.multiplicity == "unique")

    def _pairings(self, problem: Problem, generators: list[np.random.Generator]) -> list[Pairing]:
        """The pairs of clusters of each round; none where one cluster holds all keys."""
        xp, rounds = problem.xp, self.rounds
        b, h, g, length, s = problem.shape
        if s <= self.cluster_size or 0 in (b, length):
            return []
        keys = valid_keys(problem)
        e, dtype = problem.query.shape[3], problem.accumulator
        directions = draw_per_head(problem, generators, np.random.Generator.standard_normal, (1, rounds, e + 2))
        directions = xp.matrix_transpose(xp.astype(directions, dtype)[:, :, 0, :, :])
        query, key = (xp.astype(x, dtype, copy=False) for x in (problem.query, problem.key))
        if keys.seen is not None:
            key = xp.where(keys.seen[..., None], key, xp.zeros_like(key))
        query = xp.reshape(query, (b, g, h // g * length, e)) * (-1.0 if problem.scale < 0 else 1.0)
        query, key = (_in_units_of_the_longest(x) for x in (query, key))
        query, key = augment_for_inner_products(query, key, kind="xbox+", check_finite=False)
        row_codes = xp.reshape(query @ directions, (b, h, length, rounds))
        key_codes = repeat_heads(key @ directions, keys.heads)
        return [
            pair_blocks(row_codes[..., r], key_codes[..., r], keys, self.cluster_size, by="rank") for r in range(rounds)
        ]


def _in_units_of_the_longest(x: Array) -> Array:
    """Rows (B, G, n, E) divided by the length of the longest row of their head."""
    xp = array_namespace(x)
    top = xp.max(xp.abs(x), axis=(2, 3), keepdims=True)
    x = x / nonzero(top)
    norm = xp.sqrt(xp.max(xp.sum(x * x, axis=3, keepdims=True), axis=2, keepdims=True))
    return x / nonzero(norm)
