"""k-means of points that are equal, zero, few or far away, and what it refuses."""

import numpy as np
import pytest
from partitions import clustered, result, unit

from nlattn.cluster import kmeans
from nlattn.testing import assert_close

rng = np.random.default_rng(0)


KINDS = ["plain", "spherical", "balanced"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", ["++", "sample"])
def test_duplicates(backend, kind, init):
    """With fewer distinct points than centres no distance is left, and nothing is NaN."""
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
    # More centres than points may be given: some stay empty.
    found = kmeans(x, rng.standard_normal((6, 3)), empty="keep")
    assert np.sum(found.counts > 0) <= 4


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
    # In one step they move to the points farthest from their centre, in order, but not to one that is left out.
    line, weights = np.asarray([[0.0], [1.0], [10.0], [7.0], [50.0]]), np.asarray([1.0, 1, 1, 1, 0])
    once = kmeans(line, np.asarray([[0.0], [90.0], [80.0]]), weights, iterations=1)
    assert_close(once.centres, np.asarray([[4.5], [10.0], [7.0]]), rtol=1e-14)


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
