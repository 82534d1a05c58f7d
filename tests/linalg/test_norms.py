"""Limits of norms from products with random vectors."""

import math

import numpy as np
import pytest
from spectra import decaying

from nlattn.linalg import (
    frobenius_norm_bound,
    spectral_norm_bound,
)


@pytest.mark.parametrize("failure", [0.3, 0.05])
@pytest.mark.parametrize(("function", "norm"), [(spectral_norm_bound, 2), (frobenius_norm_bound, "fro")])
def test_limits_of_norms_are_kept(failure, function, norm):
    a = decaying(20) if norm == 2 else np.diag([1.0] + [0.0] * 19)  # one direction is the worst case for both
    exact = np.linalg.norm(a, norm)
    found = [function(a, 4, failure=failure, rng=seed) for seed in range(600)]
    missed = np.sum(np.asarray([each.value for each in found]) < exact)
    assert missed <= 600 * failure + 5 * np.sqrt(600 * failure)
    assert np.median([each.value for each in found]) < 12 * exact
    assert {each.failure for each in found} == {failure}
    assert found[0].kind == "probabilistic"
    assert function(np.zeros((3, 2)), rng=0).value == 0


def test_frobenius_estimate_is_unbiased():
    a = decaying(20)
    squares = [frobenius_norm_bound(a, 5, rng=seed).estimate ** 2 for seed in range(800)]
    np.testing.assert_allclose(np.mean(squares), np.linalg.norm(a) ** 2, rtol=0.03)


def test_limits_by_their_formulas():
    a = np.diag([3.0, 2.0, 1.0])
    images = a @ np.random.default_rng(1).standard_normal((3, 4))
    lengths = np.linalg.norm(images, axis=0)
    found = spectral_norm_bound(a, 4, failure=0.01, rng=1)
    np.testing.assert_allclose(found.value, 0.01**-0.25 * np.sqrt(2 / np.pi) * lengths.max(), rtol=1e-12)
    found = frobenius_norm_bound(a, 4, failure=0.01, rng=1)
    t = np.mean(lengths**2) / found.value**2
    assert 0 < t < 1
    np.testing.assert_allclose((t * math.exp(1 - t)) ** 2, 0.01, rtol=1e-9)


def test_tiny_failures():
    a = np.diag([3.0, 4.0])
    found = frobenius_norm_bound(a, 1, failure=1e-200, rng=0)
    np.testing.assert_allclose(math.log(found.value / found.estimate), 200 * math.log(10) + 0.5, rtol=1e-9)
    found = spectral_norm_bound(a * 1e-100, 1, failure=1e-320, rng=0)
    expected = 320 * math.log(10) + 0.5 * math.log(2 / math.pi)
    np.testing.assert_allclose(math.log(found.value) - math.log(found.estimate), expected, rtol=1e-4)  # subnormal
    assert spectral_norm_bound(np.zeros((2, 2)), 1, failure=1e-320).value == 0
    for function in (spectral_norm_bound, frobenius_norm_bound):
        with pytest.raises(ValueError, match="above about") as refused:
            function(a, 1, failure=1e-320, rng=0)
        least = float(str(refused.value).split("about ")[1].split(",")[0])
        assert 1e306 < function(a, 1, failure=1.1 * least, rng=0).value < math.inf
        with pytest.raises(ValueError, match="above about"):
            function(a, 1, failure=0.9 * least, rng=0)
