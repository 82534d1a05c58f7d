"""Checks of causality, by disturbing future keys, values and queries one at a time."""

from typing import Any

import numpy as np

from nlattn.testing._suite import Subject, check
from nlattn.testing.checks.refusals import refuses

__all__ = [
    "check_causal_alignment",
    "check_causal_refused",
    "check_causality",
    "check_causality_is_not_better",
    "check_future_weights",
    "check_without_lookahead",
]

#: L, S: square, a step of decoding with a cache, more queries than keys.
SIZES = ((40, 40), (9, 40), (52, 40))


def _past_change(subject: Subject, what: str, length: int, s: int, seed: int, **options: Any) -> float:
    """Largest change of outputs before a point in time when the queries, keys or values after it are replaced."""
    q, k, v = subject.draw(length, s, heads=4, heads_kv=2, seed=seed)
    worst = 0.0
    first = subject(q, k, v, is_causal=True, **options)
    for now in (1, length // 2, length - 1):
        future = max(now + s - length, 0)
        new = [x.copy() for x in (q, k, v)]
        at, start = {"query": (0, now), "key": (1, future), "value": (2, future)}[what]
        new[at][..., start:, :] = 3.0 * np.random.default_rng(seed + 1).standard_normal(new[at][..., start:, :].shape)
        if subject.record.shared_qk and what != "value":
            new[1 - at] = new[at].copy()
        worst = max(
            worst, float(np.abs(subject(*new, is_causal=True, **options) - first)[..., :now, :].max(initial=0.0))
        )
    return worst


def _sizes(subject: Subject) -> tuple[tuple[int, int], ...]:
    return SIZES if subject.record.cross_length else SIZES[:1]


_PROMISED = {"mask": (), "weights": ("value",), "keys": ("value", "key"), "strict": ("value", "key", "query")}


@check(lambda record, backend: record.causal is not None)
def check_causality(subject: Subject) -> None:
    """What the record calls causal does not look ahead."""
    for what in _PROMISED[subject.record.causal or ""]:
        for length, s in _sizes(subject):
            change = _past_change(subject, what, length, s, seed=0)
            assert change <= 1e-12, (
                f"L = {length}, S = {s}: replacing each future {what} moved past outputs by {change:.1e}"
            )


@check(lambda record, backend: bool(record.without_lookahead))
def check_without_lookahead(subject: Subject) -> None:
    """With the options that the record names, neither future keys nor future values have an effect."""
    for what in _PROMISED["keys"]:
        for length, s in _sizes(subject):
            change = _past_change(subject, what, length, s, seed=0, **dict(subject.record.without_lookahead))
            assert change <= 1e-12, (
                f"L = {length}, S = {s}: replacing each future {what} moved the past by {change:.1e}"
            )


@check(lambda record, backend: record.causal is not None and record.rows_sum_to_one)
def check_future_weights(subject: Subject) -> None:
    """Future keys have no weight: a row whose visible values are all equal gets just that."""
    for length, s in _sizes(subject):
        q, k, v = subject.draw(length, s)
        for now in (max(1, length - s), length // 2, length):
            marked = np.ones_like(v)
            marked[..., max(now + s - length, 0) :, :] = 1e3
            out = subject(q, k, marked, is_causal=True)[..., max(length - s, 0) : now, :]
            assert np.all(np.abs(out - 1) <= 1e-10), f"L = {length}, S = {s}: a row before {now} sees a later key"


@check(lambda record, backend: record.causal in ("mask", "weights", "keys"))
def check_causality_is_not_better(subject: Subject) -> None:
    """What the record does not promise is violated somewhere."""
    what = {"mask": "value", "weights": "key", "keys": "query"}[subject.record.causal or ""]
    worst = max(_past_change(subject, what, length, s, seed) for length, s in _sizes(subject) for seed in range(5))
    assert worst > 1e-6, (
        f"no future {what} was found to matter: the record could say more than {subject.record.causal!r}"
    )


@check(lambda record, backend: record.causal is not None)
def check_causal_alignment(subject: Subject) -> None:
    """Bottom-right: query i sees its own key i + S - L, and the last query the last key."""
    for length, s in _sizes(subject):
        q, plain, v = subject.draw(length, s)
        for i in (length - 1, length // 2, max(length - s, 0)):
            k, moved = plain.copy(), v.copy()
            if not subject.record.shared_qk:  # a key that no selection by scores passes over
                k[..., i + s - length, :] = 10.0 * q[..., i, :]
            moved[..., i + s - length, :] += 1e3
            first: Any = subject(q, k, v, is_causal=True)
            change = np.abs(subject(q, k, moved, is_causal=True) - first).max(axis=(0, 2))
            assert change[i] > 1e-3, f"L = {length}, S = {s}: query {i} does not see key {i + s - length}"
            if subject.record.causal != "mask":
                assert not np.any(change[:i] > 1e-9), f"L = {length}, S = {s}: a query before {i} sees a later key"


@check(lambda record, backend: record.causal is None)
def check_causal_refused(subject: Subject) -> None:
    """No causal form: NotImplementedError with a sentence that names the method."""
    arrays = [subject.backend.array(x) for x in subject.draw()]
    refuses(subject, NotImplementedError, subject.name, *arrays, is_causal=True)
