"""Errors of approximations from one pass."""

import numpy as np

from nlattn.bounds import single_pass_error


def test_second_factor_is_exact():
    """Given Q, the factor 1 + k/(l - k - 1) of single_pass_error is an equality."""
    rng = np.random.default_rng(0)
    k, rows = 4, 10
    a = rng.standard_normal((12, 9))
    q = np.linalg.qr(rng.standard_normal((12, k)))[0]
    squares = []
    for _ in range(4000):
        psi = rng.standard_normal((rows, 12))
        squares.append(np.linalg.norm(a - q @ np.linalg.lstsq(psi @ q, psi @ a)[0]) ** 2)
    exact = (1 + k / (rows - k - 1)) * np.linalg.norm(a - q @ (q.T @ a)) ** 2
    assert abs(np.mean(squares) - exact) < 5 * np.std(squares) / np.sqrt(4000)


def test_four_times_the_best():
    """k = 2 r + 1 and l = 2 k + 1 make single_pass_error 4 times the best of rank r."""
    s = np.concatenate([np.full(5, 1e3), np.ones(50)])
    np.testing.assert_allclose(single_pass_error(s, 11, 23), 4 * np.sum(s[5:] ** 2))
    assert single_pass_error(s, 11, 13) > 2.9 * single_pass_error(s, 11, 23)


def test_one_column():
    """For one column single_pass_error has only the split r = 0; by the exact factor given Q it holds."""
    s = np.asarray([2.0, 1.0, 0.5])
    np.testing.assert_allclose(single_pass_error(s, 1, 3), 2 * np.sum(s**2))
    rng = np.random.default_rng(0)
    left = [np.sum(s**2) - np.sum((s * y / np.linalg.norm(y)) ** 2) for y in s * rng.standard_normal((500, 3))]
    assert 0.1 < 2 * np.mean(left) / single_pass_error(s, 1, 3) < 1
