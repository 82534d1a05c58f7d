"""Checks of masks: what they mean, how they broadcast, which are refused, and rows that may attend to nothing."""

from typing import Any

import numpy as np

from nlattn.testing._asserts import assert_close
from nlattn.testing._suite import ROUNDING, Subject, check
from nlattn.testing.checks.refusals import refuses

__all__ = [
    "check_blind_rows",
    "check_boolean_equals_infinite",
    "check_lowest_does_not_mask",
    "check_mask_broadcasting",
    "check_masked_keys_have_no_influence",
    "check_masks_refused",
]

#: The sizes of all axes but the last, for the masks that a method honours, with queries (2, 4, 24, E).
SHAPES = {
    "keys": [(), (1,), (4, 1), (2, 1, 1), (2, 4, 1), (1, 4, 1)],
    "any": [(), (1,), (24,), (4, 24), (4, 1), (2, 1, 24), (2, 4, 24), (2, 1, 1), (1, 4, 1)],
}


def _masked(subject: Subject) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    return *subject.draw(batch=(2,), heads=4, heads_kv=2, seed=3), np.random.default_rng(5)


def _close(actual: np.ndarray, desired: np.ndarray) -> None:
    assert_close(actual, desired, rtol=ROUNDING["float64"], atol=ROUNDING["float64"])


def _rows(subject: Subject) -> tuple[int, ...]:
    return (24,) if subject.record.masks == "any" else (1,)


@check(lambda record, backend: record.masks is not None)
def check_mask_broadcasting(subject: Subject) -> None:
    """A mask of any shape gives what it gives when written out in full; one that allows everything changes nothing."""
    q, k, v, rng = _masked(subject)
    s = k.shape[-2]
    plain = subject(q, k, v)
    for shape in ((), (1,), (s,), (1, 1), (1, 1, 1, 1)):
        everything = np.ones(shape, dtype=bool) if len(shape) % 2 else np.zeros(shape)
        _close(subject(q, k, v, attn_mask=everything), plain)
    for axes, batch in enumerate(((2,), (2, 2))):
        q, k, v = (np.broadcast_to(x, (*batch, *x.shape[1:])) for x in (q, k, v))
        full = (*batch, 4, *_rows(subject), s)
        for i, lead in enumerate(SHAPES[subject.record.masks or ""]):
            mask = rng.random((*lead, s)) < 0.7
            mask[..., -1] = True
            if (i + axes) % 2:  # each shape is that of a boolean mask once, and of a floating one once
                mask = np.where(mask, rng.standard_normal((*lead, s)), -np.inf)
            _close(subject(q, k, v, attn_mask=mask), subject(q, k, v, attn_mask=np.broadcast_to(mask, full)))
    assert not np.any(subject(q, k, v, attn_mask=np.zeros(1, dtype=bool))), "a mask of one False does not mask"


@check(lambda record, backend: record.masks is not None)
def check_boolean_equals_infinite(subject: Subject) -> None:
    """False and -inf mean the same, also together with causality."""
    q, k, v, rng = _masked(subject)
    allowed = rng.random((*_rows(subject), k.shape[-2])) < 0.6
    for causal in (False, True):
        if not causal or subject.record.causal is not None:
            first = subject(q, k, v, attn_mask=allowed, is_causal=causal)
            _close(subject(q, k, v, attn_mask=np.where(allowed, 0.0, -np.inf), is_causal=causal), first)
            assert np.abs(first - subject(q, k, v, is_causal=causal)).max() > 1e-3, "the mask changes nothing"


@check(lambda record, backend: record.masks is not None)
def check_masked_keys_have_no_influence(subject: Subject) -> None:
    """The key and value at a masked position have no influence, and those at others have some."""
    q, k, v, rng = _masked(subject)
    hidden = np.zeros(k.shape[-2], dtype=bool)
    hidden[[0, 7, 8, 22]] = True
    other_k, other_v = k.copy(), v.copy()
    other_k[..., hidden, :] = 50 * rng.standard_normal(other_k[..., hidden, :].shape)
    other_v[..., hidden, :] = 1e6
    q_other = other_k.copy() if subject.record.shared_qk else q
    first = subject(q, k, v, attn_mask=~hidden)
    second = subject(q_other, other_k, other_v, attn_mask=~hidden)
    rows = ~hidden if subject.record.shared_qk else slice(None)
    _close(second[..., rows, :], first[..., rows, :])
    seen = v.copy()
    seen[..., ~hidden, :] += 10
    assert np.abs(subject(q, k, seen, attn_mask=~hidden) - first).max() > 1e-3, "no visible value has any influence"


@check(lambda record, backend: record.masks is not None)
def check_lowest_does_not_mask(subject: Subject) -> None:
    """Only False and -inf mask: a row with the same finite bias at all keys sees all keys, down to finfo.min."""
    q, k, v, _ = _masked(subject)
    s = k.shape[-2]
    for dtype in ("float64", "float32"):
        limits = np.finfo(dtype)
        for bias in (-1e4, -1e12, limits.min, 1e9, limits.max):
            mask = np.full((1, s), bias)
            out = subject(q, k, np.concatenate([v + 10.0, np.ones_like(v)], axis=-1), attn_mask=mask, dtype=dtype)
            assert np.all(np.isfinite(out)), f"{dtype}: with a bias of {bias:g} the output is not finite"
            out, ones = out[..., : v.shape[-1]], out[..., v.shape[-1] :]
            assert np.all(np.any(out != 0, axis=-1)), f"{dtype}: a bias of {bias:g} masks"
            if subject.record.rows_sum_to_one:
                assert_close(ones, np.ones_like(ones), rtol=1e-5)
        # Beside keys without a bias, keys with so low a bias have no weight that could be represented.
        mask = np.where(np.arange(s)[None] % 3 == 0, limits.min, 0.0)
        hidden = np.where(mask == 0, mask, -np.inf)
        if subject.record.family == "exact":
            out, wanted = (subject(q, k, v, attn_mask=m, dtype=dtype) for m in (mask, hidden))
            assert_close(out, wanted, rtol=1e-5, atol=1e-6)


@check()
def check_blind_rows(subject: Subject) -> None:
    """Rows that may attend to nothing are exactly 0, their log-sum-exp is -inf, and other rows are right."""
    q, k, v, rng = _masked(subject)
    s, record = k.shape[-2], subject.record
    lse = {"return_lse": True} if record.partial else {}
    cases: list[tuple[Any, dict[str, Any]]] = []
    if record.masks == "any":
        mask = rng.random((2, 4, 24, s)) < 0.5
        mask[0, 1, 3:9] = mask[1, :, 0] = mask[1, 2] = False
        cases += [(~mask.any(-1), {"attn_mask": m}) for m in (mask, np.where(mask, 0.0, -np.inf))]
    if record.masks is not None:
        mask = rng.random((2, 4, 1, s)) < 0.5
        mask[0, 1] = mask[1] = False
        blind = np.broadcast_to(~mask.any(-1), (2, 4, 24))
        cases += [(blind, {"attn_mask": m}) for m in (mask, np.where(mask, 0.0, -np.inf))]
    if record.causal is not None and record.cross_length:
        q = subject.draw(60, s, batch=(2,), heads=4, heads_kv=2)[0][..., :60, :]
        blind = np.broadcast_to(np.arange(60) < 60 - s, (2, 4, 60))
        cases += [(blind, {"is_causal": True})]
    for i, dtype in enumerate(subject.backend.dtypes):
        # The first dtype meets all cases, the others one each.
        for blind, options in cases if i == 0 else cases[i % max(1, len(cases)) :][:1]:
            rows = q[..., : blind.shape[-1], :]
            result = subject(rows, k, v, dtype=dtype, **options, **lse)
            out = result[0] if lse else result
            assert np.all(out[blind] == 0), f"{dtype}, {list(options)}: rows that see nothing are not exactly 0"
            assert np.all(np.isfinite(out)), f"{dtype}, {list(options)}: not finite"
            assert np.all(np.any(out[~blind] != 0, axis=-1)), f"{dtype}, {list(options)}: rows that see something are 0"
            if lse:
                assert np.array_equal(result[1] == -np.inf, blind), f"{dtype}, {list(options)}: lse is not -inf there"


@check(lambda record, backend: record.masks != "any")
def check_masks_refused(subject: Subject) -> None:
    """A mask that the record excludes raises NotImplementedError with a sentence that names the method."""
    q, k, v, _ = _masked(subject)
    arrays = [subject.backend.array(x) for x in (q, k, v)]
    s = k.shape[-2]
    shapes = [(24, s), (24, 1), (2, 1, 24, s)] + ([(1, s), (s,)] if subject.record.masks is None else [])
    for shape in shapes:
        mask = np.ones(shape, dtype=bool)
        for m in (mask, np.where(mask, 0.0, -np.inf)):
            refuses(subject, NotImplementedError, subject.name, *arrays, attn_mask=subject.backend.array(m))
