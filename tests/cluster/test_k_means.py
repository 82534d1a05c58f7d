"""k-means against plain loops, and what it claims."""

import numpy as np
import pytest
from partitions import clustered, result, unit

import nlattn
from nlattn.arrays.random import generator
from nlattn.cluster import kmeans
from nlattn.testing import assert_close, assert_same_kind

rng = np.random.default_rng(0)


KINDS = ["plain", "spherical", "balanced"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("init", "dtype"), [("++", "float64"), ("sample", "float32")])
def test_result_is_consistent(backend, kind, init, dtype):
    x = clustered(120, 4, 6).astype(dtype)
    weights = rng.random(120).astype(dtype)
    weights[:7] = 0
    found = kmeans(backend.array(x), 5, backend.array(weights), kind=kind, init=init, rng=1)
    for part in (found.centres, found.counts, found.inertia):
        assert_same_kind(part, backend.array(x))
    centres, labels, counts, inertia, steps = result(found)
    assert 1 <= steps < 100
    points = unit(x.astype(float)) if kind == "spherical" else x.astype(float)
    tight = 1e-10 if dtype == "float64" else 1e-4
    distances = np.sum((points[:, None] - centres) ** 2, axis=-1)
    np.testing.assert_allclose(counts, [weights[labels == j].sum() for j in range(5)], rtol=tight)
    np.testing.assert_allclose(inertia, weights @ distances[np.arange(120), labels], rtol=tight)
    if kind == "balanced":
        assert np.bincount(labels[7:], minlength=5).max() <= -(-113 // 5)
        free = slice(0, 7)
    else:
        free = slice(None)
    assert np.all(distances[np.arange(120), labels][free] <= distances.min(axis=-1)[free] + 1e-4)
    for j in range(5):
        mean = np.average(points[labels == j], axis=0, weights=weights[labels == j])
        np.testing.assert_allclose(centres[j], unit(mean) if kind == "spherical" else mean, rtol=0, atol=100 * tight)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("empty", ["reseed", "keep"])
def test_inertia_never_rises(numpy_backend, kind, empty):
    for seed in range(2):
        x = clustered(40, 3, 5, seed=seed)
        start = np.concatenate([x[:4], 100 + np.arange(6.0).reshape(2, 3)])  # two centres that get nothing
        weights = np.random.default_rng(seed).random(40) if seed else None
        arrays = (
            numpy_backend.array(x),
            numpy_backend.array(start),
            None if weights is None else numpy_backend.array(weights),
        )
        last, inertias = kmeans(*arrays, kind=kind, empty=empty), []
        for iterations in range(last.steps + 2):
            inertias.append(float(kmeans(*arrays, kind=kind, empty=empty, iterations=iterations).inertia))
        assert np.all(np.diff(inertias) <= 1e-9 * inertias[0])
        assert inertias[-1] == inertias[-2] == pytest.approx(float(last.inertia))
        assert inertias[-1] < inertias[0]


def lloyd(x, centres, iterations):
    for _ in range(iterations):
        labels = np.argmin(((x[:, None] - centres) ** 2).sum(-1), axis=-1)
        centres = np.stack([x[labels == j].mean(0) if (labels == j).any() else c for j, c in enumerate(centres)])
    return centres, np.argmin(((x[:, None] - centres) ** 2).sum(-1), axis=-1)


@pytest.mark.parametrize("iterations", [0, 1, 4])
def test_plain_is_lloyds_iteration(backend, iterations):
    x = clustered(200, 5, 8)
    start = x[:9]
    found = kmeans(backend.array(x), backend.array(start), empty="keep", iterations=iterations)
    centres, labels = lloyd(x, start, iterations)
    assert_close(found.centres, backend.array(centres), rtol=1e-12, atol=1e-12)
    assert np.array_equal(backend.to_numpy(found.labels), labels)
    assert found.steps == iterations


def test_as_scikit_learn():
    cluster = pytest.importorskip("sklearn.cluster")
    x = clustered(3000, 8, 20)
    theirs = cluster.KMeans(25, init=x[:25], n_init=1, max_iter=30, tol=0, algorithm="lloyd").fit(x)
    found = kmeans(x, x[:25], iterations=30)
    assert np.mean(theirs.labels_ == found.labels) > 0.999
    np.testing.assert_allclose(found.inertia, theirs.inertia_, rtol=1e-9)


def test_weights_are_repetitions(backend):
    x, times = clustered(40, 3, 4), rng.integers(0, 4, 40)
    found = kmeans(backend.array(x), backend.array(x[:5]), backend.array(times), iterations=5, empty="keep")
    repeated = kmeans(np.repeat(x, times, axis=0), x[:5], iterations=5, empty="keep")
    assert_close(found.centres, backend.array(repeated.centres), rtol=1e-10, atol=1e-10)
    assert_close(found.counts, backend.array(repeated.counts), rtol=1e-12)
    np.testing.assert_allclose(float(found.inertia), repeated.inertia, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_points_left_out_have_no_say(backend, kind):
    x, weights = clustered(60, 3, 4), np.ones(60)
    weights[::3] = 0
    other = np.where(weights[:, None] > 0, x, 1e6 * rng.standard_normal((60, 3)))
    found, moved = (kmeans(backend.array(p), 4, backend.array(weights), kind=kind, rng=0) for p in (x, other))
    assert_close(moved.centres, found.centres, rtol=1e-6, atol=1e-6)
    kept = weights > 0
    assert np.array_equal(backend.to_numpy(moved.labels)[kept], backend.to_numpy(found.labels)[kept])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", ["++", "sample"])
def test_a_batch_is_a_loop_that_shares_a_generator(numpy_backend, kind, init):
    x = np.stack([clustered(24, 3, 4, seed=s) for s in range(4)]).reshape(2, 2, 24, 3)
    batch = kmeans(numpy_backend.array(x), 4, kind=kind, init=init, rng=3)
    one = generator(3)
    for at in np.ndindex(2, 2):
        single = kmeans(numpy_backend.array(x[at]), 4, kind=kind, init=init, rng=one)
        for got, wanted in zip(result(batch)[:4], result(single)[:4], strict=True):
            np.testing.assert_allclose(got[at], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_clusters_everywhere(backend, kind):
    x = clustered(150, 4, 5)
    found, numpys = kmeans(backend.array(x), 5, kind=kind, rng=5), kmeans(x, 5, kind=kind, rng=5)
    assert np.array_equal(backend.to_numpy(found.labels), numpys.labels)
    assert_close(found.centres, backend.array(numpys.centres), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "k"), [(300, 7), (3000, 40)])
def test_results_do_not_depend_on_threads(monkeypatch, kind, n, k):
    x = np.random.default_rng(0).standard_normal((2, n, 16), np.float32)
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("NLATTN_NUM_THREADS", threads)
        results.append(kmeans(x, k, kind=kind, iterations=1 if kind == "balanced" else 3, rng=0))
    for parts in zip(*results, strict=True):
        assert all(np.array_equal(part, parts[0]) for part in parts)


def test_tolerance_stops_early():
    x = clustered(2000, 4, 30, spread=1.0)
    fine, coarse = (kmeans(x, x[:30], tol=tol) for tol in (0, 0.05))
    assert coarse.steps < fine.steps
    assert coarse.inertia < 1.05 * fine.inertia


def test_centres_are_differentiable():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(clustered(30, 3, 3)).requires_grad_()
    found = kmeans(x, 3, rng=0)
    (found.centres.sum() + found.inertia).backward()
    labels = found.labels
    centres = torch.stack([x[labels == j].mean(0) for j in range(3)])
    y = x.detach().clone().requires_grad_()
    centres = torch.stack([y[labels == j].mean(0) for j in range(3)])
    (centres.sum() + ((y - centres[labels]) ** 2).sum()).backward()
    assert torch.allclose(x.grad, y.grad, atol=1e-9)


def test_landmarks_still_cluster():
    q = np.concatenate([np.full((20, 4), 3.0), np.full((20, 4), -3.0)]) + 0.1 * rng.standard_normal((40, 4))
    out = nlattn.nystrom_attention(q, q, q, 2, selection="kmeans", rng=0)
    exact = nlattn.exact_attention(q, q, q)
    assert np.linalg.norm(out - exact) < 0.05 * np.linalg.norm(exact)
