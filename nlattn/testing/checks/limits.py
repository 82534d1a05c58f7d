"""Checks against the dense formula: where a method is exact, and how accurate exact attention is."""

from typing import Any

import numpy as np

from nlattn import datasets
from nlattn.testing._asserts import assert_close
from nlattn.testing._oracle import dense_attention
from nlattn.testing._suite import Subject, check

__all__ = [
    "check_accuracy",
    "check_accuracy_on_real_data",
    "check_approximates",
    "check_exact_limit",
    "naive_attention",
]


def _options(subject: Subject, length: int, s: int) -> list[dict[str, Any]]:
    """All masks that the method honours, with and without causality, and some scales."""
    rng = np.random.default_rng(1)
    masks: list[Any] = []
    if subject.record.masks is not None:
        keys = rng.random((2, 4, 1, s)) < 0.6
        masks += [keys, np.where(keys, rng.standard_normal(keys.shape), -np.inf)]
    if subject.record.masks == "any":
        some = rng.random((4, length, s)) < 0.6
        masks += [some, np.where(some, 3 * rng.standard_normal(some.shape), -np.inf)]
    causal = [False] if subject.record.causal is None else [False, True]
    scales: list[dict[str, Any]] = [{}, {"scale": 0.0}, {"scale": -0.7}]
    return [{"attn_mask": m, "is_causal": c} for m in [None, *masks] for c in causal] + scales


@check(lambda record, backend: record.exact_at is not None or record.family == "exact")
def check_exact_limit(subject: Subject) -> None:
    """From the budget that the record names on, the output is that of the dense formula, with any mask and scale."""
    every = 1 if subject.record.family == "exact" else 4
    for i, (length, s, heads_kv) in enumerate(((24, 40, 2), (40, 24, 1), (33, 33, 4), (1, 40, 4))):
        q, k, v = subject.draw(length, s, batch=(2,), heads=4, heads_kv=heads_kv)
        # Exact attention runs in the place of an approximation: its masks and scales are tried with one size each.
        for options in _options(subject, length, k.shape[-2])[i % every :: every]:
            wanted = dense_attention(q, k, v, **options)
            lse: dict[str, Any] = {"return_lse": True} if subject.record.partial else {}
            exact: dict[str, Any] = subject.exact_budgets(length, k.shape[-2])
            result = subject(q, k, v, **options, **lse, **exact)
            assert_close(result[0] if lse else result, wanted.out, rtol=1e-12, atol=1e-13)
            if lse:
                assert_close(result[1], wanted.lse, rtol=1e-12, atol=1e-12)


@check(lambda record, backend: bool(record.budgets))
def check_approximates(subject: Subject) -> None:
    """With the small budgets of this suite the method does approximate, without which other checks show nothing."""
    q, k, v = subject.draw(seed=1)
    error = np.abs(subject(q, k, v) - dense_attention(q, k, v).out).max()
    assert error > 1e-6, f"the error is {error:.1e} with budgets {subject.budgets()}"


def naive_attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, is_causal: bool, scale: float) -> np.ndarray:
    """The formula in the precision of the input, whose error that of exact attention is compared with."""
    group = query.shape[0] // key.shape[0]
    key, value = (np.repeat(x, group, axis=0) for x in (key, value))
    scores = (query @ np.swapaxes(key, -1, -2)) * query.dtype.type(scale)
    if is_causal:
        length, s = scores.shape[-2:]
        scores = np.where(np.arange(s) <= np.arange(length)[:, None] + (s - length), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray((weights / weights.sum(-1, keepdims=True)) @ value)


def _compare(
    subject: Subject, q: np.ndarray, k: np.ndarray, v: np.ndarray, is_causal: bool, scale: float, what: str
) -> None:
    """Compare the errors of both in float32, by the Frobenius norm and by the worst row."""
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    truth = dense_attention(q, k, v, is_causal=is_causal, scale=scale).out
    ours = subject(q, k, v, dtype="float32", is_causal=is_causal, scale=scale) - truth
    naive = naive_attention(q, k, v, is_causal, scale) - truth
    for name, size in (("Frobenius", np.linalg.norm), ("worst row", lambda x: np.linalg.norm(x, axis=-1).max())):
        # The rounding of the output, half an eps, cannot be avoided.
        rounding = 2.0**-24 * size(truth)
        got, allowed = size(ours), 2 * max(float(size(naive)), float(rounding))
        assert got <= allowed, f"{what}: {name} error {got:.2e}, twice that of the naive computation is {allowed:.2e}"


@check(lambda record, backend: record.family == "exact")
def check_accuracy(subject: Subject) -> None:
    """The error is at most twice that of the naive computation in float32, from flat to peaked and short to long."""
    for e, size, length in ((32, 1.0, 300), (64, 1.0, 1100), (64, 4.0, 700), (48, 15.0, 500), (64, 1e-3, 300)):
        q, k, v = subject.draw(length, length, heads=1, e=e, ev=16, seed=length)
        for is_causal in (False, True):
            what = f"E = {e}, entries of size {size:g}, causal {is_causal}"
            _compare(subject, size * q, size * k, v, is_causal, e**-0.5, what)


@check(lambda record, backend: record.family == "exact")
def check_accuracy_on_real_data(subject: Subject) -> None:
    """The error is so small on queries, keys and values of real models too."""
    for name in datasets.NAMES:
        sample = datasets.load(name)
        heads = len(sample.query) // len(sample.key)
        q, k, v = sample.query[:heads], sample.key[:1], sample.value[:1]
        _compare(subject, q[:, -200:], k, v, sample.is_causal, sample.scale, name)
