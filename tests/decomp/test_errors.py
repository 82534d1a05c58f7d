"""The error of an orthogonal projection, from norms where these say it, else from the difference."""

import math

import numpy as np
import pytest

from nlattn.decomp._errors import projection_error


def halves_of(product):
    """The two halves of a product (with its first matrix the identity), and a list of how often they were asked for."""
    calls = []

    def halves():
        calls.append(1)
        return np.eye(len(product)), product

    return halves, calls


@pytest.mark.parametrize("exact", [False, True])
def test_the_difference_is_formed_only_where_it_is_wanted(exact):
    """Norms give the error of a projection; the difference also shows what a basis that is not orthonormal has done."""
    x = np.eye(3)
    halves, calls = halves_of(np.diag([1.0, 1.0, 0.5]))
    error = projection_error(np, x, math.sqrt(3), np.diag([1.0, 1.0, 0.0]), halves, exact=exact)
    assert len(calls) == exact
    np.testing.assert_allclose(error, 0.5 / math.sqrt(3) if exact else 1 / math.sqrt(3), rtol=1e-14)


def test_a_cancelled_difference_of_norms_is_not_used():
    """Squared norms that agree to rounding say nothing: the difference is formed unasked."""
    x = np.diag([1.0, 1e-8])
    halves, calls = halves_of(np.diag([1.0, 0.0]))
    error = projection_error(np, x, np.linalg.norm(x), np.asarray([[1.0]]), halves, exact=False)
    assert len(calls) == 1
    np.testing.assert_allclose(error, 1e-8, rtol=1e-12)
