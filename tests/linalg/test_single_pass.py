"""Singular value decompositions from one pass over the rows."""

import numpy as np
import pytest
from spectra import assert_orthonormal, matrix, rebuilt, relative

from nlattn.linalg import single_pass_svd


@pytest.mark.parametrize("seed", range(3))
def test_single_pass(seed):
    a = matrix(200, 120, 0.5 ** np.arange(40.0), seed=seed)
    found = single_pass_svd((a[i : i + 17] for i in range(0, 200, 17)), 8, rng=seed)
    exact = np.linalg.svd(a, compute_uv=False)
    assert relative(a, rebuilt(found)) < 2 * np.linalg.norm(exact[8:]) / np.linalg.norm(exact)
    assert 0.3 < found.error / relative(a, rebuilt(found)) < 3
    assert_orthonormal(found.U)
    whole = single_pass_svd(a, 8, rng=seed)
    assert whole.U.shape == found.U.shape == (200, 8)


def test_single_pass_is_exact_at_low_rank():
    for dtype in (np.float64, np.complex128):
        a = matrix(50, 40, [2.0, 1.0], dtype=dtype)
        np.testing.assert_allclose(rebuilt(single_pass_svd([a[:20], a[20:]], 3, rng=0)), a, atol=1e-12)
