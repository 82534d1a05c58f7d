"""Queries and keys with the same scores and smaller sums."""

import numpy as np
import pytest

from nlattn.sketch import (
    balance_query_key,
)
from nlattn.testing import assert_close, assert_same_kind

rng = np.random.default_rng(0)


def mean_square(x, y):
    return np.mean(np.sum((x[..., :, None, :] + y[..., None, :, :]) ** 2, axis=-1), axis=(-2, -1))


@pytest.mark.parametrize("kind", ["full", "diagonal", "none"])
@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scores_stay(backend, kind, centre, dtype):
    draws = np.random.default_rng(10)
    mix = draws.standard_normal((2, 5, 5))
    q = (draws.standard_normal((2, 30, 5)) @ mix + 2).astype(dtype)
    k = (draws.standard_normal((2, 20, 5)) * [3, 1, 1, 0.1, 0.1] - 1).astype(dtype)
    balanced = balance_query_key(backend.array(q), backend.array(k), kind=kind, centre=centre)
    assert_same_kind(balanced.query, backend.array(q))
    x, y, shift, weight = (backend.to_numpy(p).astype(float) for p in balanced)
    scores = x @ np.swapaxes(y, -1, -2) + shift[..., :, None] + weight[..., None, :]
    size = np.linalg.norm(q, axis=-1).max() * np.linalg.norm(k, axis=-1).max()
    assert_close(
        scores, q.astype(float) @ np.swapaxes(k, -1, -2), rtol=0, atol=size * (1e-12 if dtype == "float64" else 1e-5)
    )
    assert np.all(mean_square(x, y) <= mean_square(q.astype(float), k) * (1 + 1e-5))
    if kind == "full" and centre:
        # No diagonal does better, and both second moments are the same diagonal matrix.
        diagonal = balance_query_key(q.astype(float), k.astype(float), kind="diagonal")
        assert np.all(mean_square(x, y) <= mean_square(diagonal.query, diagonal.key) * (1 + 1e-5))
        for p in (x, y):
            moment = np.swapaxes(p, -1, -2) @ p / p.shape[-2]
            values = np.diagonal(moment, axis1=-2, axis2=-1)
            assert_close(moment, values[..., None] * np.eye(5), rtol=0, atol=1e-3 * np.max(values))


def test_diagonal_is_the_best_diagonal():
    q, k = rng.standard_normal((30, 4)) * [5, 1, 1, 0.2], rng.standard_normal((20, 4))
    x, y, _, _ = balance_query_key(q, k, kind="diagonal")
    best = mean_square(x, y)
    for _ in range(50):
        t = np.exp(0.1 * rng.standard_normal(4))
        assert mean_square(x * t, y / t) >= best * (1 - 1e-7)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_balancing_of_what_is_rank_deficient(kind, dtype):
    basis = rng.standard_normal((2, 6))
    cases = {
        "keys of rank 2": (rng.standard_normal((30, 6)), rng.standard_normal((20, 2)) @ basis),
        "both": (rng.standard_normal((30, 2)) @ basis, rng.standard_normal((20, 1)) @ basis[:1]),
        "one query": (rng.standard_normal((1, 6)), rng.standard_normal((20, 6))),
        "one of each": (rng.standard_normal((1, 6)), rng.standard_normal((1, 6))),
        "zero keys": (rng.standard_normal((30, 6)), np.zeros((20, 6))),
        "all zero": (np.zeros((3, 6)), np.zeros((4, 6))),
        "equal keys": (rng.standard_normal((30, 6)), np.ones((20, 6))),
    }
    for name, (q, k) in cases.items():
        q, k = q.astype(dtype), k.astype(dtype)
        x, y, shift, weight = (p.astype(float) for p in balance_query_key(q, k, kind=kind))
        scores = x @ y.T + shift[:, None] + weight
        size = max(1.0, np.linalg.norm(q, axis=-1).max() * np.linalg.norm(k, axis=-1).max())
        tight = 1e-11 if dtype == "float64" else 2e-5
        assert np.abs(scores - q.astype(float) @ k.T).max() <= tight * size, name
        assert mean_square(x, y) <= mean_square(q.astype(float), k) * (1 + 1e-5) + 1e-12, name


def test_bad_balancing():
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match="kind must be one of 'full', 'diagonal', 'none', got 'half'"):
        balance_query_key(x, x, kind="half")
    with pytest.raises(ValueError, match=r"key must hold at least one point, got shape \(0, 3\)"):
        balance_query_key(x, x[:0])
    with pytest.raises(ValueError, match="query and key must agree in their last axis"):
        balance_query_key(x, x[:, :2])
    with pytest.raises(ValueError, match="key contains NaN or inf"):
        balance_query_key(x, x * np.nan)
