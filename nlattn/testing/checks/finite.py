"""Checks of NaN and infinity, which are refused where some row may meet them, and harmless where none may."""

import itertools
from typing import Any

import numpy as np

from nlattn.testing._asserts import assert_close
from nlattn.testing._suite import ROUNDING, Subject, check
from nlattn.testing.checks.refusals import refuses

__all__ = ["check_hidden_nan", "check_nan_is_confined", "check_visible_nan"]

#: Numbers that are not finite.
BAD = (np.nan, -np.nan, np.inf, -np.inf)

#: Methods that promise to confine NaN to the rows that may attend to it: their weights are 0 outside of intervals and
#: masks, and no product spreads a NaN.
CONFINING = ("exact", "streaming")


@check(lambda record, backend: not record.shared_qk)
def check_visible_nan(subject: Subject) -> None:
    """NaN or inf raises a ValueError that names the argument, and the option that lets it through."""
    for i, name in enumerate(("query", "key", "value")):
        for bad in BAD:
            arrays = list(subject.draw())
            arrays[i][1, -1, 2] = bad
            for dtype in subject.backend.dtypes:
                inputs = [subject.backend.array(x, dtype) for x in arrays]
                refuses(subject, ValueError, (f"{name} contains NaN or inf", "check_finite=False"), *inputs)


@check(lambda record, backend: record.masks is not None and not record.shared_qk)
def check_hidden_nan(subject: Subject) -> None:
    """Keys that no row may attend to may hold anything. That has no influence, and gives no warning."""
    q, k, v = subject.draw(heads=4, heads_kv=2, batch=(2,))
    hidden = np.zeros((2, 1, 1, 40), dtype=bool)
    hidden[0, ..., [2, 3, 39]] = hidden[1, ..., 0] = True
    at = np.broadcast_to(hidden[:, :, 0, :], k.shape[:-1])
    mask = ~hidden
    wanted = subject(q, k, v, attn_mask=mask)
    masks = itertools.cycle((mask, np.where(mask, 0.0, -np.inf)))
    for bad in BAD:
        bad_k, bad_v = k.copy(), v.copy()
        bad_k[at], bad_v[at] = bad, bad
        bad_k[0, 0, 2, 1] = bad_v[0, 0, 2, 1] = -np.inf
        for kk, vv in ((bad_k, v), (k, bad_v), (bad_k, bad_v)):
            assert_close(subject(q, kk, vv, attn_mask=next(masks)), wanted, rtol=ROUNDING["float64"], atol=1e-9)
    # A value may also be hidden from all query heads of its own group, while those of the other group see that place.
    bad_v = v.copy()
    bad_v[0, 1, 5] = np.nan
    some = np.ones((4, 1, 40), dtype=bool)
    some[2:, :, 5] = False
    assert np.all(np.isfinite(subject(q, k, bad_v, attn_mask=some)))
    some[3, :, 5] = True
    arrays = [subject.backend.array(x) for x in (q, k, bad_v)]
    refuses(subject, ValueError, "value contains", *arrays, attn_mask=subject.backend.array(some))


def _confined(
    subject: Subject, arrays: list[np.ndarray], reach: np.ndarray, options: dict[str, Any], wanted: np.ndarray
) -> None:
    """Assert that just the rows in `reach` are NaN, and that all others are as `wanted`."""
    out = subject(*arrays, check_finite=False, **options)
    got = np.isnan(out).any(-1)
    assert not np.any(got & ~reach), f"{options.keys()}: a NaN reached rows that may not attend to it"
    assert np.all(got[reach]), f"{options.keys()}: a NaN was lost in rows that attend to it"
    assert_close(out[~reach], wanted[~reach], rtol=1e-9, atol=1e-10)


@check(lambda record, backend: record.name in CONFINING)
def check_nan_is_confined(subject: Subject) -> None:
    """With check_finite=False a NaN turns the rows that attend to it into NaN, and no others."""
    rng = np.random.default_rng(2)
    q, k, v = subject.draw(40, 40)
    q[:, 9, 3] = 0.0
    mask = rng.random((40, 40)) < 0.4
    one = np.zeros((40, 40), dtype=bool)
    one[:, 17] = True  # the only key that is not masked will be NaN
    near = np.abs(np.arange(40)[:, None] - 17) < 8
    if subject.name == "exact":
        near = np.ones((40, 40), dtype=bool)
    cases: list[dict[str, Any]] = [{}, {"is_causal": True}, {"attn_mask": mask}, {"attn_mask": one}]
    for options in cases:
        wanted = subject(q, k, v, **options)
        allowed = np.broadcast_to(options.get("attn_mask", True), (40, 40))[:, 17] & near[:, 0]
        if options.get("is_causal"):
            allowed = allowed & (np.arange(40) >= 17)
        reach = np.broadcast_to(allowed, (2, 40))
        for bad in (np.nan, -np.nan):
            for i in (1, 2):
                arrays = [x.copy() for x in (q, k, v)]
                arrays[i][:, 17] = bad
                with np.errstate(invalid="ignore"):
                    _confined(subject, arrays, reach, options, wanted)
            arrays = [x.copy() for x in (q, k, v)]
            arrays[0][1, 20] = bad
            row = np.zeros((2, 40), dtype=bool)
            row[1, 20] = options.get("attn_mask") is None or options["attn_mask"][20].any()
            _confined(subject, arrays, row, options, wanted)
