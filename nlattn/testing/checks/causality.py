"""Checks of causality, which replace future keys, values and queries and look for a change in the past."""

from collections.abc import Iterable, Iterator
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

#: Lengths L and S: square, a step of decoding with a cache, more queries than keys.
SIZES = ((40, 40), (9, 40), (52, 40))

#: Whose future values have no influence on past outputs, by the causal form of the record.
_PROMISED: dict[str, tuple[str, ...]] = {
    "mask": (),
    "weights": ("value",),
    "keys": ("value", "key"),
    "strict": ("value", "key", "query"),
}


def _past_changes(
    subject: Subject, which: Iterable[str], length: int, s: int, seed: int = 0, **options: Any
) -> Iterator[float]:
    """The largest change of past outputs when the future entries of some arguments are replaced, for several times."""
    arrays = dict(zip(("query", "key", "value"), subject.draw(length, s, heads=4, heads_kv=2, seed=seed), strict=True))
    first = subject(*arrays.values(), is_causal=True, **options)
    for now in (1, length // 2, length - 1):
        start = {"query": now, "key": max(now + s - length, 0), "value": max(now + s - length, 0)}
        new = {name: array.copy() for name, array in arrays.items()}
        rng = np.random.default_rng(seed + 1)
        for name in which:
            new[name][..., start[name] :, :] = 3.0 * rng.standard_normal(new[name][..., start[name] :, :].shape)
        if subject.record.shared_qk:
            new["query" if "key" in which else "key"] = new["key" if "key" in which else "query"].copy()
        yield float(np.abs(subject(*new.values(), is_causal=True, **options) - first)[..., :now, :].max(initial=0.0))


def _sizes(subject: Subject) -> tuple[tuple[int, int], ...]:
    return SIZES if subject.record.cross_length else SIZES[:1]


def _looks_not_ahead(subject: Subject, promised: tuple[str, ...], **options: Any) -> None:
    """Assert that the future of all `promised` arguments together changes no past output."""
    for length, s in _sizes(subject) if promised else ():
        change = max(_past_changes(subject, promised, length, s, **options))
        what = " and ".join(promised)
        assert change <= 1e-12, f"L = {length}, S = {s}: replacing each future {what} moved the past by {change:.1e}"


@check(lambda record, backend: record.causal is not None)
def check_causality(subject: Subject) -> None:
    """Past outputs do not depend on what the causal form in the record excludes."""
    _looks_not_ahead(subject, _PROMISED[subject.record.causal or ""])


@check(lambda record, backend: bool(record.without_lookahead))
def check_without_lookahead(subject: Subject) -> None:
    """With the options that the record names, neither future keys nor future values have an influence."""
    _looks_not_ahead(subject, _PROMISED["keys"], **dict(subject.record.without_lookahead))


@check(lambda record, backend: record.causal is not None and record.rows_sum_to_one)
def check_future_weights(subject: Subject) -> None:
    """Future keys have no weight: a row whose visible values are all equal has that value."""
    for length, s in _sizes(subject):
        q, k, v = subject.draw(length, s)
        for now in (max(1, length - s), length // 2, length):
            marked = np.ones_like(v)
            marked[..., max(now + s - length, 0) :, :] = 1e3
            out = subject(q, k, marked, is_causal=True)[..., max(length - s, 0) : now, :]
            assert np.all(np.abs(out - 1) <= 1e-10), f"L = {length}, S = {s}: a row before {now} sees a later key"


@check(lambda record, backend: record.causal in ("mask", "weights", "keys"))
def check_causality_is_not_better(subject: Subject) -> None:
    """What the record does not promise is violated for some input."""
    what = {"mask": "value", "weights": "key", "keys": "query"}[subject.record.causal or ""]
    found = any(
        change > 1e-6
        for seed in range(5)
        for length, s in _sizes(subject)
        for change in _past_changes(subject, (what,), length, s, seed)
    )
    assert found, f"no future {what} was found to matter: the record could say more than {subject.record.causal!r}"


@check(lambda record, backend: record.causal is not None)
def check_causal_alignment(subject: Subject) -> None:
    """Causality is aligned at the bottom right: query i sees its own key i + S - L, and the last query the last key."""
    for length, s in _sizes(subject):
        q, k, v = subject.draw(length, s)
        rows = (length - 1, length // 2, max(length - s, 0))
        if not subject.record.shared_qk:
            # The own keys of these rows get scores that no selection passes over.
            for i in rows:
                k[..., i + s - length, :] = 10.0 * q[..., i, :]
        first = subject(q, k, v, is_causal=True)
        for i in rows:
            moved = v.copy()
            moved[..., i + s - length, :] += 1e3
            change = np.abs(subject(q, k, moved, is_causal=True) - first).max(axis=(0, 2))
            assert change[i] > 1e-3, f"L = {length}, S = {s}: query {i} does not see key {i + s - length}"
            if subject.record.causal != "mask":
                assert not np.any(change[:i] > 1e-9), f"L = {length}, S = {s}: a query before {i} sees a later key"


@check(lambda record, backend: record.causal is None)
def check_causal_refused(subject: Subject) -> None:
    """A method without a causal form raises NotImplementedError with a sentence that names the method."""
    arrays = [subject.backend.array(x) for x in subject.draw()]
    refuses(subject, NotImplementedError, subject.name, *arrays, is_causal=True)
