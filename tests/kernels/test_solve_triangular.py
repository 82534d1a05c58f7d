"""Triangular systems on every backend, against NumPy's solver."""

import numpy as np
import pytest
from kernel_calls import call_on

from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.testing import assert_close

rng = np.random.default_rng(0)


def triangle(lead, n, lower, dtype):
    """A well-conditioned triangle with NaN in the other half."""
    a = rng.standard_normal((*lead, n, n)) / max(n, 1) ** 0.5 + 2 * np.eye(n)
    return np.where(np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T, a, np.nan).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", [0, 1, 33, 70])
def test_against_numpy(backend, dtype, lower, n):
    for lead_a, lead_b in (((), ()), ((2, 3), (3,)), ((3,), (2, 1)), ((0,), (0,))):
        a = triangle(lead_a, n, lower, dtype)
        for m in (0, 5):
            b = rng.standard_normal((*lead_b, n, m)).astype(dtype)
            x = call_on(backend, solve_triangular, a, b, lower=lower)
            lead = np.broadcast_shapes(lead_a, lead_b)
            assert x.shape == (*lead, n, m)
            assert x.dtype == np.dtype(dtype)
            full = np.nan_to_num(a.astype(np.float64))
            wanted = np.linalg.solve(np.broadcast_to(full, (*lead, n, n)), np.broadcast_to(b, (*lead, n, m)))
            tight = 1e-10 if dtype == "float64" else 1e-3
            assert_close(x.astype(float), wanted, rtol=tight, atol=tight)


def test_by_zero(backend):
    """Infinite or NaN, without an error or a warning."""
    a, b = np.array([[2.0, 0.0], [1.0, 0.0]]), np.array([[2.0], [5.0]])
    x = call_on(backend, solve_triangular, a, b)
    assert x[0] == 1.0
    assert x[1] == np.inf


def test_gradient():
    torch = pytest.importorskip("torch")
    a = (2 * torch.eye(4, dtype=torch.float64) + 0.3 * torch.tensor(rng.standard_normal((4, 4)))).requires_grad_()
    b = torch.tensor(rng.standard_normal((4, 2)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: solve_triangular(torch.tril(a), b), (a, b))
