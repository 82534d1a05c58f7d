"""k-means and its kernels against plain loops, and what they claim."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import nlattn
from nlattn.arrays.random import generator
from nlattn.cluster import kmeans
from nlattn.kernels.cheapest_moves import cheapest_moves
from nlattn.kernels.nearest_centre import nearest_centre
from nlattn.testing import assert_close, assert_same_kind, to_numpy

rng = np.random.default_rng(0)
KINDS = ["plain", "spherical", "balanced"]


def clustered(n, d, groups, spread=4.0, seed=0):
    r = np.random.default_rng(seed)
    return r.standard_normal((n, d)) + spread * r.standard_normal((groups, d))[r.integers(0, groups, n)]


def unit(x):
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(norm == 0, 1, norm)


def result(found):
    return tuple(np.asarray(to_numpy(p)) if hasattr(p, "shape") else p for p in found)


# -- kernels ----------------------------------------------------------------------------------------------------------


# Small ones are left to the generic version; tiles are cut at 64 rows, at 256 centres, and at the end of the points.
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 3, 5), (300, 16, 20), (5000, 8, 40), (3000, 5, 70), (2000, 4, 600)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_nearest_centre(backend, shape, dtype, lead):
    n, d, k = shape
    # Integers: no rounding decides, and equal centres are equal.
    x, c = rng.integers(-9, 10, (*lead, n, d)).astype(dtype), rng.integers(-9, 10, (*lead, k, d)).astype(dtype)
    for offset in (np.sum(c * c, axis=-1), np.zeros_like(c[..., 0])):
        labels, least = nearest_centre(*(backend.array(a) for a in (x, c, offset)))
        values = offset[..., None, :] - 2 * x @ np.swapaxes(c, -1, -2)
        assert_close(labels, backend.array(np.argmin(values, axis=-1)), rtol=0)
        assert_close(least, backend.array(np.min(values, axis=-1)), rtol=0)


def test_nearest_centre_reads_what_is_strided():
    x = np.broadcast_to(rng.standard_normal((1, 6000)), (3, 6000)).T[:, ::-1]
    c = np.asfortranarray(rng.standard_normal((20, 3)))[::-1]
    x.flags.writeable = c.flags.writeable = False
    labels, _ = nearest_centre(x, c, np.sum(c * c, axis=-1))
    assert np.array_equal(labels, np.argmin(((x[:, None] - c) ** 2).sum(-1), axis=-1))


@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_cheapest_moves(backend, lead, dtype):
    n, k = 40, 6
    costs = rng.integers(-50, 50, (*lead, n, k)).astype(dtype)
    labels = rng.integers(1, k + 1, (*lead, n))  # none has label 0, some stay out
    least, mover = (backend.to_numpy(p) for p in cheapest_moves(backend.array(costs), backend.array(labels), n))
    assert least.dtype == dtype
    for at in np.ndindex(lead):
        for a, b in itertools.product(range(k), repeat=2):
            points = np.flatnonzero(labels[at] == a)
            changes = costs[at][points, b] - costs[at][points, a]
            assert least[(*at, a, b)] == (changes.min() if points.size else np.inf)
            assert mover[(*at, a, b)] == (points[changes.argmin()] if points.size else 0)


# -- what every kind keeps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", ["++", "sample"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
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
def test_inertia_never_rises(backend, kind, empty):
    for seed in range(3):
        x = clustered(90, 3, 7, seed=seed)
        start = np.concatenate([x[:6], 100 + np.arange(9.0).reshape(3, 3)])  # three centres that get nothing
        weights = np.random.default_rng(seed).random(90) if seed else None
        arrays = backend.array(x), backend.array(start), None if weights is None else backend.array(weights)
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
def test_a_batch_is_a_loop_that_shares_a_generator(backend, kind, init):
    x = np.stack([clustered(50, 3, 4, seed=s) for s in range(6)]).reshape(2, 3, 50, 3)
    batch = kmeans(backend.array(x), 6, kind=kind, init=init, rng=3)
    one = generator(3)
    for at in np.ndindex(2, 3):
        single = kmeans(backend.array(x[at]), 6, kind=kind, init=init, rng=one)
        for got, wanted in zip(result(batch)[:4], result(single)[:4], strict=True):
            np.testing.assert_allclose(got[at], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_clusters_everywhere(backend, kind):
    x = clustered(150, 4, 5)
    found, numpys = kmeans(backend.array(x), 5, kind=kind, rng=5), kmeans(x, 5, kind=kind, rng=5)
    assert np.array_equal(backend.to_numpy(found.labels), numpys.labels)
    assert_close(found.centres, backend.array(numpys.centres), rtol=1e-9, atol=1e-9)


def test_results_do_not_depend_on_threads(run_python):
    pytest.importorskip("numba")
    code = """
import hashlib, numpy as np, nlattn.cluster
rng, digest = np.random.default_rng(0), hashlib.sha256()
for n, k in ((300, 7), (3000, 40)):
    x = rng.standard_normal((2, n, 16), np.float32)
    for kind in ("plain", "spherical", "balanced"):
        for part in nlattn.cluster.kmeans(x, k, kind=kind, iterations=3, rng=0)[:4]:
            digest.update(part.tobytes())
print(digest.hexdigest())
"""
    assert len({run_python(code, NLATTN_NUM_THREADS=str(t)) for t in (1, 2, 3)}) == 1


# -- unusual points ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", ["++", "sample"])
def test_duplicates(backend, kind, init):
    """Fewer distinct points than centres: nothing is left over, and no NaN."""
    x = np.repeat(rng.standard_normal((3, 4)), 10, axis=0)
    found = kmeans(backend.array(x), 6, kind=kind, init=init, rng=0)
    assert float(found.inertia) == pytest.approx(0, abs=1e-20)
    assert np.isfinite(backend.to_numpy(found.centres)).all()
    assert float(np.sum(backend.to_numpy(found.counts))) == 30
    same = kmeans(backend.array(np.ones((5, 2))), 3, kind=kind, init=init, rng=0)
    assert float(same.inertia) == pytest.approx(0, abs=1e-20)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", ["++", "sample"])
def test_as_many_centres_as_points(backend, kind, init):
    x = rng.standard_normal((7, 3))
    found = kmeans(backend.array(x), 7, kind=kind, init=init, rng=0)
    assert sorted(backend.to_numpy(found.labels).tolist()) == list(range(7))
    assert float(found.inertia) == pytest.approx(0, abs=1e-25)
    one = kmeans(backend.array(x[:1]), 1, kind=kind, init=init, rng=0)
    assert_close(one.centres, backend.array(unit(x[:1]) if kind == "spherical" else x[:1]), rtol=1e-14)


def test_more_centres_than_points():
    x = rng.standard_normal((4, 3))
    with pytest.raises(ValueError, match=r"centres must be at most 4 \(the number of points\), got 5"):
        kmeans(x, 5)
    with pytest.raises(ValueError, match="centres must be at most the number of points of positive weight, got 4"):
        kmeans(x, 4, np.asarray([1.0, 1, 1, 0]))
    # Given ones may be: some stay empty.
    found = kmeans(x, rng.standard_normal((6, 3)), empty="keep")
    assert np.sum(found.counts > 0) <= 4


def test_plus_plus_without_distinct_points(backend):
    """When all are chosen, the next draws are uniform; rounding does not pass for distance."""
    x = np.repeat(rng.standard_normal((3, 4)), 10, axis=0)
    centres = backend.to_numpy(kmeans(backend.array(x), 8, iterations=0, rng=0).centres)
    assert len(np.unique(centres[:3].round(12), axis=0)) == 3
    assert_close(centres[3:], x[np.floor(30 * generator(0).random(8)[3:]).astype(int)], rtol=1e-12)


def test_plus_plus_spreads_out():
    """Of far apart groups each gets a centre, which a sample misses as a rule; and distances decide, as stated."""
    x = 1e3 * np.repeat(np.eye(8), 20, axis=0) + rng.standard_normal((160, 8))
    hits = [len(set(kmeans(x, 8, init=init, iterations=0, rng=0).labels)) for init in ("++", "sample")]
    groups = {init: kmeans(x, 8, init=init, iterations=0, rng=0).centres.argmax(axis=-1) for init in ("++", "sample")}
    assert hits[0] == 8
    assert len(set(groups["++"])) == 8
    assert len(set(groups["sample"])) < 8
    # Second centres for the first at 0: with probability 1/10, 4/10, ... by squared distance.
    points, count = np.asarray([[0.0], [1.0], [2.0], [-1.0]]), 4000
    weights = np.broadcast_to(np.asarray([1e9, 1.0, 1.0, 2.0]), (count, 4))
    second = kmeans(np.broadcast_to(points, (count, 4, 1)), 2, weights, iterations=0, rng=0).centres[:, 1, 0]
    for value, probability in ((1.0, 1 / 7), (2.0, 4 / 7), (-1.0, 2 / 7)):
        assert abs(np.mean(second == value) - probability) < 5 * np.sqrt(0.25 / count)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zero_vectors_have_no_direction(backend, dtype):
    x = np.concatenate([clustered(40, 3, 3), np.zeros((20, 3))]).astype(dtype)[rng.permutation(60)]
    found = kmeans(backend.array(x), 8, kind="spherical", rng=0)
    centres, labels, counts, inertia, _ = result(found)
    zero = ~x.any(axis=-1)
    assert np.all(labels[zero] == 0)
    assert counts.sum() == 40
    np.testing.assert_allclose(np.linalg.norm(centres, axis=-1), 1, rtol=1e-5)
    alone = kmeans(backend.array(x[~zero]), backend.array(centres), kind="spherical")
    np.testing.assert_allclose(float(alone.inertia), inertia, rtol=1e-5)
    nothing = kmeans(backend.array(np.zeros((4, 3), dtype)), backend.array(np.eye(3, dtype=dtype)), kind="spherical")
    assert float(nothing.inertia) == 0
    assert_close(nothing.centres, backend.array(np.eye(3, dtype=dtype)), rtol=0)


def test_spherical_sees_directions_only():
    x = clustered(80, 4, 5)
    lengths = np.exp(rng.standard_normal((80, 1)))
    found, scaled = (kmeans(p, x[:6], kind="spherical") for p in (x, x * lengths))
    assert np.array_equal(found.labels, scaled.labels)
    assert_close(found.centres, scaled.centres, rtol=1e-12, atol=1e-12)


def test_far_from_the_origin():
    """float32 keeps the clusters of points whose common offset is a million times their distance."""
    x = clustered(200, 3, 4, spread=20.0)
    near = kmeans(x, x[:4])
    far = kmeans((x + 1e5).astype(np.float32), (x[:4] + 1e5).astype(np.float32))
    assert np.mean(near.labels == far.labels) > 0.98


def test_empty_centres_are_moved():
    x = clustered(100, 2, 5, spread=30.0)
    start = np.concatenate([x[:1], 1e3 + np.arange(8.0).reshape(4, 2)])
    kept, moved = kmeans(x, start, empty="keep"), kmeans(x, start)
    assert np.sum(kept.counts > 0) == 1
    assert np.all(moved.counts > 0)
    assert moved.inertia < 0.2 * kept.inertia
    # In one step, to the points farthest from their centre, in order; not to one that is left out.
    line, weights = np.asarray([[0.0], [1.0], [10.0], [7.0], [50.0]]), np.asarray([1.0, 1, 1, 1, 0])
    once = kmeans(line, np.asarray([[0.0], [90.0], [80.0]]), weights, iterations=1)
    assert_close(once.centres, np.asarray([[4.5], [10.0], [7.0]]), rtol=1e-14)


# -- equal clusters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 4), (6, 4), (101, 7), (120, 8), (64, 64), (65, 64)])
def test_no_cluster_above_its_share(backend, n, k):
    for seed, spread in ((0, 0.0), (1, 5.0)):
        x = clustered(n, 3, 2, spread=spread, seed=seed)
        found = kmeans(backend.array(x), k, kind="balanced", rng=seed)
        counts = np.bincount(backend.to_numpy(found.labels), minlength=k)
        assert counts.max() <= -(-n // k)
        assert np.array_equal(counts, backend.to_numpy(found.counts))
    # Points that stay out take no seat.
    weights = np.ones(n)
    weights[n // 2 + 1 :] = 0
    few = min(k, n // 2 + 1)
    found = kmeans(backend.array(x), few, backend.array(weights), kind="balanced", rng=0)
    counts = np.bincount(backend.to_numpy(found.labels)[weights > 0], minlength=few)
    assert counts.max() <= -(-(n // 2 + 1) // few)


def test_exchanges_come_close_to_the_best_assignment():
    for seed, (n, k, groups) in enumerate([(120, 6, 3), (200, 10, 5), (150, 15, 40)]):
        x = clustered(n, 4, groups, seed=seed)
        start = x[:k]
        found = kmeans(x, start, kind="balanced", iterations=0)
        costs = np.repeat(((x[:, None] - start) ** 2).sum(-1), n // k, axis=1)
        best = costs[linear_sum_assignment(costs)].sum()
        assert best * (1 - 1e-12) <= found.inertia <= 1.04 * best


# -- arguments --------------------------------------------------------------------------------------------------------


def test_kinds_of_input():
    x = rng.integers(-5, 6, (30, 3))
    found = kmeans(x, 4, rng=0)
    assert found.centres.dtype == np.float64
    assert np.array_equal(found.labels, kmeans(x.astype(float), 4, rng=0).labels)
    assert kmeans(x.astype(np.float16), 4, rng=0).centres.dtype == np.float32
    wide = np.repeat(x.astype(float), 2, axis=0)
    view = wide[::2]
    view.flags.writeable = False
    assert np.array_equal(kmeans(view, 4, rng=0).centres, found.centres)
    assert np.array_equal(wide, np.repeat(x, 2, axis=0))
    empty = kmeans(np.zeros((2, 0, 3)), np.ones((2, 4, 3)))
    assert empty.labels.shape == (2, 0)
    assert not empty.counts.any()
    assert not empty.inertia.any()
    assert kmeans(np.zeros((0, 5, 3)), np.ones((0, 4, 3))).labels.shape == (0, 5)
    assert kmeans(np.zeros((5, 0)), 2, rng=0).inertia == 0


def test_tolerance_stops_early():
    x = clustered(2000, 4, 30, spread=1.0)
    fine, coarse = (kmeans(x, x[:30], tol=tol) for tol in (0, 0.05))
    assert coarse.steps < fine.steps
    assert coarse.inertia < 1.05 * fine.inertia


@pytest.mark.parametrize(
    ("error", "sentence", "arguments", "options"),
    [
        (ValueError, "centres must be at least 1, got 0", (np.ones((3, 2)), 0), {}),
        (TypeError, "centres must be an integer, got 2.0 of type float", (np.ones((3, 2)), 2.0), {}),
        (
            ValueError,
            r"centres must be a number or have shape \(\.\.\., k, d\)",
            (np.ones((3, 2)), np.ones((2, 3))),
            {},
        ),
        (ValueError, r"centres must be a number or have shape", (np.ones((3, 2)), np.ones((0, 2))), {}),
        (
            ValueError,
            r"weights must have shape \(3,\), one for each point, got \(2,\)",
            (np.ones((3, 2)), 1, np.ones(2)),
            {},
        ),
        (ValueError, "weights must not be negative", (np.ones((3, 2)), 1, -np.ones(3)), {}),
        (ValueError, "x contains NaN or inf", (np.full((3, 2), np.nan), 1), {}),
        (ValueError, "centres contains NaN or inf", (np.ones((3, 2)), np.full((1, 2), np.inf)), {}),
        (TypeError, "x must be real, got complex128", (np.ones((3, 2)) + 0j, 1), {}),
        (
            ValueError,
            "kind must be one of 'plain', 'spherical', 'balanced', got 'soft'",
            (np.ones((3, 2)), 1),
            {"kind": "soft"},
        ),
        (ValueError, r"init must be one of '\+\+', 'sample', got 'kpp'", (np.ones((3, 2)), 1), {"init": "kpp"}),
        (ValueError, "empty must be one of 'reseed', 'keep', got None", (np.ones((3, 2)), 1), {"empty": None}),
        (ValueError, "iterations must be at least 0, got -1", (np.ones((3, 2)), 1), {"iterations": -1}),
        (ValueError, "tol must be >= 0, got -1", (np.ones((3, 2)), 1), {"tol": -1}),
        (TypeError, "rng must be None, an integer", (np.ones((3, 2)), 1), {"rng": "seed"}),
    ],
)
def test_bad_arguments(error, sentence, arguments, options):
    with pytest.raises(error, match=sentence):
        kmeans(*arguments, **options)


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
