"""Routing attention: queries meet the keys that are near the same centres."""

from typing import Any

from nlattn.arrays.arguments import check_choice, check_integer, floating
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.random import children
from nlattn.arrays.rows import unit_rows
from nlattn.attend.cluster_members import Routes, in_clusters, in_nearest, joined, sorted_keys
from nlattn.attend.intervals import attend
from nlattn.attend.newest_key import with_newest_key
from nlattn.problem.arguments import prepare
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.shared_centres import directions, memberships, nearest, shared_centres, taken_by_centres
from nlattn.select.usable_keys import seen_keys

__all__ = ["routing_attention"]


def routing_attention(
    query: Any,
    key: Any,
    value: Any,
    window: int = 256,
    *,
    clusters: int | None = None,
    centres: Any = None,
    fallback: str = "nearest",
    variant: str = "nlattn",
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: Any = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention among the queries and keys that are nearest to the same k-means centre.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    window : int, default 256
        Keys that each centre takes, at least 1; it takes ceil(window L / S) of the queries of each head. A token may
        have several centres, or none. From S on it is exact attention.
    clusters : int, default ceil(S / window)
    centres : array, shape (heads_kv, clusters, E), default None
        Given ones; then tokens are compared with them by direction alone. By default those of a spherical k-means of
        queries and keys.
    fallback : {"nearest", "zero"}, default "nearest"
        A query that no centre took meets the keys of its nearest centre, or gets 0.
    variant : {"nlattn", "paper"}, default "nlattn"
        "nlattn": one softmax over all keys that a query meets, each of them once; queries and keys are clustered in
        coordinates that keep their scores, in which both have the same second moments. "paper": the mean of the outputs
        in the clusters of a query; queries and keys are clustered less their means.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis.
    is_causal, scale, check_finite
        As for `exact_attention`. The clusters look ahead: past outputs depend on future queries and keys, though not on
        future values.
    rng : None, int, SeedSequence or Generator, default None
        For the centres.
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp over the keys that were met.
        Not for "paper".

    Returns
    -------
    out : array, shape (..., heads, L, Ev)

    Notes
    -----
    Source: arXiv 2003.05997, which learns the centres. Found by k-means they leave much out on real heads: errors of
    0.22 to 0.63 on DINOv2, MiniLM and Whisper ("paper": 0.31 to 0.77), 0.06 to 0.36 with twice as many `clusters`, and
    of 1 to 2.3 on SmolLM2, where windows and heavy keys hold far more. Certify the output.

    A query that meets no key, as causality or masks hide them all, attends to the newest key that it may see, unless
    `fallback` is "zero". Gradients are those at fixed clusters. Costs about L window (E + Ev) multiplications for the
    default number of clusters, and (L + S) clusters E to find them. Bounds: ``dropped_mass``,
    ``dropped_mass_identity``, both not for "paper".

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> q, k, v, scale, causal = nlattn.datasets.load("dinov2")[:5]
    >>> exact = nlattn.exact_attention(q, k, v, scale=scale)
    >>> out = nlattn.routing_attention(q, k, v, scale=scale, rng=0)
    >>> bool(np.linalg.norm(out - exact) < 0.5 * np.linalg.norm(exact))
    True
    """
    window = check_integer("window", window)
    problem = prepare(
        "routing_attention",
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        masks="keys",
        check_finite=check_finite,
    )
    if return_lse and variant == "paper":
        raise ValueError("return_lse must be False for variant 'paper': a mean of outputs has no log-sum-exp")
    state = _prepare(problem, window, clusters=clusters, centres=centres, fallback=fallback, variant=variant, rng=rng)
    part = _apply(state, problem)
    return problem.partial(part) if return_lse else problem.output(part.out)


def _prepare(
    problem: Problem,
    window: int,
    *,
    clusters: int | None = None,
    centres: Any = None,
    fallback: str = "nearest",
    variant: str = "nlattn",
    rng: Any = None,
) -> Routes | None:
    """None where each centre takes all keys."""
    check_choice("fallback", fallback, ("nearest", "zero"))
    check_choice("variant", variant, ("nlattn", "paper"))
    children(rng, 0)  # an rng that is not needed must still be one
    xp = problem.xp
    b, _, g, length, s = problem.shape
    if centres is not None:
        centres = _given(problem, centres, clusters)
    elif clusters is not None:
        clusters = check_integer("clusters", clusters)
    if window >= s or 0 in (b, length):
        return None
    kind = "given" if centres is not None else "mean" if variant == "paper" else "common"
    found = directions(problem, seen_keys(problem), kind)
    if centres is None:
        centres = shared_centres(xp, found, min(clusters or -(-s // window), length + s), rng)
    else:
        centres = xp.broadcast_to(unit_rows(xp.astype(centres, problem.accumulator))[0], (b, g, *centres.shape[-2:]))
    queries, _ = taken_by_centres(xp, centres, found.query, min(length, -(-window * length // s)))
    keys, there = taken_by_centres(xp, centres, found.key, window, found.seen)
    labels = nearest(xp, centres, found.query) if fallback == "nearest" else None
    return Routes(queries, keys, there, labels, variant == "paper")


def _given(problem: Problem, centres: Any, clusters: int | None) -> Any:
    namespace(query=problem.query, centres=centres)
    centres = floating("centres", centres)
    g, e = problem.key.shape[1], problem.key.shape[3]
    shape = tuple(centres.shape)
    if len(shape) != 3 or shape[0] != g or shape[1] == 0 or shape[2] != e:
        raise ValueError(f"centres must have shape (heads_kv, clusters, E) = ({g}, clusters, {e}), got {shape}")
    if clusters not in (None, shape[1]):
        raise ValueError(f"clusters must be the number of centres, {shape[1]}, or None, got {clusters!r}")
    return centres


def _apply(state: Routes | None, problem: Problem) -> Partial:
    if state is None:
        return attend(problem)
    xp = problem.xp
    b, h, _, length, _ = problem.shape
    c, m = state.queries.shape[2:]
    window = state.keys.shape[3]
    routed = memberships(
        xp, state.queries, xp.ones(state.queries.shape, dtype=xp.bool, device=state.queries.device), length
    )
    keys = sorted_keys(problem, state)
    parts = [in_clusters(problem, state, keys, routed)]
    index = [xp.reshape(state.queries, (b, h, c * m))]
    if state.labels is not None:
        rest = xp.where(routed.count == 0, state.labels, xp.full_like(state.labels, c))
        others = in_nearest(problem, rest, keys, c, window)
        if others is not None:
            parts.append(others[0])
            index.append(others[1])
    part = joined(xp, parts, xp.concat(index, axis=-1), length, state.mean)
    return part if state.labels is None else with_newest_key(part, problem)
