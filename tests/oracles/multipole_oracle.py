"""Multipole attention rebuilt densely from the labels of its clusters, and what it competes with."""

from typing import NamedTuple

import numpy as np
import pytest
from places import SHARED

import nlattn
from nlattn.methods.sparse.multipole.method import Multipole
from nlattn.problem.arguments import checked_problem

SHIPPED = nlattn.datasets.NAMES
BIDIRECTIONAL = ("minilm", "dinov2", "whisper")


def draw(length, s, *, h=4, g=2, e=6, ev=5, seed=0, batch=()):
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((*batch, n, m, d)) for n, m, d in ((h, length, e), (g, s, e), (g, s, ev)))


def planted(s=1024, kinds=16, seed=0):
    """Queries that look for keys of their own kind, scattered over all positions; values go with the kinds."""
    rng = np.random.default_rng(seed)
    middles, values = 2.5 * rng.standard_normal((kinds, 16)), rng.standard_normal((kinds, 8))
    of_q, of_k = rng.integers(0, kinds, s), rng.integers(0, kinds, s)
    q, k = (middles[x] + 0.5 * rng.standard_normal((s, 16)) for x in (of_q, of_k))
    return q[None], k[None], (values[of_k] + 0.3 * rng.standard_normal((s, 8)))[None]


def shared(name):
    """Layers of a file of which users have no copy: (layer, q, k, v, scale)."""
    if not (SHARED / name).exists():
        pytest.skip("needs ../shared/qkv")
    with np.load(SHARED / name) as z:
        for i, layer in enumerate(z["layers"]):
            yield int(layer), *(z[part][i].astype(np.float32) for part in "qkv"), float(z["scale"])


def relative(x, exact, axis=None):
    difference, exact = np.asarray(x, float) - exact, np.asarray(exact, float)
    axis = tuple(range(exact.ndim)) if axis is None else axis
    return np.sqrt((difference**2).sum(axis) / (exact**2).sum(axis))


def prepared(q, k, v, near, *, attn_mask=None, is_causal=False, scale=None, **options):
    problem = checked_problem("x", q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale, masks="keys")
    return problem, Multipole(near, **options).prepare(problem, np.random.default_rng())


def softmax(scores):
    """Weights, and logarithms of the mass; 0 and -inf where nothing is seen."""
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    w = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = w.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return w / np.where(total > 0, total, 1), (top + np.log(total))[:, 0]


class Rebuilt(NamedTuple):
    """For each head: the rows, outputs, log-sum-exps and which keys each row met one by one."""

    rows: list
    out: list
    lse: list
    met: list


def rebuild(
    q, k, v, near, *, attn_mask=None, is_causal=False, scale=None, order=2, variant="nlattn", every=1, **options
):
    """The method by its documentation, in dense float64, from the labels of its clusters; one block in `every`."""
    given = {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale}
    problem, state = prepared(q, k, v, near, order=order, variant=variant, **given, **options)
    scale, (h, length, _), s = problem.scale, q.shape, k.shape[-2]
    position, found = np.arange(s), Rebuilt([], [], [], [])
    extra = np.zeros(s) if attn_mask is None else attn_mask
    extra = np.where(extra, 0, -np.inf) if extra.dtype == bool else extra
    extra = np.broadcast_to(extra, (h, 1, s))[:, 0].astype(float)
    for a in range(h):
        layout = state.layouts[int(state.choice[0, a])]
        heads = layout.clusters.label.shape[1]
        label, keys, values = layout.clusters.label[0, a // (h // heads)], k[a // (h // len(k))], v[a // (h // len(k))]
        keys, values, queries = keys.astype(float), values.astype(float), scale * q[a].astype(float)
        m = layout.clusters.edges.shape[2] - 1
        member = label[:, None] == np.arange(m)  # S x M
        size = np.maximum(member.sum(0), 1)
        apart = keys - np.concatenate([member.T @ keys / size[:, None], keys[:1]])[label]
        variance = member.T @ (apart**2).mean(-1) / size
        spread = np.zeros(m) if order < 2 or variant == "paper" else variance / 2
        taken_by = np.arange(length) if layout.query_order is None else layout.query_order[0, a]
        place = np.arange(length) + (s - length if layout.query_order is None else 0)
        outs, lses, mets, rows_of = [], [], [], []
        for t in np.unique(place // state.grid.block)[::every]:
            rows = taken_by[place // state.grid.block == t]
            beside = taken_by[place // state.grid.group == t * state.grid.block // state.grid.group]
            q0 = np.zeros(q.shape[2]) if order == 0 or variant == "paper" else queries[beside].mean(0)
            seen = (position <= rows[:, None] + s - length) if is_causal else np.full((len(rows), s), True)
            seen = seen & (extra[a] > -np.inf)
            low, high = t * state.grid.block, (t + 1) * state.grid.block
            if is_causal:
                window = (position >= low - state.grid.block) & (position < high)
                free = (position < low - state.grid.block) & (position >= state.grid.block)
                window |= (position < low - state.grid.block) & (position < state.grid.block)
            else:
                window = (position >= low - state.grid.block // 4) & (position < high + state.grid.block // 4)
                window = window if layout.query_order is None else np.zeros(s, bool)
                free = ~window
            mine = member & free[:, None]
            w, log_mass, count = *softmax(np.where(mine.T, keys @ q0 + extra[a], -np.inf)), mine.sum(0)
            key, value = w @ keys, w @ values
            turn = queries[rows] - q0
            far = log_mass + turn @ key.T + np.minimum((turn**2).sum(-1)[:, None] * spread, 3)
            scores = np.where(seen, queries[rows] @ keys.T + extra[a], -np.inf)
            # What only later rows may see must not decide what earlier ones meet.
            common = window & (position <= rows.min() + s - length if is_causal else True)
            shares, _ = softmax(np.concatenate([np.where(common, scores, -np.inf), far], axis=1))
            share = shares[:, s:].sum(0)
            share /= np.maximum(1, count + (0 if variant == "paper" else 16))
            by_share = np.argsort(-share, kind="stable")
            taken = np.zeros(m, bool)
            window_keys = min(s, max(0, high if is_causal else high + state.grid.block // 4))
            left = near - window.sum() if window_keys else near
            taken[by_share[np.cumsum(count[by_share]) <= left]] = True
            met = seen & (window | (free & np.append(taken, False)[label]))
            w, log_mass = softmax(np.concatenate([np.where(met, scores, -np.inf), np.where(taken, -np.inf, far)], 1))
            outs.append(w @ np.concatenate([values, value]))
            lses.append(log_mass)
            mets.append(met)
            rows_of.append(rows)
        for part, name in ((rows_of, "rows"), (outs, "out"), (lses, "lse"), (mets, "met")):
            getattr(found, name).append(np.concatenate(part))
    return found


def in_order(found, q):
    out, lse = np.empty((*q.shape[:2], found.out[0].shape[1])), np.empty(q.shape[:2])
    for a, rows in enumerate(found.rows):
        out[a, rows], lse[a, rows] = found.out[a], found.lse[a]
    return out, lse


def captured(q, k, v, near, **options):
    """The part of the softmax that the near keys hold, mean over rows, for each head."""
    found, group = rebuild(q, k, v, near, **options), len(q) // len(k)
    held = []
    for a, (rows, met) in enumerate(zip(found.rows, found.met, strict=True)):
        held.append((weights(q[a], k[a // group], rows, options) * met).sum(-1).mean())
    return np.asarray(held)


def weights(q, k, rows, options):
    scores = q[rows].astype(float) @ k.T.astype(float) * (options.get("scale") or q.shape[-1] ** -0.5)
    if options.get("is_causal"):
        scores = np.where(np.arange(len(k)) <= rows[:, None] + len(k) - len(q), scores, -np.inf)
    w = np.exp(scores - scores.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True)


class Contiguous(NamedTuple):
    """Blocks of 64 consecutive keys for blocks of 64 consecutive queries, by the mass of their mean keys."""

    captured: np.ndarray
    dropped: np.ndarray
    """Relative error of a head without the other blocks."""
    replaced: np.ndarray
    """And with each of them as its mean key and mean value."""


def contiguous(q, k, v, near, *, is_causal=False, scale=None, every=1):
    group, scale, (h, length, _), s = len(q) // len(k), scale or q.shape[2] ** -0.5, q.shape, k.shape[1]
    edges = np.arange(0, s, 64)
    size = np.diff([*edges, s])
    rows_of = [np.arange(i, min(i + 64, length)) for i in range(0, length, 64)][::every]
    found = []
    for a in range(h):
        keys, values = k[a // group].astype(float), v[a // group].astype(float)
        middle, value = (np.add.reduceat(x, edges, axis=0) / size[:, None] for x in (keys, values))
        held, errors, exact = [], [[], []], []
        for rows in rows_of:
            far = scale * q[a, rows].astype(float) @ middle.T + np.log(size)
            own = rows[0] // 64
            if is_causal:
                far[:, own:] = -np.inf
            share = np.exp(far - far.max(-1, keepdims=True, initial=-1e300))
            share = (share / np.maximum(share.sum(-1, keepdims=True), 1e-300)).sum(0)
            if is_causal:
                share[[0, max(0, own - 1), own]] = np.inf
                share[own + 1 :] = -1
            taken = np.zeros(len(edges), bool)
            taken[np.argsort(-share, kind="stable")[: near // 64]] = True
            met = np.repeat(taken, size)
            w = weights(q[a], k[a // group], rows, {"is_causal": is_causal, "scale": scale})
            held.append((w * met).sum(-1))
            exact.append(w @ values)
            errors[0].append((w * met) @ values / held[-1][:, None])
            scores = scale * q[a, rows].astype(float) @ keys.T
            if is_causal:
                scores = np.where(np.arange(s) <= rows[:, None], scores, -np.inf)
            both = np.concatenate([np.where(met, scores, -np.inf), np.where(taken, -np.inf, far)], axis=1)
            both = np.exp(both - both.max(-1, keepdims=True))
            errors[1].append(both @ np.concatenate([values, value]) / both.sum(-1, keepdims=True))
        exact = np.concatenate(exact)
        found.append((np.concatenate(held).mean(), *(relative(np.concatenate(x), exact) for x in errors)))
    return Contiguous(*(np.asarray(x) for x in zip(*found, strict=True)))
