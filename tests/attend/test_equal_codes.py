"""The probability of equal hash codes, as attention over equal codes computes it."""

import functools
import math

import numpy as np
import pytest

from nlattn.attend.equal_codes import log_collision_probability
from nlattn.cluster import cross_polytope_collision_probability
from nlattn.testing import to_numpy

ANGLES = np.linspace(1e-3, 2.2, 12)


@functools.cache
def exact(size):
    return np.log(cross_polytope_collision_probability(ANGLES, size))


@pytest.mark.parametrize("size", [1, 2, 3, 8, 40])
def test_collision_probabilities(backend, size):
    for factors in ((size,), (size, size)):
        got = to_numpy(log_collision_probability(backend.array(np.cos(ANGLES)), factors))
        wanted = sum(map(exact, factors))
        assert np.all(np.abs(got - wanted) < np.where(math.pi / 2 > ANGLES, 1e-5, 1e-3) * len(factors))
