"""Reformer: rounds of locality-sensitive hashing, each query beside the keys of its bucket."""

import copy
import math
from typing import Any, Literal

import numpy as np

from nlattn.arrays.arguments import check_choice, check_integer
from nlattn.arrays.host import concrete_or
from nlattn.arrays.random import children
from nlattn.arrays.rows import unit_rows
from nlattn.attend.intervals import attend
from nlattn.attend.newest_key import newest_key, with_newest_key
from nlattn.attend.rounds import attend_in_rounds
from nlattn.kernels.hash_codes import hash_codes
from nlattn.problem.arguments import prepare
from nlattn.problem.partials import Partial, merge_partials
from nlattn.problem.problem import Problem
from nlattn.select.block_pairs import centred, hashed_keys, hashed_queries, pair_blocks
from nlattn.select.draw_per_head import drawn
from nlattn.select.equal_codes import attend_in_true_buckets
from nlattn.select.usable_keys import valid_keys

__all__ = ["reformer_attention"]

# Buckets above which a hash is a product of two, whose cost grows with the square root of their number.
PRODUCT = 128


def reformer_attention(
    query: Any,
    key: Any,
    value: Any,
    bucket_size: int = 64,
    rounds: int = 4,
    *,
    multiplicity: Literal["unique", "sum", "ht"] | None = None,
    shared_qk: bool | None = None,
    variant: Literal["nlattn", "paper"] = "nlattn",
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: Any = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention over keys in the same or the preceding block of a sequence sorted by hash codes, several times.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    bucket_size : int, default 64
        Keys of a block, at least 1; there are about as many buckets as blocks. From S on every key is met, and without
        `shared_qk` the result is exact attention.
    rounds : int, default 4
        Hashes, each with blocks of its own.
    multiplicity : {"unique", "sum", "ht"}, default "unique" ("sum" for the variant "paper")
        What a key counts that a query meets in c of the R rounds: once; c times; or, "ht", c / (R p) times, p the
        probability of equal codes for the two, which makes both sums of the softmax unbiased (Horvitz-Thompson). For
        "ht" queries meet all keys of equal code, however many, instead of blocks: dearer, and for study.
    shared_qk : bool, default False (True for the variant "paper")
        Queries are keys: `key` must equal `query`, is scaled to unit length, and a token attends to itself only if it
        finds nothing else. The score of i and j is ``scale * q_i.q_j / |q_j|``.
    variant : {"nlattn", "paper"}, default "nlattn"
        "paper": the other defaults above, and hash vectors as they are instead of about their mean, as its official
        code does.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis: boolean, or floating (-inf masks, finite values are log-weights).
    is_causal : bool, default False
        Later keys are masked; which earlier ones a query meets depends on later ones. Without `shared_qk`, each query
        also sees the newest key that it may see, its own unless masked.
    scale : float, default E ** -0.5
        For `shared_qk`, 1.0 gives scores q_i.q_j / |q_j|.
    rng : None, int, SeedSequence or Generator, default None
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp over the keys that were met; for
        "ht" its estimate over all keys.
    check_finite : bool, default True

    Returns
    -------
    out : array, shape (..., heads, L, Ev)
        Convex combinations of the values. A query that may see keys and meets none has the value at its own place, or
        the nearest before it that is not masked.

    Raises
    ------
    ValueError
        For `shared_qk`, if key is not query.
    NotImplementedError
        For `shared_qk`, if there are not as many keys as queries.

    Notes
    -----
    Codes are those of the cross-polytope hash, above 128 buckets a product of two. Queries and keys get the same
    rotations and are sorted separately, equal codes by position. A block of queries meets the block of keys in which
    its middle code stands, and the one before it in the same round, the last one for the first. With `shared_qk` these
    are its own block and the one before.
    By "unique" the result is the softmax over the union of the keys that are met: with m the softmax mass outside, its
    error is m times the distance between the means over these keys and the others, and m never rises with `rounds`
    for given hashes. By "sum" the weights are c exp(score), which favours similar keys however many rounds there are.
    Costs 2 rounds L bucket_size (E + Ev), and hashing and sorting. Bounds: ``dropped_mass`` and
    ``dropped_mass_identity`` for "unique", ``cross_polytope_collision`` for "ht".

    At the defaults errors were 0.13 to 0.34 on layers of MiniLM, DINOv2 and Whisper, and 1 to 2 on SmolLM2: certify.

    Source: arXiv 2001.04451. Departures from its official code: "unique"; separate queries and keys; hashing about the
    mean, since a common offset puts all into few buckets; rounds that do not look back into each other.

    Examples
    --------
    >>> import nlattn
    >>> sample = nlattn.datasets.load("minilm")
    >>> out = nlattn.reformer_attention(sample.query, sample.key, sample.value, 32, rng=0)
    >>> out.shape == sample.query.shape
    True
    """
    problem = prepare(
        "reformer_attention",
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        masks="keys",
        check_finite=check_finite,
    )
    options = {"multiplicity": multiplicity, "shared_qk": shared_qk, "variant": variant, "rng": rng}
    part = _apply(_prepare(problem, bucket_size, rounds, **options), problem)
    return problem.partial(part) if return_lse else problem.output(part.out)


def _prepare(
    problem: Problem,
    bucket_size: int,
    rounds: int,
    *,
    multiplicity: str | None = None,
    shared_qk: bool | None = None,
    variant: str = "nlattn",
    rng: Any = None,
) -> dict[str, Any] | None:
    """None for exact attention."""
    size, rounds = check_integer("bucket_size", bucket_size), check_integer("rounds", rounds)
    paper = check_choice("variant", variant, ("nlattn", "paper")) == "paper"
    if multiplicity is None:
        multiplicity = "sum" if paper else "unique"
    check_choice("multiplicity", multiplicity, ("unique", "sum", "ht"))
    if shared_qk is not None and not isinstance(shared_qk, bool | np.bool):
        raise TypeError(f"shared_qk must be a bool, got {shared_qk!r}")
    shared = paper if shared_qk is None else bool(shared_qk)
    if shared:
        _check_shared(problem)
    b, _, g, _, s = problem.shape
    if size >= s:
        if not shared:
            children(rng, 0)  # an rng that is not needed must still be one
            return None
        # One block holds all keys.
        rounds, multiplicity = 1, "unique"
    return {
        "generators": children(rng, b * g),
        "size": size,
        "rounds": rounds,
        "multiplicity": multiplicity,
        "shared": shared,
        "centre": not paper,
    }


def _check_shared(problem: Problem) -> None:
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


def _apply(state: dict[str, Any] | None, problem: Problem) -> Partial:
    if state is None or 0 in problem.shape:
        return attend(problem)
    xp, dtype = problem.xp, problem.accumulator
    b, _, g, _, s = problem.shape
    keys, shared = valid_keys(problem), state["shared"]
    heads = keys.heads

    factors = _factors(-(-s // state["size"]))
    shape = (state["rounds"], sum(factors), problem.query.shape[3])
    rotations = drawn(problem, copy.deepcopy(state["generators"]), np.random.Generator.standard_normal, shape, dtype)
    hashed = centred(problem, keys) if state["centre"] else (problem.query, problem.key)
    query, key = (xp.astype(x, dtype, copy=False) for x in hashed)
    if shared:
        query = key
        keys = keys._replace(key=unit_rows(xp.astype(keys.key, dtype, copy=False))[0])
    key_codes = hashed_keys(lambda x, p: hash_codes(x, p, factors), key, rotations, heads)
    row_codes = key_codes
    if not shared:
        row_codes = hashed_queries(lambda x, p: hash_codes(x, p, factors), query, rotations, g)
    elif keys.valid is not None:
        # Masked tokens stand last as queries too, and do not matter to the others.
        row_codes = xp.where(keys.valid[:, :, None, :], row_codes, math.prod(2 * f for f in factors))

    newest = newest_key(problem, keys, problem.position + 1 if shared else problem.stop)
    places = xp.broadcast_to(xp.arange(s, dtype=problem.start.dtype, device=problem.start.device), (b, heads, s))
    barred, initial = None, None
    if shared:
        barred = problem.position, places
    elif problem.is_causal:
        barred, initial = (newest.index, places), newest.part()
    if state["multiplicity"] == "ht":
        part = attend_in_true_buckets(
            problem, keys, (row_codes, key_codes), (query, key), factors, state["size"], barred=barred
        )
        part = part if initial is None else merge_partials(initial, part)
    else:
        theirs = [key_codes[:, :, r, :] for r in range(state["rounds"])]
        ours = theirs if row_codes is key_codes else [row_codes[:, :, r, :] for r in range(state["rounds"])]
        pairings = (pair_blocks(*codes, keys, state["size"]) for codes in zip(ours, theirs, strict=True))
        unique = state["multiplicity"] == "unique"
        part = attend_in_rounds(problem, keys, pairings, unique=unique, look_back=True, barred=barred, initial=initial)
    return with_newest_key(part, problem, newest) if shared or state["multiplicity"] == "ht" else part


def _factors(blocks: int) -> tuple[int, ...]:
    """Rows of the groups of a cross-polytope hash with about as many buckets as blocks."""
    if blocks <= PRODUCT:
        return (max(1, -(-blocks // 2)),)
    return (math.ceil(math.sqrt(blocks) / 2),) * 2
