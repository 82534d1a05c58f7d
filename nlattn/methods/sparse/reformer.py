"""Reformer: rounds of locality-sensitive hashing, each query beside the keys of its bucket."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from nlattn.arrays.host import concrete_or
from nlattn.arrays.random import children
from nlattn.arrays.rows import unit_rows
from nlattn.arrays.typing import Array, RngLike
from nlattn.attend.equal_codes import Hashed, attend_to_equal_codes
from nlattn.attend.newest_key import newest_key, with_newest_key
from nlattn.attend.rounds import attend_in_rounds
from nlattn.kernels.hash_codes import hash_codes
from nlattn.methods.method import Method, run
from nlattn.methods.record import Budget, Record, Sizes
from nlattn.problem.partials import Partial, merge_partials
from nlattn.problem.problem import Problem
from nlattn.select.block_pairs import Pairing, centred, hashed_keys, hashed_queries, pair_blocks
from nlattn.select.draw_per_head import draw_per_head
from nlattn.select.usable_keys import Keys, valid_keys

__all__ = ["Reformer", "reformer_attention"]

Multiplicity = Literal["unique", "sum", "ht"]
Variant = Literal["nlattn", "paper"]

#: The largest number of buckets of a single hash. With more the hash is a product of two, whose cost grows with the
#: square root of the number of buckets instead of the number.
SINGLE_HASH_BUCKETS = 128


def reformer_attention(
    query: Array,
    key: Array,
    value: Array,
    bucket_size: int = 64,
    rounds: int = 4,
    *,
    multiplicity: Multiplicity | None = None,
    shared_qk: bool | None = None,
    variant: Variant = "nlattn",
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: RngLike = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention over the keys in the same or the preceding block of a sequence sorted by hash codes, in rounds.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    bucket_size : int, default 64
        Keys of a block, at least 1; there are about as many buckets as blocks. With S or more every key is met, and
        without `shared_qk` the result is exact attention.
    rounds : int, default 4
        The number of hashes, each of which makes blocks of its own.
    multiplicity : {"unique", "sum", "ht"}, default "unique" ("sum" for the variant "paper")
        How often a key counts that a query meets in c of the R rounds. "unique": once. "sum": c times. "ht": c / (R p)
        times, where p is the probability that the two have equal codes, which makes numerator and denominator of the
        softmax unbiased (Horvitz-Thompson). For "ht" queries meet all keys of equal code, however many there are,
        instead of blocks; that costs more, and is meant for study.
    shared_qk : bool, default False (True for the variant "paper")
        Whether queries are keys. Then `key` must equal `query` and is scaled to unit length, and a token attends to
        itself only if it finds nothing else. The score of i and j is ``scale * q_i.q_j / |q_j|``.
    variant : {"nlattn", "paper"}, default "nlattn"
        With "paper" `multiplicity` and `shared_qk` have the other defaults above, and vectors are hashed as they are
        instead of after their mean is subtracted, as in the official code.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis: boolean, or floating (-inf masks, finite values are log-weights).
    is_causal : bool, default False
        Later keys are masked, but which earlier keys a query meets depends on later ones. Without `shared_qk`, each
        query also sees the newest key that it may see, which is its own unless that is masked.
    scale : float, default E ** -0.5
        With `shared_qk`, 1.0 gives the scores q_i.q_j / |q_j|.
    rng : None, int, SeedSequence or Generator, default None
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp over the keys that were met, or
        for "ht" an estimate of that over all keys.
    check_finite : bool, default True

    Returns
    -------
    out : array, shape (..., heads, L, Ev)
        Convex combinations of the values. A query that may see keys but meets none gets the value at its own position,
        or the last one before it that is not masked.

    Raises
    ------
    ValueError
        With `shared_qk`, if key is not equal to query.
    NotImplementedError
        With `shared_qk`, if there are not as many keys as queries.

    Notes
    -----
    Codes are those of the cross-polytope hash, or of a product of two such hashes for more than 128 buckets. Queries
    and keys get the same rotations and are sorted separately, those with equal codes by position. A block of queries
    meets the block of keys in which its middle code stands, and the block before that in the same round; before the
    first block stands the last one. With `shared_qk` these are its own block and the one before.

    By "unique" the result is the softmax over the union of the keys that are met: if m is the softmax mass of the
    others, its error is m times the distance between the means over both sets, and m never rises with `rounds` for
    given hashes. By "sum" the weights are c exp(score), which favours similar keys however many rounds there are. The
    cost is 2 rounds L bucket_size (E + Ev) multiplications, hashing and sorting. Bounds: ``dropped_mass`` and
    ``dropped_mass_identity`` for "unique", ``cross_polytope_collision`` for "ht".

    At the default budgets relative errors were 0.13 to 0.34 on layers of MiniLM, DINOv2 and Whisper, and 1 to 2 on
    layers of SmolLM2, so certify the output.

    Source: arXiv 2001.04451. Departures from its official code: "unique"; queries that are no keys; hashing after the
    mean is subtracted, since a common offset puts all vectors into few buckets; and rounds that do not look back into
    each other.

    Examples
    --------
    >>> import nlattn
    >>> sample = nlattn.datasets.load("minilm")
    >>> out = nlattn.reformer_attention(sample.query, sample.key, sample.value, 32, rng=0)
    >>> out.shape == sample.query.shape
    True
    """

    return run(
        Reformer(bucket_size, rounds, multiplicity=multiplicity, shared_qk=shared_qk, variant=variant),
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
    """The pairs of blocks of each round, or for "ht" the codes: then all queries and keys of equal code meet."""

    pairings: list[Pairing]
    hashed: Hashed | None


@dataclass(frozen=True)
class Reformer(Method[_State]):
    """See `reformer_attention`."""

    record = Record(
        name="reformer",
        family="sparse",
        paper="2001.04451",
        principle="blocks of equal hash codes, and the blocks before them, in several rounds",
        cost=lambda n, bucket_size, rounds: n.L * rounds * 2 * bucket_size * (n.E + n.Ev),
        exact_at=lambda n, bucket_size, rounds: bucket_size >= n.S,
        causal="weights",
        masks="keys",
        budgets=(
            Budget(name="bucket_size", ladder=(32, 64, 128, 256), unit="keys"),
            Budget(name="rounds", ladder=(1, 2, 4, 8), unit="rounds"),
        ),
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=False,
        probe="full",
        bounds=("dropped_mass", "dropped_mass_identity", "cross_polytope_collision"),
    )

    bucket_size: int = 64
    rounds: int = 4
    multiplicity: Multiplicity | None = None
    shared_qk: bool | None = None
    variant: Variant = "nlattn"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared_qk is not None and not isinstance(self.shared_qk, bool | np.bool):
            raise TypeError(f"shared_qk must be a bool, got {self.shared_qk!r}")

    @property
    def shares(self) -> bool:
        """Whether queries are keys."""
        return self.variant == "paper" if self.shared_qk is None else bool(self.shared_qk)

    def counts(self, s: int) -> Multiplicity:
        """How often a key counts that meets a query in several rounds; a block of all s keys makes that one round."""
        if self.bucket_size >= s:
            return "unique"
        return self.multiplicity or ("sum" if self.variant == "paper" else "unique")

    def is_exact(self, sizes: Sizes) -> bool:
        """Where queries are keys, the result differs from exact attention at any budget."""
        return super().is_exact(sizes) and not self.shares

    def check(self, problem: Problem) -> None:
        """Refuse a key that is not the query where queries are keys."""
        if self.shares:
            _check_shared(problem)

    def prepare(self, problem: Problem, rng: np.random.Generator) -> _State:
        """Hash and sort in each round."""
        keys = valid_keys(problem)
        hashed = self._hashed(problem, keys, rng)
        if self.counts(problem.key.shape[2]) == "ht":
            return _State([], hashed)
        rounds = hashed.key_codes.shape[2]
        theirs = [hashed.key_codes[:, :, r, :] for r in range(rounds)]
        same = hashed.row_codes is hashed.key_codes
        ours = theirs if same else [hashed.row_codes[:, :, r, :] for r in range(rounds)]
        return _State([pair_blocks(*codes, keys, self.bucket_size) for codes in zip(ours, theirs, strict=True)], None)

    def apply(self, state: _State, rows: Problem) -> Partial:
        """Attention to blocks and the blocks before them, round by round, or for "ht" to all keys of equal code."""
        xp = rows.xp
        b, _, _, _, s = rows.shape
        keys, multiplicity = valid_keys(rows), self.counts(s)
        if self.shares:
            own = xp.astype(keys.key, rows.accumulator, copy=False)
            keys = keys._replace(key=unit_rows(own)[0])
        newest = newest_key(rows, keys, rows.position + 1 if self.shares else rows.stop)
        positions = xp.arange(s, dtype=rows.start.dtype, device=rows.start.device)
        positions = xp.broadcast_to(positions, (b, keys.heads, s))
        barred, initial = None, None
        if self.shares:
            barred = rows.position, positions
        elif rows.is_causal:
            barred, initial = (newest.position, positions), newest.part()
        if state.hashed is not None:
            part = attend_to_equal_codes(rows, keys, state.hashed, self.bucket_size, barred=barred)
            part = part if initial is None else merge_partials(initial, part)
        else:
            unique = multiplicity == "unique"
            part = attend_in_rounds(
                rows, keys, state.pairings, unique=unique, look_back=True, barred=barred, initial=initial
            )
        return with_newest_key(part, rows, newest) if self.shares or multiplicity == "ht" else part

    def _hashed(self, problem: Problem, keys: Keys, rng: np.random.Generator) -> Hashed:
        """The codes of queries and keys in all rounds."""
        xp, dtype = problem.xp, problem.accumulator
        b, _, g, _, s = problem.shape
        rounds = self.rounds if self.bucket_size < s else 1
        factors = _factors(-(-s // self.bucket_size))
        shape = (rounds, sum(factors), problem.query.shape[3])
        generators = children(rng, b * g)
        rotations = draw_per_head(problem, generators, np.random.Generator.standard_normal, shape, dtype)
        both = (problem.query, problem.key) if self.variant == "paper" else centred(problem, keys)
        query, key = (xp.astype(x, dtype, copy=False) for x in both)
        key_codes = hashed_keys(lambda x, p: hash_codes(x, p, factors), key, rotations, keys.heads)
        if not self.shares:
            row_codes = hashed_queries(lambda x, p: hash_codes(x, p, factors), query, rotations, g)
            return Hashed(query, key, row_codes, key_codes, factors)
        row_codes = key_codes
        if keys.valid is not None:
            # Masked tokens come last as queries too, so that they do not matter to the others.
            row_codes = xp.where(keys.valid[:, :, None, :], row_codes, math.prod(2 * f for f in factors))
        return Hashed(key, key, row_codes, key_codes, factors)


def _check_shared(problem: Problem) -> None:
    """Raise unless key equals query."""
    xp, query, key = problem.xp, problem.query, problem.key
    if query.shape[2] != key.shape[2]:
        raise NotImplementedError(
            f"reformer_attention with shared_qk=True is for as many keys as queries, got {key.shape[2]} and "
            f"{query.shape[2]}; pass shared_qk=False"
        )
    same = query is key or (
        query.shape == key.shape and concrete_or(xp.all((query == key) | (query != query)), otherwise=True)
    )
    if not same:
        raise ValueError("key must equal query for shared_qk=True, got another one; pass query as key")


def _factors(blocks: int) -> tuple[int, ...]:
    """The sizes of the factors of a cross-polytope hash with about as many buckets as there are blocks."""
    if blocks <= SINGLE_HASH_BUCKETS:
        return (max(1, -(-blocks // 2)),)
    return (math.ceil(math.sqrt(blocks) / 2),) * 2
