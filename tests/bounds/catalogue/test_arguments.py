"""Arguments outside the hypotheses are refused in one sentence that names them."""

import numpy as np
import pytest

from nlattn.bounds import BOUNDS

FALLING, RISING, SIGNED = np.asarray([2.0, 1.0, 0.0]), np.asarray([1.0, 2.0, 3.0]), np.asarray([1.0, 0.0, -1.0])


@pytest.mark.parametrize(
    ("id", "arguments", "name"),
    [
        ("range_finder_frobenius", (FALLING, 1, 1), "oversampling"),
        ("range_finder_frobenius", (RISING, 1, 2), "singular_values"),
        ("range_finder_spectral", (FALLING, 1, 1), "oversampling"),
        ("range_finder_spectral", (SIGNED, 1, 2), "singular_values"),
        ("range_finder_spectral", (FALLING, -1, 2), "rank"),
        ("range_finder_power", (FALLING, 1, 1, 1), "oversampling"),
        ("range_finder_power", (SIGNED, 1, 2, 1), "singular_values"),
        ("range_finder_power", (FALLING, 1, 2, -1), "power_iterations"),
        ("range_finder_frobenius_tail", (FALLING, 1, 3, 0.1), "oversampling"),
        ("range_finder_frobenius_tail", (FALLING, 1, 4, 0.0), "failure"),
        ("range_finder_spectral_tail", (FALLING, 1, 3, 0.1), "oversampling"),
        ("range_finder_spectral_tail", (FALLING, 1, 4, 1.0), "failure"),
        ("range_finder_spectral_tail", (RISING, 1, 4, 0.1), "singular_values"),
        ("nystrom_nuclear", (FALLING, 1, 2), "width"),
        ("nystrom_nuclear", (RISING, 1, 3), "eigenvalues"),
        ("single_pass_error", (FALLING, 2, 3), "rows"),
        ("single_pass_error", (FALLING, 0, 3), "columns"),
        ("single_pass_error", (SIGNED, 1, 3), "singular_values"),
        ("random_pivot_count", (FALLING, 1, 0.0), "epsilon"),
        ("random_pivot_count", (FALLING, 0, 1.0), "rank"),
        ("random_pivot_count", (FALLING, 2, 1.0), "eigenvalues"),
        ("random_pivot_count", (RISING, 1, 1.0), "eigenvalues"),
        ("sketched_leverage", (1.0,), "distortion"),
        ("sketched_leverage", (-0.1,), "distortion"),
        ("leverage_sampling", (0, 9, 0.1), "rank"),
        ("leverage_sampling", (2, 0, 0.1), "rows"),
        ("leverage_sampling", (2, 9, 0.0), "failure"),
        ("leverage_sampling", (2, 9, 0.1, 0.0), "quality"),
        ("leverage_sampling", (2, 9, 0.1, 1.1), "quality"),
        ("trace_variance", (np.eye(2), 3, "foo"), "test"),
        ("trace_variance", (np.eye(2), 0), "products"),
        ("spectral_norm_limit", (np.eye(2), 0.0), "failure"),
        ("frobenius_norm_limit", (np.eye(2), 1.0), "failure"),
        ("normaliser_perturbation", (1.0, 1.0), "error"),
        ("normaliser_perturbation", (-0.1, 1.0), "error"),
        ("entrywise_output", (1.0, np.eye(2)), "error"),
        ("entrywise_output", (np.asarray([0.5, -0.1]), np.eye(2)), "error"),
    ],
)
def test_outside_the_hypotheses(id, arguments, name):
    with pytest.raises(ValueError, match=rf"\A{name} must "):
        BOUNDS[id].function(*arguments)
