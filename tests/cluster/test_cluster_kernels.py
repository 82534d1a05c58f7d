"""The kernels of k-means against plain loops."""

import itertools

import numpy as np
import pytest

from nlattn.kernels.cheapest_moves import cheapest_moves
from nlattn.kernels.nearest_centre import nearest_centre
from nlattn.testing import assert_close

rng = np.random.default_rng(0)


# Small problems are left to the generic version. Tiles are cut at 64 rows, at 256 centres and at the end of the points.
@pytest.mark.parametrize(
    ("lead", "shape"),
    [((), (1, 1, 1)), ((2,), (7, 3, 5)), ((2,), (300, 16, 20)), ((), (3000, 5, 70)), ((), (1000, 4, 600))],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
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
    n, k = 30, 5
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
