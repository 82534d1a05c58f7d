"""Checks of shapes: leading axes, lengths, numbers of features, grouped queries."""

import itertools
from typing import Any

import numpy as np

from nlattn.testing._asserts import assert_close
from nlattn.testing._suite import ROUNDING, Subject, check
from nlattn.testing.checks.refusals import refuses

__all__ = [
    "LENGTHS",
    "check_batch_equals_loop",
    "check_broadcast_batch",
    "check_cross_length_refused",
    "check_empty_axes",
    "check_grouped_queries",
    "check_leading_axes",
    "check_lengths",
    "check_value_features",
]

#: Lengths around those at which blocks and segments end.
LENGTHS = (0, 1, 2, 31, 33, 63, 65, 127)


def _close(actual: np.ndarray, desired: np.ndarray) -> None:
    assert_close(actual, desired, rtol=ROUNDING["float64"], atol=ROUNDING["float64"])


def _options(subject: Subject) -> list[dict[str, Any]]:
    causal: list[dict[str, Any]] = [{"is_causal": True}]
    return [{}, *(causal if subject.record.causal else [])]


@check()
def check_leading_axes(subject: Subject) -> None:
    """Any number of leading axes is right: those of size 1 change no number, and two are one of their product."""
    for options in _options(subject):
        arrays = subject.draw(heads=None)
        plain = subject(*arrays, **options)
        for lead in ((1,), (1, 1), (1, 1, 1)):
            out = subject(*(x.reshape(*lead, *x.shape) for x in arrays), **options)
            _close(out, plain.reshape(*lead, *plain.shape))
        arrays = subject.draw(batch=(2, 3))
        out = subject(*arrays, **options)
        assert out.shape == (2, 3, 2, 24, 5)
        _close(out.reshape(6, 2, 24, 5), subject(*(x.reshape(6, *x.shape[2:]) for x in arrays), **options))


@check()
def check_batch_equals_loop(subject: Subject) -> None:
    """No batch element or key-value head influences another, and a loop that shares one Generator draws the same."""
    q, k, v = subject.draw(batch=(2,), heads=4, heads_kv=2)
    k[1, 0] *= 20  # a batch element and head with scores far larger than those of its neighbours

    def shared() -> dict[str, Any]:
        return {} if subject.record.deterministic else {"rng": np.random.default_rng(7)}

    for options in _options(subject):
        whole, rng = subject(q, k, v, **options, **shared()), shared()
        for b in range(2):
            _close(subject(q[b], k[b], v[b], **options, **rng), whole[b])
        rng = shared()
        for b, g in itertools.product(range(2), range(2)):
            heads = slice(2 * g, 2 * g + 2)
            part = subject(q[b, heads], k[b, g : g + 1], v[b, g : g + 1], **options, **rng)
            _close(part, whole[b, heads])


@check()
def check_broadcast_batch(subject: Subject) -> None:
    """Leading axes of keys and values that are 1 or absent broadcast against those of the queries, and the reverse."""
    q, k, v = subject.draw(batch=(3,))
    if subject.record.shared_qk:
        return
    full = subject(q, np.broadcast_to(k[:1], k.shape), np.broadcast_to(v[:1], v.shape))
    _close(subject(q, k[:1], v[:1]), full)
    _close(subject(q, k[0], v[0]), full)
    _close(subject(q[:1], k, v), subject(np.broadcast_to(q[:1], q.shape), k, v))


@check(lambda record, backend: not record.shared_qk)
def check_grouped_queries(subject: Subject) -> None:
    """Query head h meets key-value head h // (heads // heads_kv), as if the keys were repeated."""
    q, k, v = subject.draw(batch=(2,), heads=6, heads_kv=2)
    for options in _options(subject):
        grouped = subject(q, k, v, **options)
        if subject.record.deterministic and subject.record.separate_heads:
            _close(grouped, subject(q, *(np.repeat(x, 3, axis=-3) for x in (k, v)), **options))
        other = v.copy()
        other[:, 1] += 1.0
        changed = np.abs(subject(q, k, other, **options) - grouped).max(axis=(0, 2, 3)) > 1e-3
        assert changed.tolist() == [False] * 3 + [True] * 3, f"changing kv head 1 of 2 changed heads {changed}"


@check()
def check_value_features(subject: Subject) -> None:
    """Ev may differ from E, down to 1 and 0. Columns of the values do not mix if the method is linear in them."""
    q, k, v = subject.draw(ev=17)
    whole = subject(q, k, v)
    for columns in (slice(1), slice(3, 9)):
        part = subject(q, k, v[..., columns])
        if subject.record.linear:
            _close(part, whole[..., columns])
    assert subject(q, k, v[..., :0]).shape == (2, 24, 0)
    one = subject.draw(e=1)
    assert np.all(np.isfinite(subject(*one)))


@check()
def check_empty_axes(subject: Subject) -> None:
    """An empty batch gives an empty output, with a mask too."""
    masked: dict[str, Any] = {"attn_mask": np.ones((1, 40), dtype=bool)}
    for options in ({}, masked):
        if options and (subject.record.masks is None or not subject.record.cross_length):
            continue
        assert subject(*subject.draw(batch=(0,)), **options).shape == (0, 2, 24, 5)
        assert subject(*subject.draw(batch=(2, 0)), **options).shape == (2, 0, 2, 24, 5)


@check()
def check_lengths(subject: Subject) -> None:
    """For any L and S the output is finite, 0 where a row sees nothing, and in the hull of the values if promised."""
    for (i, length), (j, s) in itertools.product(enumerate(LENGTHS), enumerate(LENGTHS)):
        if (i + j) % 3 and i != j:
            continue  # each length meets shorter, equal and longer ones
        if length != s and not subject.record.cross_length:
            continue
        for options in _options(subject):
            q, k, v = subject.draw(length, s, ev=2)
            v = v + 3.0
            out = subject(q, k, v, **options)
            assert np.all(np.isfinite(out)), f"L = {length}, S = {s}, {options}: the output is not finite"
            blind = max(0, length - s) if options else (length if s == 0 else 0)
            assert not np.any(out[:, :blind]), f"L = {length}, S = {s}, {options}: rows that see nothing are not 0"
            if subject.record.convex and blind < length:
                low, high = v.min(axis=-2, keepdims=True), v.max(axis=-2, keepdims=True)
                inside = (out[:, blind:] >= low - 1e-9) & (out[:, blind:] <= high + 1e-9)
                assert np.all(inside), f"L = {length}, S = {s}, {options}: the output leaves the hull"


@check(lambda record, backend: not record.cross_length)
def check_cross_length_refused(subject: Subject) -> None:
    """A method that needs L = S raises NotImplementedError for other lengths."""
    rng = np.random.default_rng(0)
    q, k = (subject.backend.array(rng.standard_normal((2, n, 8))) for n in (24, 40))
    refuses(subject, NotImplementedError, subject.name, q, k, k)
