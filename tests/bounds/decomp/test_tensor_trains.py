"""Tensor trains: where their bounds are attained, and what breaks them."""

import math

import numpy as np
import pytest

from nlattn.bounds import tensor_train_discarded, tensor_train_error, tensor_train_quasi_optimality
from nlattn.decomp import tensor_train


def spectra(x):
    sides = [math.prod(x.shape[:k]) for k in range(1, x.ndim)]
    return [np.linalg.svd(x.reshape(rows, -1), compute_uv=False) for rows in sides]


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((4, 5, 6, 3))


def test_tensor_train_discarded_counts_what_is_discarded():
    """On a diagonal tensor the first step drops the entry 1, and the second, of what is left, the entry 2."""
    x = np.zeros((3, 3, 3))
    x[[0, 1, 2], [0, 1, 2], [0, 1, 2]] = 3.0, 2.0, 1.0
    error = np.linalg.norm(x - tensor_train(x, (2, 1)).to_tensor())
    np.testing.assert_allclose([error, tensor_train_discarded([1.0, 4.0])], np.sqrt(5), rtol=1e-12)


def test_tensor_train_discarded_is_the_error_of_a_matrix(x):
    matrix = x.reshape(20, 18)
    values = np.linalg.svd(matrix, compute_uv=False)
    error = np.linalg.norm(matrix - tensor_train(matrix, 7).to_tensor())
    np.testing.assert_allclose(error, tensor_train_discarded([np.sum(values[7:] ** 2)]), rtol=1e-12)


def test_tensor_train_error_holds_for_rounding(x):
    """A train with redundant ranks is rounded as the tensor itself is decomposed."""
    train = tensor_train(x, rtol=1e-12)
    rounded = train.round((3, 6, 2))
    direct = tensor_train(x, (3, 6, 2))
    np.testing.assert_allclose(rounded.to_tensor(), direct.to_tensor(), atol=1e-12)
    limit = tensor_train_error(spectra(x), (3, 6, 2))
    assert 0.7 * limit < np.linalg.norm(x - rounded.to_tensor()) < limit


def test_tensor_train_error_needs_leading_vectors(x):
    u = np.linalg.svd(x.reshape(4, -1))[0][:, 1:]
    error = np.linalg.norm(x - np.tensordot(u @ u.T, x, axes=(1, 0)))
    assert error > tensor_train_error(spectra(x), (3, 18, 3))


def test_tensor_train_quasi_optimality_of_a_matrix(x):
    matrix = x.reshape(20, 18)
    u, values, vh = np.linalg.svd(matrix, full_matrices=False)
    best = np.linalg.norm(matrix - (u[:, :7] * values[:7]) @ vh[:7])
    error = np.linalg.norm(matrix - tensor_train(matrix, 7).to_tensor())
    np.testing.assert_allclose(error, tensor_train_quasi_optimality(best, 2), rtol=1e-12)


def test_tensor_train_quasi_optimality_needs_the_ranks_of_y(x):
    y = tensor_train(x, (4, 17, 3)).to_tensor()
    error = np.linalg.norm(x - tensor_train(x, 2).to_tensor())
    assert error > tensor_train_quasi_optimality(float(np.linalg.norm(x - y)), 4)
