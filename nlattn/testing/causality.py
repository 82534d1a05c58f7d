"""Checks of causality, by disturbing future keys, values and queries one at a time."""

from typing import Any

import numpy as np

from nlattn.testing.refusals import refuses
from nlattn.testing.suite import Subject, check

__all__ = ["check_causal_alignment", "check_causal_refused", "check_causality", "check_causality_is_not_better"]

#: L, S: square, a step of decoding with a cache, more queries than keys.
SIZES = ((40, 40), (9, 40), (52, 40))


def _past_change(subject: Subject, what: str, length: int, s: int, seed: int) -> float:
    """Largest change of outputs before a point in time when the queries, keys or values after it are replaced."""
    q, k, v = subject.draw(length, s, heads=4, heads_kv=2, seed=seed)
    worst = 0.0
    first = subject(q, k, v, is_causal=True)
    for now in (1, length // 2, length - 1):
        future = max(now + s - length, 0)
        new = [x.copy() for x in (q, k, v)]
        at, start = {"query": (0, now), "key": (1, future), "value": (2, future)}[what]
        new[at][..., start:, :] = 3.0 * np.random.default_rng(seed + 1).standard_normal(new[at][..., start:, :].shape)
        if subject.method.shared_qk and what != "value":
            new[1 - at] = new[at].copy()
        worst = max(worst, float(np.abs(subject(*new, is_causal=True) - first)[..., :now, :].max(initial=0.0)))
    return worst


def _sizes(subject: Subject) -> tuple[tuple[int, int], ...]:
    return SIZES if subject.method.cross_length else SIZES[:1]


_PROMISED = {"weights": ("value",), "keys": ("value", "key"), "strict": ("value", "key", "query")}


@check(lambda method, backend: method.causal is not None)
def check_causality(subject: Subject) -> None:
    """What the record calls causal does not look ahead."""
    for what in _PROMISED[subject.method.causal or ""]:
        for length, s in _sizes(subject):
            change = _past_change(subject, what, length, s, seed=0)
            assert change <= 1e-12, (
                f"L = {length}, S = {s}: replacing each future {what} moved past outputs by {change:.1e}"
            )


@check(lambda method, backend: method.causal in ("weights", "keys"))
def check_causality_is_not_better(subject: Subject) -> None:
    """What the record does not promise is violated somewhere."""
    what = "key" if subject.method.causal == "weights" else "query"
    worst = max(_past_change(subject, what, length, s, seed) for length, s in _sizes(subject) for seed in range(5))
    assert worst > 1e-6, (
        f"no future {what} was found to matter: the record could say more than {subject.method.causal!r}"
    )


@check(lambda method, backend: method.causal is not None)
def check_causal_alignment(subject: Subject) -> None:
    """Bottom-right: query i sees its own key i + S - L, and the last query the last key."""
    for length, s in _sizes(subject):
        q, k, v = subject.draw(length, s)
        first: Any = subject(q, k, v, is_causal=True)
        for i in (length - 1, length // 2, max(length - s, 0)):
            moved = v.copy()
            moved[..., i + s - length, :] += 1e3
            change = np.abs(subject(q, k, moved, is_causal=True) - first).max(axis=(0, 2))
            assert change[i] > 1e-3, f"L = {length}, S = {s}: query {i} does not see key {i + s - length}"
            assert not np.any(change[:i] > 1e-9), f"L = {length}, S = {s}: a query before {i} sees key {i + s - length}"


@check(lambda method, backend: method.causal is None)
def check_causal_refused(subject: Subject) -> None:
    """No causal form: NotImplementedError with a sentence that names the method."""
    arrays = [subject.backend.array(x) for x in subject.draw()]
    refuses(subject, NotImplementedError, subject.method.name, *arrays, is_causal=True)
