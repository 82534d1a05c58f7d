"""What attention over some of the keys loses."""

import numpy as np

from nlattn.bounds import dropped_mass


def test_dropped_mass_is_attained():
    values, weights = np.asarray([[0.0, 1.0], [3.0, 5.0]]), np.asarray([0.7, 0.3])
    error = np.linalg.norm(values[0] - weights @ values)
    np.testing.assert_allclose(error, dropped_mass(0.3, values), rtol=1e-14)


def test_dropped_mass_needs_renormalised_weights():
    """Without the division by the kept mass the error is eps ||o_D||, which no diameter bounds."""
    values, weights = np.asarray([[10.0], [10.0]]), np.asarray([0.7, 0.3])
    error = np.linalg.norm(weights[0] * values[0] - weights @ values)
    assert error > dropped_mass(0.3, values)
