"""Sweeps of alternating least squares, and the steps beyond them."""

from itertools import pairwise

import numpy as np
from cp_tensors import dense, normal, planted, reconstructed, relative

from nlattn.decomp import cp


def test_error_never_grows():
    """No sweep raises the error, with and without line searches, and with the term that holds factors back."""
    x, _ = planted((8, 9, 7), 4, noise=0.2, collinearity=0.8)
    for options in ({}, {"line_search": False}, {"damping": 0.3}, {"init": "hosvd"}):
        errors = [cp(x, 3, rng=3, tol=0, iterations=n, **options).error for n in range(1, 13)]
        assert all(b <= a * (1 + 1e-12) for a, b in pairwise(errors))
        assert errors[-1] < errors[0]


def test_one_sweep_is_the_least_squares_update():
    x, _ = planted((5, 6, 7), 3, noise=0.5)
    start = [normal((n, 2), seed=n) for n in x.shape]
    a, b, c = start
    z = np.einsum("jr,kr->jkr", b, c).reshape(-1, 2)
    a = np.linalg.lstsq(z, x.reshape(5, -1).T)[0].T
    z = np.einsum("ir,kr->ikr", a, c).reshape(-1, 2)
    b = np.linalg.lstsq(z, x.transpose(1, 0, 2).reshape(6, -1).T)[0].T
    z = np.einsum("ir,jr->ijr", a, b).reshape(-1, 2)
    c = np.linalg.lstsq(z, x.transpose(2, 0, 1).reshape(7, -1).T)[0].T
    result = cp(x, 2, init=(None, start), iterations=1, tol=0)
    np.testing.assert_allclose(reconstructed(result), dense(np.ones(2), [a, b, c]), rtol=1e-10, atol=1e-12)


def test_line_search_saves_sweeps():
    x, _ = planted((20, 21, 22), 4, noise=0.01, collinearity=0.9)
    sweeps = {on: cp(x, 4, rng=0, iterations=2000, line_search=on).iterations for on in (True, False)}
    assert sweeps[True] < 0.5 * sweeps[False]


def test_damping_holds_factors_back():
    x, _ = planted((8, 9, 7), 3, noise=0.2)
    start = cp(x, 3, rng=0, iterations=1, tol=0)
    moves = [
        relative(reconstructed(cp(x, 3, init=start, iterations=1, tol=0, damping=d)), reconstructed(start))
        for d in (0.0, 1.0, 1e6)
    ]
    assert moves[0] > moves[1] > moves[2]
    assert moves[2] < 1e-5


def test_start_keeps_its_weights():
    """A start that is a solution is left alone, whether its weights are apart or in the factors."""
    x, factors = planted((5, 6, 7), 2, noise=0.1)
    result = cp(x, 2, rng=0, tol=1e-14, iterations=500)
    for start in (result, (result.weights, result.factors), (None, [factors[0], *result.factors[1:]])):
        again = cp(x, 2, init=start, iterations=1, tol=0)
        np.testing.assert_allclose(again.error, result.error, rtol=1e-9)
    for scale in (1.0, 1e-170):
        start = (result.weights * scale, result.factors)
        held = cp(x * scale, 2, init=start, iterations=1, tol=0, damping=1e8)
        np.testing.assert_allclose(held.to_tensor() / scale, result.to_tensor(), atol=1e-6)
