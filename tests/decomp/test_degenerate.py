"""Components that are dependent, vanish or cancel."""

import warnings

import array_api_compat
import numpy as np
import pytest
from cp_tensors import normal, planted, reconstructed, relative, w_state

from nlattn.decomp import cp
from nlattn.decomp._degeneracy import cancelling_pair
from nlattn.decomp._least_squares import normalised, solved
from nlattn.errors import ConvergenceWarning


@pytest.mark.parametrize("method", ["als", "sampled"])
@pytest.mark.parametrize("init", ["random", "hosvd"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rank_deficient(backend, method, init, dtype):
    """More components than a constant tensor or one of equal slices has: nothing raises, and the fit is exact."""
    slices = np.broadcast_to(normal((4, 3))[:, :, None], (4, 3, 6))
    for x in (np.ones((3, 4, 5)), np.asarray(slices)):
        result = cp(backend.array(x, dtype), 5, method=method, init=init, rng=0)
        assert 0 <= result.error < 1e-4
        assert relative(reconstructed(result), x) < 1e-4
        assert np.all(np.isfinite(backend.to_numpy(result.weights)))


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_singular_normal_equations_give_the_least_solution(backend, dtype):
    a = normal((5, 3), dtype).astype(dtype)
    matrix, rhs = a @ a.conj().T, normal((4, 5), dtype, seed=1).astype(dtype)
    rhs = rhs @ matrix
    xp = array_api_compat.array_namespace(backend.array(rhs))
    out = backend.to_numpy(solved(xp, backend.array(rhs), backend.array(matrix)))
    np.testing.assert_allclose(out, rhs @ np.linalg.pinv(matrix, rcond=1e-5), rtol=1e-3, atol=1e-4)
    noisy = backend.to_numpy(
        solved(xp, backend.array(rhs + normal((4, 5), dtype).astype(dtype)), backend.array(matrix))
    )
    assert np.linalg.norm(noisy @ (np.eye(5) - a @ np.linalg.pinv(a))) < 1e-3
    assert np.all(backend.to_numpy(solved(xp, backend.array(rhs), backend.array(0 * matrix))) == 0)


def test_components_that_vanish_do_not_overflow(backend):
    """Beyond the rank columns shrink from sweep to sweep, until their squares underflow."""
    x = backend.array(np.full((4, 6, 2, 5), 0.7), "float32")
    for rank in (3, 7):
        for damping in (0.0, 0.1):
            result = cp(x, rank, rng=1, iterations=50, tol=0, damping=damping)
            assert 0 <= result.error < 1e-5
            assert np.all(np.isfinite(backend.to_numpy(result.weights)))
    tiny = normalised(np, np.asarray([[1e-21, 3.0], [0.0, 4.0]], np.float32))
    np.testing.assert_allclose(tiny[0], [[0, 0.6], [0, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(tiny[1], [0, 5], rtol=1e-6)


def test_w_state_is_reported_as_degenerate():
    """A tensor of rank 3 and border rank 2: better and better approximations of rank 2, none of them best."""
    results = []
    for sweeps in (50, 200, 800):
        with pytest.warns(ConvergenceWarning) as record:
            results.append(cp(w_state(), 2, rng=0, iterations=sweeps, line_search=False, tol=1e-12))
    sentences = [str(warning.message) for warning in record]
    assert any("components 0 and 1 are larger than x and nearly cancel (cosine -0.9" in s for s in sentences)
    assert any("a best approximation of rank 2 may not exist: lower the rank, or raise damping" in s for s in sentences)
    errors, weights = [r.error for r in results], [r.weights[1] for r in results]
    assert errors[0] > errors[1] > errors[2] > 1e-4
    assert weights[0] < weights[1] < weights[2]
    assert cp(w_state(), 3, rng=0, iterations=1000).error < 1e-6
    # The sequence that shows it: n (a + b / n) o (a + b / n) o (a + b / n) - n a o a o a.
    for n in (10, 1000):
        c = np.asarray([1, 1 / n])
        near = n * np.einsum("i,j,k->ijk", c, c, c)
        near[0, 0, 0] -= n
        np.testing.assert_allclose(np.linalg.norm(near - w_state()), np.sqrt(3) / n, rtol=0.1)


def test_healthy_fits_are_not_reported():
    x, _ = planted((8, 9, 7), 3, noise=0.1, collinearity=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cp(x, 3, rng=0).converged


def test_cancelling_pair():
    """Components are reported if they are larger than the tensor and nearly cancel."""
    opposite = np.asarray([[1.0, -1.0, 0.0], [0.1, 0.1, 1.0]])
    opposite /= np.linalg.norm(opposite, axis=0)
    factors, weights = [opposite, np.ones((1, 3)), np.ones((1, 3))], np.asarray([5.0, 4.0, 3.0])
    i, j, cosine = cancelling_pair(np, weights, factors, 3.5)
    assert {i, j} == {0, 1}
    np.testing.assert_allclose(cosine, opposite[:, 0] @ opposite[:, 1])
    assert cancelling_pair(np, weights, factors, 4.5) is None
    assert cancelling_pair(np, weights, [opposite, opposite, np.ones((1, 3))], 3.5) is None


def test_says_that_it_has_not_settled():
    x, _ = planted((8, 9, 7), 3, noise=0.1)
    with pytest.warns(ConvergenceWarning, match="cp: 2 sweeps did not settle to tol=1e-05; raise iterations or tol"):
        assert not cp(x, 3, rng=0, iterations=2).converged
