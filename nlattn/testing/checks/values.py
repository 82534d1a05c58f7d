"""Checks of unusual finite values: huge and tiny scores, zeros, duplicates, equal keys, one giant cluster."""

from typing import Any

import numpy as np

from nlattn.methods.record import Record
from nlattn.testing._asserts import assert_close
from nlattn.testing._oracle import dense_attention
from nlattn.testing._suite import Subject, check

__all__ = ["check_equal_keys", "check_unusual_values", "unusual"]


def unusual(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Unusual inputs by name, made from ordinary ones."""
    rng = np.random.default_rng(11)
    logit = np.abs(q @ np.swapaxes(k, -1, -2)).max() * q.shape[-1] ** -0.5
    cluster = 0.01 * k
    cluster[..., ::9, :] += 3 * rng.standard_normal(cluster[..., ::9, :].shape)
    cluster[..., 1::9, :] += 2.0
    duplicates = k[..., np.arange(k.shape[-2]) // 5, :]
    one_hot = np.zeros_like(k)
    one_hot[..., 3, :] = 40.0
    offset = k + 100.0
    return {
        "logits of hundreds": (q * (500 / logit), k, v),
        "logits of thousands": (q * (5000 / logit), k, v),
        "tiny": (1e-30 * q, 1e-5 * k, 1e-30 * v),
        "subnormal": (1e-40 * q, 1e-40 * k, 1e-40 * v),
        "zero queries": (0 * q, k, v),
        "zero keys": (q, 0 * k, v),
        "zero values": (q, k, 0 * v),
        "all zero": (0 * q, 0 * k, 0 * v),
        "duplicates": (q, duplicates, v),
        "equal queries": (np.broadcast_to(q[..., :1, :], q.shape), k, v),
        "one giant cluster": (q, cluster, v),
        "one key alone": (q, one_hot, v),
        "a common offset": (q, offset, v),
        "values of 1e30": (q, k, 1e30 * v),
    }


@check()
def check_unusual_values(subject: Subject) -> None:
    """The output is finite and without a warning, in the hull if promised, and right if the method is exact."""
    arrays = subject.draw(48, 63)
    causal: list[dict[str, Any]] = [{"is_causal": True}] if subject.record.causal is not None else []
    exact = subject.record.family == "exact"
    # Approximations meet these values in float32 alone, where they are the most unusual.
    for dtype in ("float64", "float32") if exact else ("float32",):
        for name, (q, k, v) in unusual(*arrays).items():
            if subject.record.shared_qk:
                k = q[..., : k.shape[-2], :]
            q, k, v = (x.astype(dtype) for x in (q, k, v))
            for options in [{}, *causal]:
                out = subject(q, k, v, dtype=dtype, **options)
                assert np.all(np.isfinite(out)), f"{name}, {dtype}, {options}: the output is not finite"
                if subject.record.convex:
                    slack = 1e-5 * np.abs(v).max()
                    inside = (out >= v.min(-2, keepdims=True) - slack) & (out <= v.max(-2, keepdims=True) + slack)
                    assert np.all(inside), f"{name}, {dtype}, {options}: the output leaves the hull"
                if exact:
                    scores = float(np.abs(q.astype(float) @ np.swapaxes(k, -1, -2).astype(float)).max()) * 8**-0.5
                    allowed = float(np.abs(v).max()) * float(np.finfo(dtype).eps) * (20 + 10 * scores)
                    allowed += 64 * float(np.finfo(dtype).smallest_subnormal)
                    wanted = dense_attention(q, k, v, is_causal=bool(options)).out
                    assert_close(out.astype(float), wanted, rtol=0, atol=allowed)


def _samples(record: Record) -> bool:
    """Whether drawn keys stand for others, so that equal keys may have different weights."""
    return any(budget.name == "samples" for budget in record.budgets)


@check(lambda record, backend: record.rows_sum_to_one and not record.shared_qk and not _samples(record))
def check_equal_keys(subject: Subject) -> None:
    """Equal keys have equal weights: the output is the mean of the values of the keys that are met."""
    q, k, _ = subject.draw()
    k = np.broadcast_to(k[..., :1, :], k.shape)
    eye = np.broadcast_to(np.eye(k.shape[-2]), (*k.shape[:-1], k.shape[-2]))
    weights = subject(q, k, eye)
    used = weights > 1e-12
    assert_close(weights, used / used.sum(-1, keepdims=True), rtol=1e-9, atol=1e-12)
