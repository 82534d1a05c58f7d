"""The first centres of k-means."""

import numpy as np

from nlattn.arrays.random import generator
from nlattn.cluster import kmeans
from nlattn.testing import assert_close

rng = np.random.default_rng(0)


def test_plus_plus_without_distinct_points(backend):
    """Once each distinct point is chosen, draws are uniform: rounding does not count as a distance."""
    x = np.repeat(rng.standard_normal((3, 4)), 10, axis=0)
    centres = backend.to_numpy(kmeans(backend.array(x), 8, iterations=0, rng=0).centres)
    assert len(np.unique(centres[:3].round(12), axis=0)) == 3
    assert_close(centres[3:], x[np.floor(30 * generator(0).random(8)[3:]).astype(int)], rtol=1e-12)


def test_plus_plus_spreads_out():
    """Each of several groups far apart gets a centre, as few samples do; and squared distances decide."""
    x = 1e3 * np.repeat(np.eye(8), 20, axis=0) + rng.standard_normal((160, 8))
    hits = [len(set(kmeans(x, 8, init=init, iterations=0, rng=0).labels)) for init in ("++", "sample")]
    groups = {init: kmeans(x, 8, init=init, iterations=0, rng=0).centres.argmax(axis=-1) for init in ("++", "sample")}
    assert hits[0] == 8
    assert len(set(groups["++"])) == 8
    assert len(set(groups["sample"])) < 8
    # With the first centre at 0, second ones have probabilities in proportion to weight times squared distance.
    points, count = np.asarray([[0.0], [1.0], [2.0], [-1.0]]), 4000
    weights = np.broadcast_to(np.asarray([1e9, 1.0, 1.0, 2.0]), (count, 4))
    second = kmeans(np.broadcast_to(points, (count, 4, 1)), 2, weights, iterations=0, rng=0).centres[:, 1, 0]
    for value, probability in ((1.0, 1 / 7), (2.0, 4 / 7), (-1.0, 2 / 7)):
        assert abs(np.mean(second == value) - probability) < 5 * np.sqrt(0.25 / count)
