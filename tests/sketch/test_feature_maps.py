"""Random features against their formulas."""

import numpy as np
import pytest

from nlattn.sketch import (
    balance_query_key,
    hyperbolic_log_features,
    optimal_covariance,
    orthogonal_projection,
    positive_log_features,
    stabilised_features,
    trigonometric_features,
)
from nlattn.testing import assert_close, assert_same_kind

rng = np.random.default_rng(0)


def hermite(d, count=40):
    """Nodes (count^d, d) and weights of the mean over N(0, I_d)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    mass = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * d, indexing="ij")), axis=0).reshape(-1)
    return grid, mass


def dense(kind, x, W, variance=1.0):
    """The features by their definition, in float64."""
    x, W = x.astype(float), W.astype(float)
    if kind is trigonometric_features:
        angles = np.einsum("...nd,...md->...nm", x, W)
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1) / np.sqrt(W.shape[-2])
    variance = np.broadcast_to(variance, W.shape[-1:])
    omega = W * np.sqrt(variance)
    # The ratio of the densities of N(0, I) and N(0, variance) at omega.
    ratio = np.sqrt(np.prod(variance)) * np.exp(-0.5 * np.sum(omega**2 * (1 - 1 / variance), axis=-1))
    norms = np.exp(-0.5 * np.sum(x**2, axis=-1, keepdims=True))

    def one(sign):
        angles = np.einsum("...nd,...md->...nm", x, sign * omega)
        return np.exp(angles) * norms * np.sqrt(ratio)[..., None, :] / np.sqrt(W.shape[-2])

    if kind is positive_log_features:
        return one(1)
    return np.concatenate([one(1), one(-1)], axis=-1) / np.sqrt(2)


KINDS = [trigonometric_features, positive_log_features, hyperbolic_log_features]


@pytest.mark.parametrize("function", KINDS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_features(backend, function, dtype, lead):
    x, W = rng.standard_normal((*lead, 7, 5)).astype(dtype), rng.standard_normal((*lead[1:], 6, 5))
    tight = 1e-12 if dtype == "float64" else 2e-5
    got = function(backend.array(x), backend.array(W))
    assert_same_kind(got, backend.array(x))
    values = backend.to_numpy(got)
    values = values if function is trigonometric_features else np.exp(values)
    assert_close(values.astype(float), dense(function, x, W.astype(dtype)), rtol=tight, atol=tight)
    if function is not trigonometric_features:
        for variance in (1.7, np.linspace(0.6, 2, 5), np.asarray([1.2])):
            given = variance if isinstance(variance, float) else backend.array(variance)
            values = np.exp(backend.to_numpy(function(backend.array(x), backend.array(W), variance=given)))
            assert_close(values.astype(float), dense(function, x, W, variance), rtol=tight * 10, atol=tight)


@pytest.mark.parametrize("d", [1, 2])
def test_unbiased(d):
    """The mean of the product of features is the kernel: by quadrature, without draws."""
    W, mass = hermite(d)
    x, y = rng.standard_normal((2, 1, d)) / 2
    for function in KINDS:
        for variance in (None, 1.3, np.linspace(0.8, 1.4, d)):
            if variance is not None and function is trigonometric_features:
                continue
            options = {} if variance is None else {"variance": variance}
            a, b = (function(p, W, **options)[0] * 1.0 for p in (x, y))
            if function is not trigonometric_features:
                a, b = np.exp(a), np.exp(b)
            products = (a * b).reshape(-1, len(W)).sum(axis=0) * len(W)
            distance = np.exp(-0.5 * np.sum((x - y) ** 2))
            exact = distance if function is trigonometric_features else np.exp(np.sum(x * y))
            np.testing.assert_allclose(products @ mass, exact, rtol=1e-11)


@pytest.mark.parametrize("function", KINDS)
def test_kinds_of_input(function):
    x, W = rng.integers(-2, 3, (4, 5)), rng.standard_normal((3, 5))
    wanted = function(x.astype(float), W)
    assert_close(function(x, W), wanted, rtol=1e-15)
    half = function(x.astype(np.float16), W)
    assert half.dtype == np.float32
    assert_close(half.astype(float), wanted, rtol=1e-5, atol=1e-5)
    wide = np.repeat(np.repeat(x.astype(float), 2, axis=0), 2, axis=1)
    view = wide[::2, ::2]
    view.flags.writeable = False
    before = wide.copy()
    assert_close(function(view, W), wanted, rtol=1e-14)
    assert np.array_equal(wide, before)
    assert function(np.empty((0, 5)), W).shape[0] == 0
    assert function(np.empty((2, 0, 5)), W).shape[:2] == (2, 0)
    zero = function(np.zeros((1, 5)), W)
    assert_close(np.exp(zero) if "log" in function.__name__ else zero, dense(function, np.zeros((1, 5)), W), rtol=1e-12)
    with pytest.raises(ValueError, match="x contains NaN or inf; clean it"):
        function(np.full((1, 5), np.nan), W)
    assert np.isnan(function(np.full((1, 5), np.nan), W, check_finite=False)).all()
    with pytest.raises(TypeError, match="x must be real, got complex128"):
        function(x + 0j, W)
    with pytest.raises(TypeError, match="x must be an array, got list"):
        function(x.tolist(), W)
    with pytest.raises(
        ValueError, match=r"x must have shape \(..., n, d\), got \(5,\); put a single vector into a row"
    ):
        function(x[0], W)
    with pytest.raises(ValueError, match=r"x and projection must agree in their last axis, got shapes \(4, 5\) and"):
        function(x, W[:, :4])
    with pytest.raises(ValueError, match="projection must have at least one row"):
        function(x, W[:0])
    with pytest.raises(ValueError, match="the leading axes of x and projection must broadcast"):
        function(np.zeros((2, 4, 5)), np.zeros((3, 3, 5)))


@pytest.mark.parametrize("variance", [0.5, 0.0, np.nan, np.asarray([1, 1, 0.5, 1, 1])])
def test_infinite_variance_is_refused(variance):
    with pytest.raises(ValueError, match=r"variance must be > 0\.5"):
        positive_log_features(np.zeros((1, 5)), np.zeros((1, 5)), variance=variance)


def test_bad_variance():
    with pytest.raises(
        ValueError, match=r"variance must be a number or have shape \(\.\.\., 5\) or \(\.\.\., 1\), got"
    ):
        positive_log_features(np.zeros((1, 5)), np.zeros((1, 5)), variance=np.ones(4))
    with pytest.raises(TypeError, match="variance must be a number, got '2' of type str"):
        positive_log_features(np.zeros((1, 5)), np.zeros((1, 5)), variance="2")


def test_features_are_differentiable():
    torch = pytest.importorskip("torch")
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    W = torch.from_numpy(orthogonal_projection(4, 3, rng=0))

    def f(x):
        variance, basis = optimal_covariance(x, x + 1)
        a = positive_log_features(x @ basis, W, variance=variance)
        x, y, _, weight = balance_query_key(x, x**2)
        b = hyperbolic_log_features(y, W) + weight[:, None]
        return *stabilised_features(a, a), b.sum(), trigonometric_features(x, W)

    assert torch.autograd.gradcheck(f, (x,))


def test_features_approximate_attention():
    """The parts fit together: balanced points, an optimal covariance, features and stabilised exponentials."""
    q, k, v = (
        rng.standard_normal((30, 8)) * 0.5 + 1,
        rng.standard_normal((40, 8)) * 0.5 - 1,
        rng.standard_normal((40, 3)),
    )
    scores = q @ k.T
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    exact = weights @ v / weights.sum(axis=-1, keepdims=True)
    x, y, _, weight = balance_query_key(q, k)
    variance, basis = optimal_covariance(x, y)
    W = orthogonal_projection(2000, 8, rng=0)
    a, b = (hyperbolic_log_features(p @ basis, W, variance=variance) for p in (x, y))
    query, key, _ = stabilised_features(a, b + weight[:, None])
    out = query @ (key.T @ v) / (query @ key.sum(axis=0))[:, None]
    uniform = np.linalg.norm(v.mean(axis=0) - exact)
    assert np.linalg.norm(out - exact) < 0.1 * uniform
