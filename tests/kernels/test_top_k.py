"""The largest entries of each row, sorted, on every backend."""

import numpy as np
import pytest
from kernel_calls import call_on

from nlattn.kernels.top_k import top_k

rng = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 65, 300])
def test_ties_go_to_the_smaller_index(backend, dtype, n):
    """Infinities and both zeros are numbers like others."""
    x = np.round(2 * rng.standard_normal((3, 4, n))).astype(dtype)  # full of ties, also of 0.0 and -0.0
    x[0, 0, ::5], x[0, 1, ::5] = np.inf, -np.inf
    # Lists of the best, partitions, and sorts.
    for k in sorted({0, 1, n // 4, min(n, 64), min(n, 70), n}):
        values, indices = call_on(backend, top_k, x, k)
        wanted = np.argsort(-x, axis=-1, kind="stable")[..., :k]
        assert np.array_equal(indices, wanted)
        assert np.array_equal(values, np.take_along_axis(x, wanted, axis=-1))
        assert indices.dtype == np.int64
        assert values.dtype == np.dtype(dtype)


def test_shapes(backend):
    for shape in ((7,), (0, 7), (2, 0, 7), (1, 1, 1, 7)):
        values, indices = call_on(backend, top_k, rng.standard_normal(shape), 3)
        assert values.shape == indices.shape == (*shape[:-1], 3)
    assert call_on(backend, top_k, np.zeros((4, 0)), 0)[0].shape == (4, 0)


def test_gradient():
    torch = pytest.importorskip("torch")
    x = torch.tensor(rng.standard_normal((3, 5)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: top_k(x, 2)[0], (x,))
