"""TensorSketch and the recursive polynomial sketch."""

import copy

import numpy as np
import pytest

import nlattn
from nlattn.sketch import PolynomialSketch, TensorSketch
from nlattn.testing import assert_close, to_numpy

rng = np.random.default_rng(0)


KINDS = ["gaussian", "srht", "tensor_sketch"]


def convolved(sketch, x):
    """The features by definition: a circular convolution of count sketches, here by its sum."""
    z = np.concatenate([x, np.ones_like(x[:, :1])], axis=1) if sketch.coef0 else x
    out = np.eye(sketch.m)[:1] * np.ones((len(x), 1))
    parts = sketch._convolution
    for rows, weights in zip(parts._rows, parts._weights, strict=True):
        hashed = np.zeros((len(x), sketch.m))
        np.add.at(hashed.T, rows, (z * weights).T)
        shifts = [np.roll(hashed, s, axis=1) * out[:, s : s + 1] for s in range(sketch.m)]
        out = np.sum(shifts, axis=0)
    return out


@pytest.mark.parametrize("m", [1, 2, 7, 16])
@pytest.mark.parametrize(("degree", "coef0"), [(1, 0.0), (2, 0.0), (2, 0.5), (3, 1.0), (5, 0.0)])
def test_both_routes_are_the_convolution(backend, m, degree, coef0):
    sketch = TensorSketch(6, m, degree, gamma=0.7, coef0=coef0, rng=1)
    x = rng.standard_normal((9, 6))
    phi = [sketch.apply(backend.array(x), method=method) for method in ("gemm", "fft", "auto")]
    for other in phi[1:]:
        assert_close(to_numpy(other), to_numpy(phi[0]), rtol=1e-11, atol=1e-11)
    exact = convolved(sketch, x)
    gram = to_numpy(phi[0]) @ to_numpy(phi[0]).T
    assert_close(gram, exact @ exact.T, rtol=1e-10, atol=1e-10 * np.max(np.abs(exact)) ** 2)
    assert phi[0].shape == (9, m)


@pytest.mark.parametrize("coef0", [0.0, 1.5])
def test_features_are_those_of_scikit_learn(coef0):
    """With the same hashes the features are equal up to an orthogonal change of basis."""
    peer = pytest.importorskip("sklearn.kernel_approximation").PolynomialCountSketch
    x = rng.standard_normal((20, 8))
    theirs = peer(gamma=0.5, degree=3, coef0=coef0, n_components=32, random_state=0).fit(x)
    ours = TensorSketch(8, 32, 3, gamma=0.5, coef0=coef0, rng=0)
    scale = np.sqrt([0.5] * 8 + [coef0] * (coef0 > 0))
    ours._convolution = type(ours._convolution)(32, theirs.indexHash_, theirs.bitHash_ * scale)
    phi, psi = ours.apply(x), theirs.transform(x)
    np.testing.assert_allclose(phi @ phi.T, psi @ psi.T, rtol=1e-10, atol=1e-10)


def test_long_inputs_are_hashed():
    """Beyond the size at which "auto" changes its route the result is the same."""
    x = rng.standard_normal((3, 700)) / 26
    sketch = TensorSketch(700, 160, 2, rng=0)
    np.testing.assert_allclose(sketch.apply(x), sketch.apply(x, method="gemm"), atol=1e-13)
    with nlattn.use_backend("generic"):
        np.testing.assert_allclose(sketch.apply(x, method="fft"), sketch.apply(x), atol=1e-13)


def test_many_rows_are_cut_into_blocks():
    x = rng.standard_normal((1000, 5))
    sketch = TensorSketch(5, 300, rng=0)
    parts = [sketch.apply(x[i : i + 100]) for i in range(0, 1000, 100)]
    np.testing.assert_allclose(sketch.apply(x), np.concatenate(parts), atol=1e-13)


def sketches(**options):
    yield TensorSketch(6, 10, 3, rng=0, **options)
    for kind in KINDS:
        yield PolynomialSketch(6, 8, 5, kind=kind, rng=0, **options)
        yield PolynomialSketch(6, 8, 4, kind=kind, nonnegative=True, rng=0, **options)
    yield PolynomialSketch(6, 8, 1, rng=0, **options)


@pytest.mark.parametrize("coef0", [0.0, 0.5])
def test_kinds_and_shapes(backend, coef0):
    x = rng.standard_normal((2, 3, 6)) / 2
    for sketch in sketches(coef0=coef0):
        wanted = sketch.apply(x)
        assert wanted.shape == (2, 3, sketch.m)
        assert_close(sketch.apply(backend.array(x)), wanted, rtol=1e-10, atol=1e-10, like=backend.array(x))
        single = sketch.apply(backend.array(x, "float32"))
        assert_close(single, wanted, rtol=1e-3, atol=2e-4, like=backend.array(x, "float32"))
        np.testing.assert_allclose(to_numpy(sketch.apply(backend.array(x[0, 0]))), wanted[0, 0], rtol=1e-10, atol=1e-10)
        assert tuple(sketch.apply(backend.array(x[:0])).shape) == (0, 3, sketch.m)
        for dtype in backend.dtypes[2:]:
            assert sketch.apply(backend.array(x, dtype)).dtype == backend.array(x, "float32").dtype
        whole = sketch.apply(backend.array(np.ones((1, 6), np.int64)))
        assert_close(whole, sketch.apply(np.ones((1, 6))), rtol=1e-10, atol=1e-10, like=backend.array(x))


# Each degree has a tree of another shape; the kinds differ in the nodes.
SHAPES = [("gaussian", degree) for degree in range(1, 8)] + [
    (kind, degree) for kind in KINDS[1:] for degree in (2, 3, 5)
]


@pytest.mark.parametrize(("kind", "degree"), SHAPES)
def test_polynomial_sketch_is_unbiased(kind, degree):
    """Means over many draws, for vectors at an angle where powers are not small, within 5 standard errors."""
    x = np.asarray([[0.6, 0.0, 0.7, 0.1, 0.0, 0.3, 0.1, 0.2], [0.5, 0.2, 0.7, 0.0, 0.1, 0.2, 0.0, 0.3]])
    exact = (1.1 * x[0] @ x[1] + 0.2) ** degree
    r = 16 if kind == "srht" else 32
    estimates = []
    for seed in range(150 if degree < 6 else 400):
        u, v = PolynomialSketch(8, r, degree, kind=kind, gamma=1.1, coef0=0.2, rng=seed).apply(x)
        estimates.append(u @ v)
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - exact) <= max(5 * error, 1e-12)
    # Sharp enough to notice a factor of 2, let alone one of r.
    assert degree == 1 or error < 0.2 * exact


def test_nonnegative():
    x = rng.standard_normal((40, 6)) / 2
    for kind in KINDS:
        sketch = PolynomialSketch(6, 7, 6, kind=kind, nonnegative=True, coef0=0.3, rng=0)
        phi, root = sketch.apply(x), sketch.half(x)
        assert phi.shape == (40, 28)
        assert root.shape == (40, 7)
        np.testing.assert_allclose(phi @ phi.T, (root @ root.T) ** 2, rtol=1e-10, atol=1e-10)
        # The root is a sketch of half the degree with the same draws.
        half = PolynomialSketch(6, 7, 3, kind=kind, coef0=0.3, rng=0)
        assert np.array_equal(root, half.apply(x))
    exact = PolynomialSketch(6, 7, 2, nonnegative=True, gamma=2.0, coef0=1.0, rng=0)
    phi = exact.apply(x)
    np.testing.assert_allclose(phi @ phi.T, (2 * x @ x.T + 1) ** 2, rtol=1e-12, atol=1e-13)
    assert exact.m == phi.shape[1] == 28


def test_seeds_and_copies():
    x = rng.standard_normal((4, 6))
    for one, two in zip(sketches(), sketches(), strict=True):
        assert np.array_equal(one.apply(x), two.apply(x))
        assert np.array_equal(copy.deepcopy(one).apply(x), one.apply(x))
    assert not np.array_equal(TensorSketch(6, 10, 3, rng=1).apply(x), TensorSketch(6, 10, 3, rng=0).apply(x))
    fixed = x.copy()
    fixed.flags.writeable = False
    for sketch in sketches():
        np.testing.assert_allclose(sketch.apply(fixed), sketch.apply(np.asfortranarray(x)), atol=1e-12)


def test_gradients():
    torch = pytest.importorskip("torch")
    x = torch.tensor(rng.standard_normal((2, 6)) / 2, requires_grad=True)
    for sketch in sketches(coef0=0.5):
        assert torch.autograd.gradcheck(sketch.apply, (x,))


@pytest.mark.parametrize(
    "name",
    [
        "TensorSketch(6, 10, 3, gamma=1, coef0=0)",
        "PolynomialSketch(6, 8, 4, kind='srht', nonnegative=True, gamma=1, coef0=0)",
    ],
)
def test_repr_can_be_read(name):
    assert repr(eval(name)) == name


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: TensorSketch(0, 4), ValueError, "d must be at least 1, got 0"),
        (lambda: TensorSketch(3, 0), ValueError, "m must be at least 1, got 0"),
        (lambda: TensorSketch(3, 4, 0), ValueError, "degree must be at least 1, got 0"),
        (lambda: TensorSketch(3, 4, gamma=0), ValueError, "gamma must be > 0, got 0"),
        (lambda: TensorSketch(3, 4, coef0=-1), ValueError, "coef0 must be >= 0, got -1"),
        (
            lambda: TensorSketch(3, 4).apply(np.ones((2, 4))),
            ValueError,
            r"x must have length d = 3 .* got shape \(2, 4\)",
        ),
        (lambda: TensorSketch(3, 4).apply(np.asarray(1.0)), ValueError, "x must have length d = 3"),
        (lambda: TensorSketch(3, 4).apply(np.ones(3), method="direct"), ValueError, "method must be one of 'auto'"),
        (lambda: TensorSketch(3, 4).apply(np.ones(3) * 1j), TypeError, "x must be real, got complex128"),
        (lambda: TensorSketch(3, 4).apply(np.full(3, np.inf)), ValueError, "x contains NaN or inf"),
        (
            lambda: TensorSketch(3, 4).apply(np.full(3, 1e30, "f")),
            ValueError,
            "x is too large: its features overflow float32",
        ),
        (
            lambda: PolynomialSketch(3, 4, 3, nonnegative=True),
            ValueError,
            "degree must be even for nonnegative=True, got 3",
        ),
        (lambda: PolynomialSketch(3, 4, 4, kind="count"), ValueError, "kind must be one of 'gaussian', 'srht'"),
        (lambda: PolynomialSketch(3, 5, 4, kind="srht"), ValueError, "r must be at most 4, .* for kind 'srht', got 5"),
        (
            lambda: PolynomialSketch(3, 4, 4).half(np.ones(3)),
            ValueError,
            "half needs a sketch made with nonnegative=True",
        ),
        (lambda: PolynomialSketch(3, 4, 4).apply(np.full(3, 1e200)), ValueError, "x is too large"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_unchecked_numbers_pass():
    assert np.all(np.isnan(TensorSketch(3, 4, rng=0).apply(np.full(3, np.nan), check_finite=False)))
    assert not np.all(np.isfinite(PolynomialSketch(3, 4, 4, rng=0).apply(np.full(3, 1e200), check_finite=False)))
