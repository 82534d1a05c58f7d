"""Random features against the formulas, and what their parts claim."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import ortho_group

from nlattn.arrays.random import generator
from nlattn.sketch import (
    balance_query_key,
    hyperbolic_log_features,
    optimal_covariance,
    optimal_variance,
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


# -- projections ------------------------------------------------------------------------------------------------------


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
    """Without them positive features are biased by a quarter; cosh features are not."""
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


# -- feature maps -----------------------------------------------------------------------------------------------------


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
    """Against quadrature, no draws: the mean of the product of features is the kernel."""
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
    x = torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    W = torch.from_numpy(orthogonal_projection(5, 4, rng=0))

    def f(x):
        variance, basis = optimal_covariance(x, x + 1)
        a = positive_log_features(x @ basis, W, variance=variance)
        x, y, _, weight = balance_query_key(x, x**2)
        b = hyperbolic_log_features(y, W) + weight[:, None]
        return *stabilised_features(a, a), b.sum(), trigonometric_features(x, W)

    assert torch.autograd.gradcheck(f, (x,))


# -- the optimal covariance -------------------------------------------------------------------------------------------


def test_optimal_variance_is_the_minimiser(backend):
    x, y = rng.standard_normal((9, 6)) + 0.2, rng.standard_normal((7, 6)) / 2
    mean = np.mean(np.sum((x[:, None] + y) ** 2, axis=-1))
    d = 6

    def objective(v):
        return d * (np.log(v) - 0.5 * np.log(2 * v - 1)) + mean / (2 * v - 1)

    best = minimize_scalar(objective, bounds=(0.51, 20), method="bounded", options={"xatol": 1e-10}).x
    found = optimal_variance(backend.array(x), backend.array(y))
    assert tuple(found.shape) == (1,)
    assert_close(found, np.asarray([best]), rtol=1e-6, like=backend.array(x))
    # A = (1 - variance) / 4, in the form of the paper.
    ratio = mean / d
    paper = (1 - 2 * ratio - np.sqrt((2 * ratio + 1) ** 2 + 8 * ratio)) / 16
    assert_close(backend.to_numpy(found), np.asarray([1 - 4 * paper]), rtol=1e-12)


def test_optimal_covariance(backend):
    x, y = rng.standard_normal((2, 9, 4)) * [2, 1, 0.5, 0.1] + 0.3, rng.standard_normal((2, 7, 4)) * [1, 1, 0.2, 0.2]
    variance, basis = optimal_covariance(backend.array(x), backend.array(y))
    assert_same_kind(variance, backend.array(x))
    variance, basis = backend.to_numpy(variance), backend.to_numpy(basis)
    for i in range(2):
        sums = (x[i][:, None] + y[i]).reshape(-1, 4)
        moment = basis[i].T @ (sums.T @ sums / len(sums)) @ basis[i]
        assert_close(moment, np.diag(np.diag(moment)), rtol=0, atol=1e-12)
        assert_close(basis[i].T @ basis[i], np.eye(4), rtol=0, atol=1e-12)
        squares = np.diag(moment)
        # The derivative of log v - log(2 v - 1) / 2 + s / (2 v - 1) vanishes.
        v = variance[i]
        slope = 1 / v - 1 / (2 * v - 1) - 2 * squares / (2 * v - 1) ** 2
        assert_close(slope, np.zeros(4), rtol=0, atol=1e-10)
        assert np.all(np.diff(v) <= 0)
        assert np.all(v >= 1)


def test_nothing_to_gain_where_sums_vanish():
    x = rng.standard_normal((1, 3))
    assert optimal_variance(x, -x) == pytest.approx(1, abs=1e-14)
    assert_close(optimal_covariance(x, -x).variance, np.ones(3), rtol=1e-12)
    with pytest.raises(ValueError, match=r"x must hold at least one point, got shape \(0, 3\)"):
        optimal_variance(x[:0], x)
    with pytest.raises(ValueError, match="y must hold at least one point"):
        optimal_covariance(x, x[:0])


# -- stabilised exponentials ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_denominators_are_at_least_one(backend, scale, dtype):
    x, y = ((scale * rng.standard_normal((2, n, 6))).astype(dtype) for n in (9, 12))
    W = orthogonal_projection(8, 6, rng=0)
    a, b = (hyperbolic_log_features(backend.array(p), backend.array(W)) for p in (x, y))
    query, key, shift = stabilised_features(a, b)
    assert_same_kind(query, a)
    query, key, shift, a, b = (backend.to_numpy(p).astype(float) for p in (query, key, shift, a, b))
    assert query.max() <= 1
    assert key.max() <= 1
    assert np.all(query.max(axis=-1) == 1)
    assert np.all(key.max(axis=-2) == 1)
    products = query @ np.swapaxes(key, -1, -2)
    denominators = products.sum(axis=-1)
    assert denominators.min() >= 1
    # The attention weights are those of the unscaled features, and the shift restores the kernel.
    logs = np.logaddexp.reduce(a[..., :, None, :] + b[..., None, :, :], axis=-1)
    weights = np.exp(logs - np.logaddexp.reduce(logs, axis=-1, keepdims=True))
    tight = 1e-10 if dtype == "float64" else 1e-3
    assert_close(products / denominators[..., None], weights, rtol=tight, atol=1e-30 if dtype == "float64" else 1e-6)
    likely = weights > 1e-6
    np.testing.assert_allclose(
        (shift[..., None] + np.log(np.where(likely, products, 1)))[likely], logs[likely], atol=tight
    )


def test_keys_left_out(backend):
    a, b = rng.standard_normal((3, 4)), rng.standard_normal((5, 4))
    b[1], b[3, 2] = -np.inf, -np.inf
    query, key, _ = stabilised_features(backend.array(a), backend.array(b))
    fewer = stabilised_features(backend.array(a), backend.array(np.delete(b, 1, axis=0)))
    assert_close(query, fewer.query, rtol=0)
    assert_close(backend.to_numpy(key)[[0, 2, 3, 4]], backend.to_numpy(fewer.key), rtol=0)
    assert np.all(backend.to_numpy(key)[1] == 0)
    b[:, 2] = -np.inf  # a feature that no key has
    query, key, _ = (backend.to_numpy(p) for p in stabilised_features(backend.array(a), backend.array(b)))
    assert np.all(key[:, 2] == 0)
    assert (query @ key.sum(axis=0)).min() >= 1
    for nothing in (b[:0], np.full((5, 4), -np.inf)):
        query, key, shift = (backend.to_numpy(p) for p in stabilised_features(backend.array(a), backend.array(nothing)))
        assert not query.any()
        assert not key.any()
        assert not shift.any()


def test_bad_log_features():
    a = np.zeros((2, 3))
    with pytest.raises(ValueError, match="log_query contains NaN or inf"):
        stabilised_features(a - np.inf, a)
    for bad in (np.inf, np.nan):
        with pytest.raises(ValueError, match=r"log_key contains NaN or \+inf"):
            stabilised_features(a, a + bad)
    with pytest.raises(ValueError, match="log_query and log_key must agree in their last axis"):
        stabilised_features(a, a[:, :2])
    with pytest.raises(ValueError, match="log_query must hold at least one feature"):
        stabilised_features(a[:, :0], a[:, :0])


# -- balancing --------------------------------------------------------------------------------------------------------


def mean_square(x, y):
    return np.mean(np.sum((x[..., :, None, :] + y[..., None, :, :]) ** 2, axis=-1), axis=(-2, -1))


@pytest.mark.parametrize("kind", ["full", "diagonal", "none"])
@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scores_stay(backend, kind, centre, dtype):
    mix = rng.standard_normal((2, 5, 5))
    q = (rng.standard_normal((2, 30, 5)) @ mix + 2).astype(dtype)
    k = (rng.standard_normal((2, 20, 5)) * [3, 1, 1, 0.1, 0.1] - 1).astype(dtype)
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


def test_features_approximate_attention():
    """Balanced, from optimal hyperbolic features, stabilised: close to exact attention, as all parts fit together."""
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
