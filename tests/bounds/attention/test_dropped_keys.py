"""What dropped keys cost, and which keys keep most."""

import itertools

import numpy as np
import pytest

from nlattn.bounds import dropped_mass, dropped_mass_divergence, dropped_mass_identity, kept_columns


def problem():
    rng = np.random.default_rng(0)
    weights, values = rng.dirichlet(np.ones(9), size=5), rng.standard_normal((9, 3))
    kept = rng.random((5, 9)) < 0.5
    kept[:, 0], kept[:, 1] = True, False
    return weights, values, kept


def mean(weights, values):
    return weights @ values / np.sum(weights, axis=1, keepdims=True)


def test_dropped_mass_is_attained():
    values, weights = np.asarray([[0.0, 1.0], [3.0, 5.0]]), np.asarray([0.7, 0.3])
    error = np.linalg.norm(values[0] - weights @ values)
    np.testing.assert_allclose(error, dropped_mass(0.3, values), rtol=1e-14)


def test_dropped_mass_needs_renormalised_weights():
    """Without the division by the kept mass the error is eps ||o_D||, which no diameter bounds."""
    values, weights = np.asarray([[10.0], [10.0]]), np.asarray([0.7, 0.3])
    error = np.linalg.norm(weights[0] * values[0] - weights @ values)
    assert error > dropped_mass(0.3, values)


def test_dropped_mass_identity_of_vectors():
    weights, values, kept = problem()
    mass = np.sum(weights * ~kept, axis=1)
    inside, outside = mean(weights * kept, values), mean(weights * ~kept, values)
    error = inside - weights @ values
    np.testing.assert_allclose(error, mass[:, None] * (inside - outside), rtol=1e-12, atol=1e-15)
    rows = dropped_mass_identity(mass, inside, outside)
    np.testing.assert_allclose(np.linalg.norm(error, axis=1), rows, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(error), np.linalg.norm(rows), rtol=1e-12)


def test_dropped_mass_identity_needs_keys_that_count_once():
    """A key that two hash rounds count twice changes the weights of the others."""
    weights, values, kept = problem()
    twice = weights * kept
    twice[:, 0] *= 2
    mass, outside = np.sum(weights * ~kept, axis=1), mean(weights * ~kept, values)
    error = np.linalg.norm(mean(twice, values) - weights @ values, axis=1)
    assert np.all(np.abs(error / dropped_mass_identity(mass, mean(twice, values), outside) - 1) > 1e-3)


def test_dropped_mass_divergence_is_total_variation():
    weights, _, kept = problem()

    def distances(changed):
        divergence = np.sum(np.where(kept, changed * np.log(np.where(kept, changed, 1) / weights), 0), axis=1)
        return np.sum(np.abs(changed - weights), axis=1) / 2, dropped_mass_divergence(divergence)

    inside = weights * kept / np.sum(weights * kept, axis=1, keepdims=True)
    variation, found = distances(inside)
    np.testing.assert_allclose(found, np.sum(weights * ~kept, axis=1), rtol=1e-12)
    np.testing.assert_allclose(found, variation, rtol=1e-12)
    # Other weights on the same keys: Bretagnolle and Huber's inequality remains, the equation does not.
    variation, found = distances(kept / np.sum(kept, axis=1, keepdims=True))
    assert np.all(found > variation * (1 + 1e-3))


def test_kept_columns_by_brute_force():
    weights, _, _ = problem()
    for count in range(10):
        sets = itertools.combinations(range(9), count)
        best = max(np.mean(np.sum(weights[:, list(chosen)], axis=1)) for chosen in sets)
        assert kept_columns(weights, count) == pytest.approx(best, rel=1e-12)


def test_kept_columns_needs_one_set_for_all_rows():
    weights, _, _ = problem()
    own = np.mean(np.sum(np.sort(weights, axis=1)[:, -3:], axis=1))
    assert own > kept_columns(weights, 3) + 0.05


def test_kept_columns_refuses_more_keys_than_there_are():
    with pytest.raises(ValueError, match=r"\Acount must be at most 9 "):
        kept_columns(problem()[0], 10)
