"""Tucker decompositions: where their bounds are attained, and what breaks them."""

import numpy as np
import pytest

from nlattn.bounds import (
    hosvd_error,
    randomized_tucker_error,
    sthosvd_error,
    tucker_lower_bound,
    tucker_quasi_optimality,
)
from nlattn.decomp import cp, tucker


def spectra(x):
    return [np.linalg.svd(np.moveaxis(x, k, 0).reshape(x.shape[k], -1), compute_uv=False) for k in range(x.ndim)]


def orthogonally_decomposable(*values):
    """A tensor with these entries on its diagonal, each mode rotated."""
    rng = np.random.default_rng(0)
    q = [np.linalg.qr(rng.standard_normal((len(values), len(values))))[0] for _ in range(3)]
    return np.einsum("r,ir,jr,kr->ijk", np.asarray(values), *q)


@pytest.mark.parametrize("method", ["hosvd", "sthosvd"])
def test_hosvd_error_is_attained(method):
    """Each mode drops an entry that the other modes keep, so that all of 1 + 4 + 9 is lost."""
    x = np.zeros((3, 3, 3))
    x[0, 0, 0] = x[1, 1, 1] = 5.0
    x[2, 0, 1], x[0, 2, 1], x[0, 1, 2] = 1.0, 2.0, 3.0
    error = np.linalg.norm(x - tucker(x, 2, method=method).to_tensor())
    np.testing.assert_allclose([error, hosvd_error(spectra(x), (2, 2, 2))], np.sqrt(14), rtol=1e-12)


def test_hosvd_error_needs_leading_vectors():
    x = orthogonally_decomposable(3.0, 2.0, 1.0)
    u = np.linalg.svd(x.reshape(3, -1))[0][:, 1:]
    error = np.linalg.norm(x - np.tensordot(u @ u.T, x, axes=(1, 0)))
    assert error > 2 * hosvd_error(spectra(x), (2, 3, 3))


def test_sthosvd_error_counts_what_is_discarded():
    """Mode 0 drops the component of weight 1, mode 1 has nothing to drop, and mode 2 drops that of weight 2."""
    x = orthogonally_decomposable(3.0, 2.0, 1.0)
    error = np.linalg.norm(x - tucker(x, (2, 2, 1), order=(0, 1, 2)).to_tensor())
    np.testing.assert_allclose([error, sthosvd_error([1.0, 0.0, 4.0])], np.sqrt(5), rtol=1e-12)


def test_sthosvd_error_is_not_an_identity_for_hosvd():
    """The HOSVD counts twice what two modes drop together."""
    x = np.random.default_rng(0).standard_normal((5, 6, 7))
    tails = [np.sum(s[3:] ** 2) for s in spectra(x)]
    assert np.linalg.norm(x - tucker(x, 3, method="hosvd").to_tensor()) < 0.95 * sthosvd_error(tails)


def test_tucker_quasi_optimality_counts_truncated_modes_only():
    """With one truncated mode the result is the best one, and the bound an equality."""
    x = np.random.default_rng(0).standard_normal((5, 6, 7))
    u, values, vh = np.linalg.svd(x.reshape(5, -1), full_matrices=False)
    best = np.linalg.norm(x.reshape(5, -1) - (u[:, :2] * values[:2]) @ vh[:2])
    error = np.linalg.norm(x - tucker(x, (2, 6, 7)).to_tensor())
    np.testing.assert_allclose(error, tucker_quasi_optimality(best, 1), rtol=1e-12)


def test_tucker_quasi_optimality_needs_the_ranks_of_y():
    x = np.random.default_rng(0).standard_normal((5, 6, 7))
    y = tucker(x, (5, 5, 6)).to_tensor()
    error = np.linalg.norm(x - tucker(x, 2).to_tensor())
    assert error > tucker_quasi_optimality(float(np.linalg.norm(x - y)), 3)


def test_tucker_lower_bound_is_attained_by_matrices():
    x = np.random.default_rng(0).standard_normal((6, 7))
    error = np.linalg.norm(x - tucker(x, 3).to_tensor())
    np.testing.assert_allclose(error, tucker_lower_bound(spectra(x), (3, 3)), rtol=1e-12)


def test_tucker_lower_bound_holds_for_cp():
    x = orthogonally_decomposable(3.0, 2.0, 1.0)
    error = cp(x, 2, init="hosvd").error * np.linalg.norm(x)
    np.testing.assert_allclose(error, tucker_lower_bound(spectra(x), (2, 2, 2)), rtol=1e-6)
    noise = np.random.default_rng(0).standard_normal((5, 6, 7))
    error = cp(noise, 2, rng=0).error * np.linalg.norm(noise)
    assert error > tucker_lower_bound(spectra(noise), (2, 2, 2))


def test_tucker_lower_bound_needs_the_ranks():
    x = np.random.default_rng(0).standard_normal((5, 6, 7))
    error = np.linalg.norm(x - tucker(x, (2, 4, 4)).to_tensor())
    assert error < tucker_lower_bound(spectra(x), (1, 1, 1))


def test_randomized_tucker_error_of_one_mode():
    """The bound is the mean of what the structure of a Gaussian test matrix guarantees, and the error is below it."""
    rng, p, values = np.random.default_rng(0), 4, 1 / np.arange(1.0, 9.0)
    x = (np.linalg.qr(rng.standard_normal((8, 8)))[0] * values) @ np.linalg.qr(rng.standard_normal((8, 8)))[0]
    draws = rng.standard_normal((20_000, 8, 2 + p))
    mixed = np.diag(values[2:]) @ draws[:, 2:] @ np.linalg.pinv(draws[:, :2])
    structure = np.mean(np.sum(mixed**2, axis=(1, 2))) + np.sum(values[2:] ** 2)
    limit = randomized_tucker_error([values, values], (2, 8), p)
    np.testing.assert_allclose(structure, limit, rtol=0.02)
    errors = [
        np.linalg.norm(
            x - tucker(x, 2, method="randomized", order=(0, 1), oversampling=p, power_iterations=0, rng=s).to_tensor()
        )
        for s in range(200)
    ]
    assert 0.5 * limit < np.mean(np.square(errors)) < limit


def test_randomized_tucker_error_needs_oversampling():
    with pytest.raises(ValueError, match="oversampling must be at least 2, got 1"):
        randomized_tucker_error([[1.0], [1.0]], (1, 1), 1)
    rng = np.random.default_rng(0)
    x = np.diag([1.0] + 59 * [0.3]) @ np.linalg.qr(rng.standard_normal((60, 60)))[0]
    limit = randomized_tucker_error([np.linalg.svd(x, compute_uv=False), np.zeros(60)], (1, 60), 50)
    errors = [
        np.linalg.norm(x - tucker(x, 1, method="randomized", oversampling=0, power_iterations=0, rng=s).to_tensor())
        for s in range(50)
    ]
    assert np.mean(np.square(errors)) > limit
