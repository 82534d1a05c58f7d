"""The third-order iteration for a pseudo-inverse."""

import numpy as np

from nlattn.bounds import pseudo_inverse_iteration
from nlattn.linalg._pseudo_inverse import iterated_inverse


def test_recursion_for_numbers():
    for e in (0.9, -0.5, 0.1):
        x = 1 - e
        step = x * (13 - x * (15 - x * (7 - x))) / 4
        np.testing.assert_allclose(pseudo_inverse_iteration(np.asarray([[e]]))[0, 0], 1 - step, rtol=1e-12)


def test_six_steps_are_a_filter():
    """With s^2 / (|A|_1 |A|_inf) = 1e-5 it is not inverted; pseudo_inverse_iteration predicts what it becomes."""
    a = np.diag([1.0, 10**-2.5])
    z = iterated_inverse(a, 6)
    residual = np.asarray([[1 - 1e-5]])
    for _ in range(6):
        residual = pseudo_inverse_iteration(residual)
    np.testing.assert_allclose(1 - a[1, 1] * z[1, 1], residual[0, 0], rtol=1e-10)
    np.testing.assert_allclose(1 - residual[0, 0], 1e-5 * 3.25**6, rtol=0.02)
    np.testing.assert_allclose(z[0, 0], 1.0)
