"""Leverage scores, Lewis weights, importance sampling and sampled products."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from nlattn.errors import ConvergenceWarning
from nlattn.linalg import importance_sample, leverage_scores, lewis_weights, product_probabilities, sampled_product
from nlattn.sketch import sketch_operator
from nlattn.testing import to_numpy


def spiked(n=60, d=4, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, d)) * rng.exponential(size=(n, 1)) ** 3
    if np.dtype(dtype).kind == "c":
        a = a * np.exp(1j * rng.standard_normal((n, d)))
    return a.astype(dtype)


def hat(a, ridge=0.0):
    """The diagonal of a (a^H a + ridge I)^+ a^H."""
    wide = a.astype(complex)
    return np.diag(wide @ np.linalg.pinv(wide.conj().T @ wide + ridge * np.eye(a.shape[1])) @ wide.conj().T).real


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_exact_scores(dtype, ridge):
    a = spiked(dtype=dtype)
    scores = leverage_scores(a, ridge=ridge)
    assert scores.dtype == np.zeros(0, dtype).real.dtype
    np.testing.assert_allclose(scores, hat(a, ridge), atol=1e-5 if dtype == np.float32 else 1e-11)
    s = np.linalg.svd(a, compute_uv=False)
    np.testing.assert_allclose(scores.sum(), np.sum(s**2 / (s**2 + ridge)), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rank_deficient(dtype):
    a = spiked(dtype=dtype)
    doubled = np.concatenate([a, a, np.zeros((60, 2), dtype)], axis=1)
    np.testing.assert_allclose(
        leverage_scores(doubled), leverage_scores(a), atol=2e-5 if dtype == np.float32 else 1e-10
    )
    np.testing.assert_allclose(leverage_scores(doubled).sum(), 4, rtol=1e-5)
    ill = np.diag([1.0, 1e-4, 1e-5]).astype(dtype)
    np.testing.assert_allclose(leverage_scores(ill), np.ones(3), rtol=1e-4)
    np.testing.assert_array_equal(leverage_scores(np.zeros((5, 3), dtype)), np.zeros(5))
    copies = leverage_scores(np.repeat(np.eye(3, dtype=dtype), 4, axis=0))
    np.testing.assert_allclose(copies, np.full(12, 0.25), rtol=1e-6)


@pytest.mark.parametrize("kind", ["gaussian", "sparse_sign", "srht", "count", "balanced_count"])
def test_sketched_scores_lie_in_their_band(kind):
    """Deterministic given how well the sketch keeps the range."""
    a = spiked(400, 5)
    found = leverage_scores(a, method="sketch", sketch=kind, size=80, rng=3)
    kept = np.linalg.svd(sketch_operator(kind, 80, 400, rng=3).apply(scipy.linalg.orth(a)), compute_uv=False)
    ratio = found / hat(a)
    assert np.all(ratio <= kept[-1] ** -2 * (1 + 1e-9))
    assert np.all(ratio >= kept[0] ** -2 * (1 - 1e-9))
    assert 0.3 < np.median(ratio) < 3


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 40.0])
def test_lewis_weights(p):
    a = spiked()
    a[7] = 0
    w = lewis_weights(a, p, rtol=1e-9, iterations=1000)
    assert w[7] == 0
    used = w > 0
    scaled = a[used] * (w[used] ** (0.5 - 1 / p))[:, None]
    np.testing.assert_allclose(hat(scaled), w[used], rtol=1e-7)
    np.testing.assert_allclose(w.sum(), 4, rtol=1e-8)
    if p == 2:
        np.testing.assert_allclose(w, leverage_scores(a), rtol=1e-12)


def test_lewis_weights_that_do_not_converge():
    with pytest.warns(ConvergenceWarning, match="2 iterations reach an accuracy of"):
        lewis_weights(spiked(), 30.0, iterations=2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_draws_follow_their_weights(dtype):
    weights = np.asarray([0, 1, 0, 3, 6, 0], dtype)
    index, log_weight = importance_sample(weights, 6000, rng=0)
    counts = np.bincount(index, minlength=6)
    assert np.all(counts[weights == 0] == 0)
    assert scipy.stats.chisquare(counts[weights > 0], 600 * weights[weights > 0].astype(float)).pvalue > 1e-4
    assert log_weight.dtype == dtype
    np.testing.assert_allclose(np.exp(log_weight), 10 / weights[index] / 6000, rtol=1e-5)


def test_priority_sampling_is_unbiased_and_distinct():
    rng = np.random.default_rng(0)
    weights, values = rng.exponential(size=12) ** 2, rng.standard_normal(12)
    weights[[2, 5]] = 0
    values[[2, 5]] = 0
    estimates = []
    for _ in range(6000):
        index, log_weight = importance_sample(weights, 4, replace=False, rng=rng)
        assert len(set(index.tolist())) == 4
        estimates.append(np.sum(np.exp(log_weight) * values[index]))
    assert abs(np.mean(estimates) - values.sum()) < 5 * np.std(estimates) / np.sqrt(6000)
    index, log_weight = importance_sample(weights, 50, replace=False, rng=0)
    assert sorted(index.tolist()) == np.flatnonzero(weights).tolist()
    np.testing.assert_array_equal(log_weight, 0)


def test_tiny_and_huge_weights():
    weights = np.full(100_000, 1e-30, np.float32)
    weights[17] = 1.0
    index, _ = importance_sample(weights, 500, rng=0)
    assert np.all(index == 17)
    assert importance_sample(np.full(3, 1e300), 4, rng=0).index.shape == (4,)
    assert importance_sample(np.ones(3), 0).index.shape == (0,)
    assert importance_sample([1, 2] * np.ones(2, int), 3, rng=0).log_weight.dtype == np.float64


@pytest.mark.parametrize("kind", ["optimal", "rows", "uniform"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_sampled_product(kind, dtype):
    a, b = (
        np.sqrt(np.abs(spiked(30, 6, dtype))).T.astype(dtype),
        np.cos(spiked(30, 3, dtype, seed=1).real).astype(dtype),
    )
    probabilities = product_probabilities(a, b, kind)
    np.testing.assert_allclose(probabilities.sum(), 1)
    rng = np.random.default_rng(0)
    estimates = np.stack([sampled_product(a, b, 10, kind=kind, rng=rng) for _ in range(3000)])
    error = np.mean(np.abs(estimates - a @ b) ** 2, axis=0).sum()
    norms = np.linalg.norm(a, axis=0) ** 2 * np.linalg.norm(b, axis=1) ** 2
    exact = (np.sum(norms / probabilities) - np.linalg.norm(a @ b) ** 2) / 10
    np.testing.assert_allclose(error, exact, rtol=0.3)
    assert np.linalg.norm(estimates.mean(axis=0) - a @ b) < 5 * np.sqrt(exact / 3000)


def test_products_of_nothing():
    assert sampled_product(np.ones((2, 0)), np.ones((0, 3)), 4).shape == (2, 3)
    np.testing.assert_array_equal(sampled_product(np.zeros((2, 5)), np.zeros((5, 3)), 4, rng=0), np.zeros((2, 3)))


def test_backends(backend):
    a = spiked(30, 3)
    np.testing.assert_allclose(to_numpy(leverage_scores(backend.array(a))), leverage_scores(a), atol=1e-12)
    sketched = leverage_scores(backend.array(a), method="sketch", rng=1)
    np.testing.assert_allclose(to_numpy(sketched), leverage_scores(a, method="sketch", rng=1), rtol=1e-9)
    np.testing.assert_allclose(to_numpy(lewis_weights(backend.array(a), 1.0)), lewis_weights(a, 1.0), rtol=1e-6)
    for replace in (True, False):
        weights = np.abs(a[:, 0])
        found = importance_sample(backend.array(weights), 8, replace=replace, rng=4)
        expected = importance_sample(weights, 8, replace=replace, rng=4)
        np.testing.assert_array_equal(to_numpy(found.index), expected.index)
        np.testing.assert_allclose(to_numpy(found.log_weight), expected.log_weight, rtol=1e-12)
    product = sampled_product(backend.array(a.T.copy()), backend.array(a), 5, rng=2)
    np.testing.assert_allclose(to_numpy(product), sampled_product(a.T, a, 5, rng=2), rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda a: leverage_scores(a, ridge=-1.0), ValueError, "ridge must be >= 0, got -1"),
        (lambda a: leverage_scores(a, method="svd"), ValueError, "method must be one of 'exact', 'sketch', got 'svd'"),
        (
            lambda a: leverage_scores(a, method="sketch", size=2),
            ValueError,
            "size must be at least 4, the columns of a, got 2",
        ),
        (lambda a: leverage_scores(a[0]), ValueError, "a must be a matrix"),
        (lambda a: leverage_scores(a * np.nan), ValueError, "a contains NaN or inf"),
        (lambda a: lewis_weights(a, 0), ValueError, "p must be >= 0.001, got 0"),
        (lambda a: lewis_weights(a, np.inf), ValueError, "^p must be finite, got inf"),
        (lambda a: leverage_scores(a, sketch="srht", size=65), ValueError, "size must be at most 64 .the least power"),
        (lambda a: importance_sample(np.asarray([1, np.inf]), 2), ValueError, "weights must be finite, got inf"),
        (lambda a: importance_sample(np.asarray([1, np.nan]), 2), ValueError, "weights must be finite, got nan"),
        (lambda a: importance_sample(a, 2), ValueError, r"weights must have one axis, got shape \(60, 4\)"),
        (lambda a: importance_sample(-np.ones(3), 2), ValueError, "weights must not be negative, got -1"),
        (lambda a: importance_sample(np.zeros(3), 2), ValueError, "weights must have a positive sum"),
        (lambda a: importance_sample(np.ones(3), -1), ValueError, "size must be at least 0, got -1"),
        (lambda a: importance_sample(np.ones(3) * 1j, 1), TypeError, "weights must be real"),
        (lambda a: sampled_product(a, a, 2), ValueError, r"a and b must match in the middle, got shapes \(60, 4\) and"),
        (lambda a: sampled_product(a.T, a.astype(np.float32), 2), TypeError, "a and b must share one dtype"),
        (lambda a: sampled_product(a.T, a, 0), ValueError, "size must be at least 1, got 0"),
    ],
)
def test_bad_input(call, kind, sentence):
    with pytest.raises(kind, match=sentence):
        call(spiked())


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 3)])
def test_empty_and_single(shape):
    assert leverage_scores(np.ones(shape)).shape == (shape[0],)
    np.testing.assert_allclose(leverage_scores(np.ones(shape)).sum(), min(1, *shape))


EXTREMES = [(np.float64, s) for s in (1e200, 1e-200, 1e-160)] + [(np.float32, s) for s in (1e-30, 1e25)]


@pytest.mark.parametrize(("dtype", "scale"), EXTREMES)
def test_scale(dtype, scale):
    a = spiked(40, 3).astype(dtype)
    big = a * dtype(scale)
    rtol = 1e-3 if dtype == np.float32 else 1e-9
    ridge = float(np.float64(scale)) ** 2 if dtype == np.float32 else 0.0
    for method in ("exact", "sketch"):
        options = {"method": method, "rng": 1}
        np.testing.assert_allclose(leverage_scores(big, **options), leverage_scores(a, **options), rtol=rtol)
        np.testing.assert_allclose(
            leverage_scores(big, ridge=ridge, **options),
            leverage_scores(a, ridge=float(ridge > 0), **options),
            rtol=rtol,
        )
    far = 1.0 if scale < 1 else 0.0
    np.testing.assert_allclose(leverage_scores(big, ridge=1.0), (1 - far) * leverage_scores(a), rtol=rtol, atol=1e-30)
    for p in (1.0, 3.0):
        np.testing.assert_allclose(lewis_weights(big, p), lewis_weights(a, p), rtol=10 * rtol)
    b = spiked(40, 2, seed=1).astype(dtype)
    for kind in ("optimal", "rows", "uniform"):
        expected = product_probabilities(a.T, b, kind)
        np.testing.assert_allclose(product_probabilities(big.T, b, kind), expected, rtol=rtol)
        np.testing.assert_allclose(product_probabilities(a.T, b * dtype(scale), kind), expected, rtol=rtol)
        product = sampled_product(a.T, b * dtype(scale), 6, kind=kind, rng=2)
        np.testing.assert_allclose(product / dtype(scale), sampled_product(a.T, b, 6, kind=kind, rng=2), rtol=rtol)


def test_ridge_is_scaled():
    a = spiked(40, 3)
    np.testing.assert_allclose(leverage_scores(a * 1e145, ridge=1e290), leverage_scores(a, ridge=1.0), rtol=1e-9)
    np.testing.assert_allclose(leverage_scores(a * 1e-145, ridge=1e-290), leverage_scores(a, ridge=1.0), rtol=1e-9)


def test_terms_of_opposite_scales():
    found = product_probabilities(np.asarray([[1, 1e-180]]), np.asarray([[1.0], [1e180]]))
    np.testing.assert_allclose(found, [0.5, 0.5])


def test_probabilities_by_their_formulas():
    a, b = spiked(9, 3).T, spiked(9, 2, seed=1)
    left, right = np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=1)
    for kind, weights in (("optimal", left * right), ("rows", right**2), ("uniform", np.ones(9))):
        np.testing.assert_allclose(product_probabilities(a, b, kind), weights / weights.sum(), rtol=1e-12)


class Scripted(np.random.Generator):
    """Draws what it is told."""

    def __init__(self, *draws):
        super().__init__(np.random.PCG64(0))
        self.draws = draws

    def random(self, size):
        assert size == len(self.draws)
        return np.asarray(self.draws)


def test_draws_at_the_ends():
    draws = Scripted(0.0, 0.25, 0.5, 1 - 2**-53)
    assert importance_sample(np.asarray([0.0, 1, 1, 0, 2, 0]), 4, rng=draws).index.tolist() == [1, 2, 4, 4]


@pytest.mark.parametrize("weights", [[1e308, 1e308], [5e-324, 0, 5e-324], [1e308, 1e-300], [1e300, 0, 1e300]])
def test_weights_at_the_limits_of_floats(weights):
    weights = np.asarray(weights)
    positive = weights[weights > 0]
    with np.errstate(all="ignore"):
        share = positive / weights.max()
    index, log_weight = importance_sample(weights, 8, rng=0)
    assert np.all(weights[index] > 0)
    np.testing.assert_allclose(log_weight, np.log(share.sum() / 8 / (weights[index] / weights.max())), atol=1e-12)
    index, log_weight = importance_sample(weights, 2, replace=False, rng=0)
    assert sorted(index.tolist()) == np.flatnonzero(weights).tolist()
    np.testing.assert_array_equal(log_weight, 0)
    index, log_weight = importance_sample(weights, 1, replace=False, rng=0)
    assert index.shape == (1,)
    assert np.isfinite(log_weight[0])


def test_priority_by_its_definition():
    weights, uniform = np.asarray([4.0, 1.0, 0.0, 2.0]), np.asarray([0.5, 0.75, 0.1, 0.2])
    index, log_weight = importance_sample(weights, 2, replace=False, rng=Scripted(*(1 - uniform)))
    assert index.tolist() == [3, 0]  # priorities 8, 4/3, 0, 10
    np.testing.assert_allclose(log_weight, 0, atol=1e-15)
    index, log_weight = importance_sample(weights, 1, replace=False, rng=Scripted(*(1 - uniform)))
    np.testing.assert_allclose(log_weight, [np.log(8 / 2)])


def test_unchecked_values_reach_the_sketch():
    with pytest.raises(np.linalg.LinAlgError):
        leverage_scores(np.full((40, 3), np.nan), method="sketch", check_finite=False, rng=0)


@pytest.mark.parametrize("kind", ["srht", "sparse_sign", "count"])
@pytest.mark.parametrize("shape", [(40, 20), (1, 3), (3, 5)])
def test_default_sizes(kind, shape):
    a = np.random.default_rng(0).standard_normal(shape)
    found = leverage_scores(a, method="sketch", sketch=kind, rng=0)
    assert found.shape == (shape[0],)
    if kind == "srht":  # with as many rows as that an isometry
        np.testing.assert_allclose(found, leverage_scores(a), rtol=1e-9)


@pytest.mark.parametrize("p", [1e-3, 0.05])
def test_lewis_weights_of_small_p(p):
    column = np.asarray([[1.0], [0.0], [1e-8], [1e8]])
    expected = np.abs(column[:, 0]) ** p
    np.testing.assert_allclose(lewis_weights(column, p), expected / expected.sum(), rtol=1e-6)
    with pytest.warns(ConvergenceWarning):
        found = lewis_weights(spiked(), p, iterations=20)
    assert np.all((found > 0) & (found < 2))


def test_small_p_converges():
    a = spiked(20, 3)
    w = lewis_weights(a, 0.02, rtol=1e-6, iterations=3000)
    np.testing.assert_allclose(hat(a * ((w / w.max()) ** (0.5 - 1 / 0.02))[:, None]), w, rtol=1e-4)


def test_recorded_gradients():
    torch = pytest.importorskip("torch")
    a = torch.tensor(spiked(20, 3), requires_grad=True)
    for call in (
        lambda: leverage_scores(a),
        lambda: leverage_scores(a, ridge=1.0),
        lambda: leverage_scores(a, method="sketch", rng=0),
        lambda: lewis_weights(a, 1.0),
        lambda: product_probabilities(a.T, a),
        lambda: importance_sample(torch.abs(a[:, 0]), 3, rng=0),
        lambda: importance_sample(torch.abs(a[:, 0]), 3, replace=False, rng=0),
        lambda: sampled_product(a.T, a, 3, rng=0),
    ):
        call()
