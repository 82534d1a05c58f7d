"""Similar points side by side, by a tree of cuts."""

import itertools

import numpy as np
import pytest

from nlattn.select.query_order import tree_order
from nlattn.testing import to_numpy


@pytest.mark.parametrize(("n", "size"), [(300, 16), (256, 16), (257, 16), (5, 8), (1, 4), (70, 1)])
def test_tree_order_is_a_permutation(backend, n, size):
    x = np.random.default_rng(0).standard_normal((2, 3, n, 4))
    x[1, 0] = 0
    x[1, 1] = x[1, 1, :1]
    x[1, 2] *= 1e300
    a = backend.array(x)
    order = to_numpy(tree_order(a, size))
    assert np.array_equal(np.sort(order, axis=-1), np.broadcast_to(np.arange(n), (2, 3, n)))
    assert np.array_equal(order[1, 0], np.arange(n))


def test_tree_order_keeps_groups_together(backend):
    """16 groups of 16, far apart; and a line, which is cut into intervals."""
    rng = np.random.default_rng(0)
    label = rng.permutation(np.repeat(np.arange(16), 16))
    x = 50 * rng.standard_normal((16, 5))[label] + rng.standard_normal((256, 5))
    line = np.outer(rng.standard_normal(200), [1.0, 2.0])
    a, b = (backend.array(y[None, None]) for y in (x, line))
    order = to_numpy(tree_order(a, 16))[0, 0]
    kinds = [len(set(label[run])) for run in order.reshape(16, 16)]
    assert np.mean(kinds) < 2
    order = to_numpy(tree_order(b, 25))[0, 0]
    runs = sorted((line[run, 0].min(), line[run, 0].max()) for run in order.reshape(8, 25))
    assert all(high < low for (_, high), (low, _) in itertools.pairwise(runs))
