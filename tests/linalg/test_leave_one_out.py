"""Errors of approximations, from the sketches that made them."""

import itertools

import numpy as np
import pytest
from spectra import decaying

from nlattn.linalg import (
    leave_one_out_nystrom,
    leave_one_out_range,
)


def test_leave_one_out_identities():
    rng = np.random.default_rng(0)
    a, g = decaying(15), rng.standard_normal((15, 5))
    y = a @ g
    left = []
    for i in range(5):
        q = np.linalg.qr(np.delete(y, i, axis=1))[0]
        left.append(np.linalg.norm(y[:, i] - q @ (q.T @ y[:, i])) ** 2)
    np.testing.assert_allclose(leave_one_out_range(y) ** 2, np.mean(left), rtol=1e-10)
    a = a @ a.T
    y, left = a @ g, []
    for i in range(5):
        w, image = np.delete(g, i, axis=1), np.delete(y, i, axis=1)
        left.append(g[:, i] @ (a - image @ np.linalg.solve(w.T @ image, image.T)) @ g[:, i])
    np.testing.assert_allclose(leave_one_out_nystrom(y, g), np.mean(left), rtol=1e-9)
    assert leave_one_out_range(np.zeros((4, 2))) == leave_one_out_nystrom(np.zeros((4, 2)), np.ones((4, 2))) == 0


def draws(count):
    return [np.reshape(signs, (3, count)) for signs in itertools.product([-1.0, 1.0], repeat=3 * count)]


def test_leave_one_out_range_over_all_signs():
    """Many of the draws have dependent columns."""
    a = np.diag([3.0, 2.0, 1.0])
    squares = [leave_one_out_range(a @ g) ** 2 for g in draws(3)]
    left = [np.linalg.norm(a - (a @ g) @ np.linalg.pinv(a @ g) @ a) ** 2 for g in draws(2)]
    np.testing.assert_allclose(np.mean(squares), np.mean(left), rtol=1e-10)


def test_leave_one_out_nystrom_over_all_signs():
    a = np.diag([3.0, 2.0, 1.0])
    found = [leave_one_out_nystrom(a @ g, g) for g in draws(3)]
    left = [np.trace(a - a @ g @ np.linalg.pinv(g.T @ a @ g) @ g.T @ a) for g in draws(2)]
    np.testing.assert_allclose(np.mean(found), np.mean(left), rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_dependent_columns_count_for_nothing(dtype):
    rtol = 1e-4 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(leave_one_out_range(np.asarray([[3, 0], [0, 0], [0, 0]], dtype)), 4.5**0.5, rtol=rtol)
    y = np.random.default_rng(0).standard_normal((30, 4)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        y = y + 1j * np.random.default_rng(1).standard_normal((30, 4))
    y = np.concatenate([y, y[:, :1] * 2 - y[:, 1:2]], axis=1)
    left = []
    for i in (2, 3):
        others = np.delete(y, [i, 4], axis=1).astype(complex)
        left.append(np.linalg.norm(y[:, i] - others @ np.linalg.pinv(others) @ y[:, i]) ** 2)
    np.testing.assert_allclose(leave_one_out_range(y) ** 2, np.sum(left) / 5, rtol=rtol)
    # With a = I and the columns for test vectors, what is left is the same.
    np.testing.assert_allclose(leave_one_out_nystrom(y, y), np.sum(left) / 5, rtol=rtol)


def test_leave_one_out_backends(backend):
    y = np.asarray([[3.0, 1, 4], [0, 2, 2], [0, 0, 0], [1, 1, 2]])
    g = np.asarray([[1.0, -1, 0], [1, 1, 2], [1, -1, 0], [-1, 1, 0]])
    for columns in (2, 3):
        image, test = y[:, :columns].copy(), g[:, :columns].copy()
        found = leave_one_out_range(backend.array(image))
        np.testing.assert_allclose(found, leave_one_out_range(image), rtol=1e-9, atol=1e-14)
        found = leave_one_out_nystrom(backend.array(test), backend.array(test))
        np.testing.assert_allclose(found, leave_one_out_nystrom(test, test), rtol=1e-9, atol=1e-14)
