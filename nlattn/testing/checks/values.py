"""Checks of unusual finite values: huge and tiny scores, zeros, duplicates, equal keys, one giant cluster."""

from typing import Any

import numpy as np

from nlattn.methods.record import Record
from nlattn.testing._asserts import assert_close
from nlattn.testing._oracle import dense_attention
from nlattn.testing._suite import Subject, check

__all__ = ["check_equal_keys", "check_unusual_values", "unusual"]


def unusual(q: Any, k: Any, v: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Inputs by name, made from ordinary ones."""
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
    """The output is finite, in the hull where promised, exact where the budget allows; no warning."""
    arrays = subject.draw(48, 63)
    causal = [{"is_causal": True}] if subject.record.causal is not None else []
    for dtype in ("float64", "float32"):
        for name, (q, k, v) in unusual(*arrays).items():
            if subject.record.shared_qk:
                k = q[..., : k.shape[-2], :]
            q, k, v = (x.astype(dtype) for x in (q, k, v))
            for options in [{}, *causal] if dtype == "float64" else [{}]:
                out = subject(q, k, v, dtype=dtype, **options)
                assert np.all(np.isfinite(out)), f"{name}, {dtype}, {options}: the output is not finite"
                if subject.record.convex:
                    slack = 1e-5 * np.abs(v).max()
                    inside = (out >= v.min(-2, keepdims=True) - slack) & (out <= v.max(-2, keepdims=True) + slack)
                    assert np.all(inside), f"{name}, {dtype}, {options}: the output leaves the hull"
                exact: dict[str, Any] = subject.exact_budgets(48, 63)
                if exact or subject.record.family == "exact":
                    wanted = dense_attention(q, k, v, **options).out
                    out = subject(q, k, v, dtype=dtype, **options, **exact)
                    size = float(np.abs(v).max())
                    scores = float(np.abs(q.astype(float) @ np.swapaxes(k, -1, -2).astype(float)).max()) * 8**-0.5
                    eps = float(np.finfo(dtype).eps)
                    least = 64 * float(np.finfo(dtype).smallest_subnormal)
                    assert_close(out.astype(float), wanted, rtol=0, atol=size * eps * (20 + 10 * scores) + least)


def _samples(record: Record) -> bool:
    """Whether a key may stand for others."""
    return any(budget.name == "samples" for budget in record.budgets)


@check(lambda record, backend: record.rows_sum_to_one and not record.shared_qk and not _samples(record))
def check_equal_keys(subject: Subject) -> None:
    """Equal keys give equal weights: where every key is met, the mean of the values; where not, of those that are."""
    q, k, _ = subject.draw()
    k = np.broadcast_to(k[..., :1, :], k.shape)
    eye = np.broadcast_to(np.eye(k.shape[-2]), (*k.shape[:-1], k.shape[-2]))
    weights = subject(q, k, eye)
    used = weights > 1e-12
    assert_close(weights, used / used.sum(-1, keepdims=True), rtol=1e-9, atol=1e-12)
