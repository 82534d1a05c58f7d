"""Tensor decompositions beside tensorly, on a planted tensor with noise of 0.3 of its norm."""

import warnings

import numpy as np
import pytest

from nlattn.decomp import cp, mttkrp, tucker

CASES = pytest.mark.parametrize(("n", "rank"), [(96, 16), (256, 32)])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
SWEEPS = 10


def planted(n, rank, dtype):
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((n, rank)) for _ in range(3))
    x = np.einsum("ir,jr,kr->ijk", a, b, c, optimize=True)
    e = rng.standard_normal(x.shape)
    return (x + 0.3 * np.linalg.norm(x) / np.linalg.norm(e) * e).astype(dtype)


def error(x, y):
    return float(np.linalg.norm(y - x) / np.linalg.norm(x))


@DTYPES
@CASES
@pytest.mark.benchmark(group=f"CP-ALS, {SWEEPS} sweeps from the same start")
def test_cp(race, n, rank, dtype):
    """The same updates; then with steps beyond them, which tensorly evaluates at the price of a reconstruction."""
    tensorly = pytest.importorskip("tensorly")
    decomposition = pytest.importorskip("tensorly.decomposition")
    x, rng = planted(n, rank, dtype), np.random.default_rng(1)
    start = [rng.standard_normal((n, rank)).astype(dtype) for _ in range(3)]

    def peer(**options):
        init = tensorly.cp_tensor.CPTensor((None, [a.copy() for a in start]))
        return decomposition.parafac(x, rank, n_iter_max=SWEEPS, init=init, tol=None, **options)

    def ours(line_search):
        return cp(x, rank, init=(None, start), iterations=SWEEPS, tol=0, line_search=line_search)

    errors = {
        "nlattn": error(x, ours(False).to_tensor()),
        "tensorly": error(x, tensorly.cp_to_tensor(peer())),
        "with line search": ours(True).error,
    }
    race(lambda: ours(False), {"tensorly": peer, "with line search": lambda: ours(True)}, errors, rounds=9)


@DTYPES
@CASES
@pytest.mark.parametrize("method", ["sthosvd", "hosvd", "hooi"])
@pytest.mark.benchmark(group="Tucker decomposition to ranks")
def test_tucker(race, method, n, rank, dtype):
    """HOSVD against HOSVD; the iteration against the one sweep that tensorly makes."""
    pytest.importorskip("tensorly")
    decomposition = pytest.importorskip("tensorly.decomposition")
    tucker_tensor = pytest.importorskip("tensorly.tucker_tensor")
    x = planted(n, rank, dtype)

    def peer(svd):
        sweeps = int(method == "hooi")
        return decomposition.partial_tucker(
            x, [rank] * 3, n_iter_max=sweeps, init="svd", svd=svd, tol=None, random_state=0
        )[0]

    def ours():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tucker(x, rank, method=method, iterations=1)

    rivals = {"tensorly": lambda: peer("truncated_svd"), "tensorly randomized": lambda: peer("randomized_svd")}
    if n > 100:
        # Seconds a call, for the SVD of a 256 x 65536 matrix.
        del rivals["tensorly"]
    errors = {"nlattn": error(x, ours().to_tensor())}
    errors |= {name: error(x, tucker_tensor.tucker_to_tensor(rival())) for name, rival in rivals.items()}
    race(ours, rivals, errors, rounds=3 if n > 100 else 7)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.benchmark(group="MTTKRP, 128 x 128 x 128, rank 16, float32")
def test_mttkrp(race, mode):
    pytest.importorskip("tensorly")
    tenalg = pytest.importorskip("tensorly.tenalg")
    x, rng = planted(128, 4, "float32"), np.random.default_rng(1)
    factors = [rng.standard_normal((128, 16), dtype=np.float32) for _ in range(3)]
    rivals = {
        "tensorly": lambda: tenalg.unfolding_dot_khatri_rao(x, (None, factors), mode),
        "numpy einsum": lambda: np.einsum(
            ["ijk,jr,kr->ir", "ijk,ir,kr->jr", "ijk,ir,jr->kr"][mode],
            x,
            *factors[:mode],
            *factors[mode + 1 :],
            optimize=True,
        ),
    }
    reference = rivals["tensorly"]()
    race(lambda: mttkrp(x, factors, mode), rivals, {"nlattn - tensorly": error(reference, mttkrp(x, factors, mode))})


@pytest.mark.benchmark(group="CP of 400 x 400 x 400 until it settles, rank 10, cosines of 0.6, float32")
def test_sampled_cp(race):
    """tensorly's sampled method with as many samples, and as many sweeps; it starts from numbers of its own."""
    tensorly = pytest.importorskip("tensorly")
    decomposition = pytest.importorskip("tensorly.decomposition")
    rng, factors = np.random.default_rng(0), []
    for _ in range(3):
        a = rng.standard_normal((400, 11))
        a /= np.linalg.norm(a, axis=0)
        factors.append(np.sqrt(0.4) * a[:, :10] + np.sqrt(0.6) * a[:, 10:])
    x = np.ascontiguousarray(np.einsum("ir,jr,kr->ijk", *factors, optimize=True), dtype=np.float32)
    x += 0.3 * np.linalg.norm(x) / np.sqrt(x.size) * rng.standard_normal(x.shape, dtype=np.float32)
    ours = cp(x, 10, method="sampled", rng=0)

    def peer():
        return decomposition.randomised_parafac(x, 10, 1000, n_iter_max=ours.iterations, tol=0, random_state=0)

    errors = {
        "nlattn": ours.error,
        "als": cp(x, 10, rng=0).error,
        "tensorly sampled": error(x, tensorly.cp_to_tensor(peer())),
    }
    rivals = {"als": lambda: cp(x, 10, rng=0), "tensorly sampled": peer}
    race(lambda: cp(x, 10, method="sampled", rng=0), rivals, errors, rounds=3)


@pytest.mark.benchmark(group="Growth with the dimension")
def test_cp_growth(growth):
    """A sweep over n x n x n entries, rank 16, in n."""
    sizes = (96, 128, 192, 256)
    tensors = {n: planted(n, 16, "float32") for n in sizes}
    growth(lambda n: cp(tensors[n], 16, rng=0, iterations=10, tol=0, line_search=False), sizes, 3.0)


@pytest.mark.benchmark(group="Growth with the dimension")
def test_tucker_growth(growth):
    """A Gram matrix of n x n from n^2 columns, in n."""
    sizes = (96, 128, 192, 256)
    tensors = {n: planted(n, 16, "float32") for n in sizes}
    growth(lambda n: tucker(tensors[n], 16), sizes, 4.0)
