"""Sketches beside scikit-learn, SciPy and plain products; and how their time grows."""

import time

import numpy as np
import pytest
import scipy
import threadpoolctl
from scipy import linalg

from nlattn.sketch import PolynomialSketch, TensorSketch, hadamard_transform, sketch_operator

rng = np.random.default_rng(0)


def relative(x, exact):
    return float(np.linalg.norm(x - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.benchmark(group="polynomial kernel of degree 2, 8192 x 64 to 256 features")
def test_tensor_sketch(race, dtype):
    """scikit-learn computes in float64 whatever it is given. Errors: of the kernel of 512 rows, relative."""
    sklearn = pytest.importorskip("sklearn")
    peer = pytest.importorskip("sklearn.kernel_approximation").PolynomialCountSketch
    x = rng.standard_normal((8192, 64)).astype(dtype) / 8
    ours = TensorSketch(64, 256, 2, rng=0)
    theirs = peer(degree=2, n_components=256, random_state=0).fit(x)
    exact = (x[:512].astype(float) @ x[:512].T.astype(float)) ** 2
    errors = {}
    for name, phi in (("nlattn", ours.apply(x[:512])), ("scikit-learn", theirs.transform(x[:512]))):
        errors[name] = relative(phi.astype(float) @ phi.T.astype(float), exact)
    rivals = {
        f"scikit-learn {sklearn.__version__}": lambda: theirs.transform(x),
        "fft": lambda: ours.apply(x, method="fft"),
    }
    race(lambda: ours.apply(x), rivals, errors)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.benchmark(group="Walsh-Hadamard transform of 4096 x 64")
def test_hadamard_transform(race, dtype, axis):
    """The matrix of SciPy is formed beforehand."""
    x = rng.standard_normal((4096, 64)).astype(dtype)
    x = x if axis == 0 else np.ascontiguousarray(x.T)
    H = linalg.hadamard(4096, dtype=dtype)
    exact = linalg.hadamard(4096, dtype=float) @ (x if axis == 0 else x.T).astype(float)
    exact = exact if axis == 0 else exact.T
    product = (lambda: H @ x) if axis == 0 else (lambda: x @ H)
    errors = {"nlattn": relative(hadamard_transform(x, axis), exact), "product": relative(product(), exact)}
    race(lambda: hadamard_transform(x, axis), {f"scipy {scipy.__version__} hadamard @ x": product}, errors)


@pytest.mark.parametrize("kind", ["sparse_sign", "count", "balanced_count", "srht"])
@pytest.mark.benchmark(group="sketch of 16384 x 128 to 512 rows, float32")
def test_linear_sketch(race, kind):
    """Unchecked, as the rivals. Errors: |U^T S^T S U - I| / |I| for an orthonormal basis U of 16 columns."""
    x = rng.standard_normal((16384, 128)).astype(np.float32)
    sketch, dense = (sketch_operator(name, 512, 16384, rng=0) for name in (kind, "gaussian"))
    S = scipy.sparse.csr_array(sketch.matrix(x))
    G = dense.matrix(x)
    rivals = {"gaussian product": lambda: G @ x}
    if kind != "srht":
        rivals |= {f"scipy {scipy.__version__} csr": lambda: S @ x}
    u = np.linalg.qr(x.astype(float))[0][:, :16]
    errors = {name: relative((s @ u).T @ (s @ u), np.eye(16)) for name, s in ((kind, sketch), ("gaussian", dense))}
    race(lambda: sketch.apply(x, check_finite=False), rivals, errors)


def seconds(function):
    """The least of several times, on one thread of BLAS, whose others may have to wait for a CPU."""
    times = []
    with threadpoolctl.threadpool_limits(1):
        function()
        for _ in range(7):
            begin = time.perf_counter()
            function()
            times.append(time.perf_counter() - begin)
    return min(times)


CASES = {
    # name: (documented cost, sizes, call at a size)
    "hadamard_transform in n": (lambda n: n * np.log2(n), (2**12, 2**14, 2**16), lambda n: _hadamard(n)),
    "count_sketch in n": (lambda n: n, (2**14, 2**16, 2**18), lambda n: _linear("count", 256, n)),
    "sparse_sign_sketch in n": (lambda n: n, (2**13, 2**15, 2**17), lambda n: _linear("sparse_sign", 256, n)),
    "gaussian_sketch in m": (lambda m: m, (128, 512, 2048), lambda m: _linear("gaussian", m, 4096)),
    "TensorSketch in m": (lambda m: m, (128, 512, 2048), lambda m: _features(TensorSketch(64, m, 2, rng=0))),
    "TensorSketch in degree": (lambda p: p, (2, 4, 8), lambda p: _features(TensorSketch(64, 512, p, rng=0))),
    "PolynomialSketch in r": (
        lambda r: r * (64 + r),
        (128, 256, 512),
        lambda r: _features(PolynomialSketch(64, r, 4, rng=0)),
    ),
}


def _hadamard(n):
    x = rng.standard_normal((n, 32)).astype(np.float32)
    return lambda: hadamard_transform(x, 0)


def _linear(kind, m, n):
    x = rng.standard_normal((n, 64)).astype(np.float32)
    sketch = sketch_operator(kind, m, n, rng=0)
    return lambda: sketch @ x


def _features(sketch):
    x = rng.standard_normal((4096, 64)).astype(np.float32) / 8
    return lambda: sketch.apply(x)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.benchmark(group="growth: fitted exponent beside the documented one")
def test_growth(benchmark, name):
    cost, sizes, call = CASES[name]
    times = [seconds(call(size)) for size in sizes]
    slopes = [float(np.polyfit(np.log(sizes), np.log(y), 1)[0]) for y in (times, [cost(size) for size in sizes])]
    benchmark.extra_info.update(exponent=slopes[0], documented=slopes[1])
    benchmark.pedantic(call(sizes[0]), rounds=3)
    print(f"{name}: exponent {slopes[0]:.2f}, that of the documented cost {slopes[1]:.2f}")
