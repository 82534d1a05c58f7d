"""k-means beside scikit-learn's, hashing beside plain NumPy, and what they are made of."""

import numpy as np
import pytest

import nlattn
from nlattn.cluster import cross_polytope_codes, hyperplane_codes, kmeans, sort_into_blocks


def points(n, d, groups, seed=0):
    rng = np.random.default_rng(seed)
    centres = 3 * rng.standard_normal((groups, d), dtype=np.float32)
    return rng.standard_normal((n, d), dtype=np.float32) + centres[rng.integers(0, groups, n)]


@pytest.mark.filterwarnings("ignore:Number of distinct clusters", "ignore:Could not find the number of physical cores")
@pytest.mark.parametrize("k", [16, 256])
@pytest.mark.benchmark(group="k-means, 10 iterations from one start, 8192 x 64, float32")
def test_kmeans(race, k):
    """Errors are inertias over that of nlattn, less 1."""
    x = points(8192, 64, 64)
    start = x[:k]
    rivals, errors = {"its products alone": lambda: [x @ start.T for _ in range(11)]}, {}
    try:
        from sklearn.cluster import KMeans
    except ImportError:
        pass
    else:

        def peer():
            return KMeans(k, init=start, n_init=1, max_iter=10, tol=0, algorithm="lloyd").fit(x)

        rivals["scikit-learn"] = peer
        errors["scikit-learn"] = peer().inertia_ / float(kmeans(x, start, iterations=10).inertia) - 1
    race(lambda: kmeans(x, start, iterations=10), rivals, errors)


@pytest.mark.parametrize("kind", ["spherical", "balanced"])
@pytest.mark.benchmark(group="other kinds of k-means, 10 iterations, 8192 x 64, k = 64, float32")
def test_kinds(race, kind):
    x = points(8192, 64, 64)
    rivals = {"plain": lambda: kmeans(x, x[:64], iterations=10)}
    race(lambda: kmeans(x, x[:64], kind=kind, iterations=10), rivals)


@pytest.mark.parametrize("form", ["hyperplanes", "vertices", "product of vertices"])
@pytest.mark.benchmark(group="hashing and sorting, 8 rounds, 8192 x 64, float32")
def test_hashing(race, form):
    """16 bits; 128 vertices; 16 x 16 = 256 vertices from two groups."""
    x = points(8192, 64, 64)
    rows = {"hyperplanes": 16, "vertices": 64, "product of vertices": 16}[form]
    W = np.random.default_rng(1).standard_normal((8, rows, 64), dtype=np.float32)

    def codes():
        if form == "hyperplanes":
            return hyperplane_codes(x, W)
        return cross_polytope_codes(x, W, factors=(64,) if form == "vertices" else (8, 8))

    def generic():
        with nlattn.use_backend("generic"):
            return codes()

    rivals = {
        "generic": generic,
        "GEMM alone": lambda: x @ W.swapaxes(1, 2),
        "with sort": lambda: sort_into_blocks(codes(), 64),
    }
    race(codes, rivals)
