"""Random directions against the laws that they claim."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from nlattn.arrays.random import generator
from nlattn.sketch import (
    hyperbolic_log_features,
    orthogonal_projection,
    positive_log_features,
)
from nlattn.testing import assert_close, assert_same_kind


@pytest.mark.parametrize(("m", "d"), [(1, 1), (5, 1), (3, 8), (8, 8), (21, 8)])
@pytest.mark.parametrize("kind", ["haar", "hd"])
def test_blocks_are_orthogonal(kind, m, d):
    W = orthogonal_projection(m, d, kind=kind, lengths="sqrt", rng=1)
    assert W.shape == (m, d)
    for i in range(0, m, d):
        block = W[i : i + d]
        assert_close(block @ block.T, d * np.eye(len(block)), rtol=0, atol=1e-12 * d)
    chi = orthogonal_projection(m, d, kind=kind, rng=1)
    assert_close(chi / np.linalg.norm(chi, axis=1, keepdims=True), W / np.sqrt(d), rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["haar", "iid", "hd"])
def test_moments_of_directions(kind):
    """Rows have mean 0 and covariance I; with chi lengths, the lengths those of normal vectors."""
    d, count = 4, 20_000
    W = orthogonal_projection(6, d, kind=kind, batch=(count,), rng=2)
    assert W.shape == (count, 6, d)
    mean = W.mean(axis=0) * np.sqrt(count)
    covariance = (np.einsum("bmi,bmj->mij", W, W) / count - np.eye(d)) * np.sqrt(count / 2)
    assert np.abs(mean).max() < 5
    assert np.abs(covariance).max() < 5
    squares = np.sum(W**2, axis=-1)
    assert abs(np.mean(squares) - d) < 5 * np.sqrt(2 * d / (6 * count))
    assert abs(np.var(squares) / (2 * d) - 1) < 0.1
    assert np.allclose(np.sum(orthogonal_projection(9, d, kind=kind, lengths="sqrt", rng=2) ** 2, axis=-1), d)
    # Lengths are independent of each other and of the blocks.
    assert abs(np.corrcoef(squares[:, 0], squares[:, 1])[0, 1]) < 5 / np.sqrt(count)


def test_haar_as_scipy_draws_it():
    """The trace of a Haar orthogonal matrix, times any other, has moments 0, 1, 3; LAPACK's Q alone has others."""
    d, count = 5, 20_000
    others = [np.eye(d), np.eye(d)[::-1], ortho_group.rvs(d, random_state=0), np.full((d, d), 2 / d) - np.eye(d)]
    draws = {
        "ours": orthogonal_projection(d, d, lengths="sqrt", batch=(count,), rng=3) / np.sqrt(d),
        "scipy's": ortho_group.rvs(d, size=count, random_state=3),
        "raw": np.linalg.qr(np.random.default_rng(3).standard_normal((count, d, d)))[0],
    }
    for name, Q in draws.items():
        worst = 0
        for power, moment, spread in ((1, 0, 1.0), (2, 1, 1.5), (4, 3, 10.0)):
            for other in others:
                mean = np.mean(np.einsum("bij,ji->b", Q, other) ** power)
                worst = max(worst, abs(mean - moment) / (spread / np.sqrt(count)))
        assert (worst < 5) == (name in ("ours", "scipy's")), (name, worst)


def test_signs_of_qr_matter():
    """Without the signs positive features are biased by a quarter; cosh features are not."""
    d, count = 16, 4000
    x = np.full((1, d), 0.25)  # x + x = (1/2, ..., 1/2)
    fixed = orthogonal_projection(d, d, batch=(count,), rng=4)
    raw = np.swapaxes(np.linalg.qr(np.random.default_rng(4).standard_normal((count, d, d)))[0], 1, 2)
    raw = raw * np.linalg.norm(fixed, axis=-1, keepdims=True)
    ratios = {}
    for name, W in (("fixed", fixed), ("raw", raw)):
        for function in (positive_log_features, hyperbolic_log_features):
            estimate = np.sum(np.exp(2 * function(x, W)), axis=-1)[:, 0] / np.exp(x[0] @ x[0])
            ratios[name, function.__name__] = np.mean(estimate)
    assert ratios["fixed", "positive_log_features"] == pytest.approx(1, abs=0.06)
    assert ratios["raw", "positive_log_features"] < 0.8
    assert ratios["fixed", "hyperbolic_log_features"] == pytest.approx(1, abs=0.03)
    assert ratios["raw", "hyperbolic_log_features"] == pytest.approx(1, abs=0.03)


def test_same_draws_everywhere(backend):
    for kind in ("haar", "iid", "hd"):
        host = orthogonal_projection(5, 4, kind=kind, rng=7)
        like = backend.array(np.zeros(1))
        W = orthogonal_projection(5, 4, kind=kind, rng=7, like=like)
        assert_close(W, host, rtol=0, like=like)
        single = backend.array(np.zeros(1, np.float32))
        W = orthogonal_projection(5, 4, kind=kind, rng=7, like=single)
        assert_close(W, host.astype(np.float32), rtol=0, like=single)
    assert_same_kind(orthogonal_projection(5, 4, rng=7, like=backend.array(np.zeros(1, int))), like)


def test_rng_of_projections():
    first, second = (orthogonal_projection(3, 4, rng=g) for g in [generator(5)] * 2)
    assert np.array_equal(first, orthogonal_projection(3, 4, rng=5))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((0, 4), {}, "features must be at least 1, got 0"),
        ((4, 0), {}, "dimension must be at least 1, got 0"),
        ((4, 6), {"kind": "hd"}, "dimension must be a power of two for kind 'hd', got 6; pad the vectors with zeros"),
        ((4, 4), {"kind": "qr"}, "kind must be one of 'haar', 'hd', 'iid', got 'qr'"),
        ((4, 4), {"lengths": 2}, "lengths must be one of 'chi', 'sqrt', got 2"),
    ],
)
def test_bad_projections(arguments, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        orthogonal_projection(*arguments, **options)
