"""Clusters of keys replaced by their moments: where the bounds are attained, and what breaks them."""

import warnings

import numpy as np
import pytest

from nlattn.bounds import monopole_mass, monopole_output, monopole_share, multipole_output
from nlattn.bounds.attention import cluster_remainders


def array(*numbers):
    return np.asarray(numbers, np.float64)


@pytest.mark.parametrize(("few", "many"), [(1, 1), (1, 5), (2, 9)])
@pytest.mark.parametrize("radius", [1e-3, 0.7, 6.0])
def test_mass_of_two_values(few, many, radius):
    """Two values attain monopole_mass and monopole_share; without the variance two opposite values do."""
    x = np.asarray([radius] * few + [-radius * few / many] * many)
    variance = np.mean(x**2)
    np.testing.assert_allclose(monopole_mass(array(radius), array(variance))[0], np.mean(np.exp(x)), rtol=1e-13)
    np.testing.assert_allclose(monopole_share(array(radius), array(variance))[0], 1 / np.mean(np.exp(-x)), rtol=1e-13)
    assert monopole_share(array(radius))[0] == 1
    np.testing.assert_allclose(monopole_mass(array(radius)), np.cosh(radius))
    # No variance is larger than the squared radius.
    for variance in (radius**2, 4 * radius**2):
        np.testing.assert_allclose(monopole_mass(array(radius), array(variance)), np.cosh(radius))


def test_monopole_mass_grows():
    """monopole_mass grows with radius and variance from 1 to cosh r, and monopole_share falls with the variance."""
    radius, variance = np.linspace(0, 3, 31)[:, None], np.linspace(0, 9, 91)[None]
    for function, sign in ((monopole_mass, 1), (monopole_share, -1)):
        table = sign * function(radius, np.minimum(variance, radius**2))
        assert np.all(np.diff(table, axis=1) >= -1e-12)
    fixed = array(*[0.5] * 10)
    assert np.all(np.diff(monopole_mass(np.linspace(0.8, 4, 10), fixed)) > 0)
    assert np.all(np.diff(monopole_share(np.linspace(0.8, 4, 10), fixed)) > 0)
    assert monopole_mass(array(0.0), array(0.0)) == monopole_share(array(0.0), array(0.0)) == 1
    assert np.all(monopole_mass(radius)[1:] < np.exp(radius**2 / 2)[1:])


def test_monopole_mass_needs_the_mean():
    """Differences from another point than the mean may have more mass than monopole_mass or monopole_share allows."""
    x = array(0.5, 0.5, 0.2)
    assert np.mean(np.exp(x)) > monopole_mass(array(0.5), array(np.mean(x**2)))[0]
    assert 1 / np.mean(np.exp(-x)) > monopole_share(array(0.5), array(np.mean(x**2)))[0]


def attention(scores, values):
    weights = np.exp(scores - np.max(scores))
    return weights @ values / np.sum(weights)


@pytest.mark.parametrize("radius", [1e-4, 0.1, 1.0])
def test_monopole_output_of_two_keys(radius):
    """For keys at +-r with values +-1 the error is tanh r and the bound sinh r."""
    error = attention(array(radius, -radius), array(1, -1))
    one = np.ones((1, 1))
    bound = monopole_output(0 * one, radius * one, one[0], 0 * one, 0 * one)[0]
    assert bound == pytest.approx(np.sinh(radius), rel=1e-12)
    assert error <= bound <= error * np.cosh(radius) * (1 + 1e-12)
    # A factor for the mass of the only cluster changes neither.
    for log_factor in (-3.0, 0.5, 2.0):
        same = multipole_output(0 * one, radius * one, one[0], 0 * one, 0 * one, log_factor=log_factor * one)[0]
        assert same >= bound * (1 - 1e-12)
        if log_factor > 0:
            assert same == pytest.approx(bound, rel=1e-12)


def test_monopole_output_needs_the_means():
    """One key in place of the mean of its cluster: the error exceeds the bound."""
    scores, values = array(0.0, 0.3, 0.3, 0.3), np.asarray([[0.0], [0.1], [0.1], [0.1]])
    exact = attention(np.concatenate([scores, [0.0]]), np.concatenate([values, [[5.0]]]))

    def bound(score, value):
        found = attention(array(score + np.log(4), 0.0), np.asarray([value, [5.0]]))
        weight = np.full((1, 1), score + np.log(4) - np.logaddexp(score + np.log(4), 0.0))
        radius, spread = np.full((1, 1), np.max(np.abs(scores - score))), array(np.std(values))
        variance = np.full((1, 1), np.mean((scores - np.mean(scores)) ** 2))
        limit = monopole_output(weight, radius, spread, value[None], found[None], variance)[0]
        return np.linalg.norm(found - exact), limit

    error, limit = bound(np.mean(scores), np.mean(values, axis=0))
    assert error <= limit
    error, limit = bound(scores[0], values[0])
    assert error > 2 * limit


def moments(size, order, dipole):
    """Error and arguments of the bound for one query, two clusters whose scores differ by about `size`, and one key."""
    rng = np.random.default_rng(1)
    x, values = size * rng.standard_normal((2, 7)), rng.standard_normal((2, 7, 3))
    x -= np.mean(x, axis=1, keepdims=True)
    centre, means = array(0.4, -0.2), np.mean(values, axis=1)
    values += 2 * (x / size)[..., None]
    means = np.mean(values, axis=1)
    variance = np.mean(x**2, axis=1)
    factor = {0: 0 * variance, 2: variance / 2}[order]
    exact = attention(
        np.concatenate([(centre[:, None] + x).ravel(), [1.0]]), np.concatenate([values.reshape(14, 3), np.ones((1, 3))])
    )
    shown = means + (np.mean(x[..., None] * values, axis=1) if dipole else 0)
    scores = np.concatenate([centre + factor + np.log(7), [1.0]])
    found = attention(scores, np.concatenate([shown, np.ones((1, 3))]))
    offsets = values - means[:, None]
    arguments = {
        "log_weights": (scores[:2] - np.log(np.sum(np.exp(scores))))[None],
        "radius": np.max(np.abs(x), axis=1)[None],
        "spread": np.sqrt(np.linalg.eigvalsh(offsets.swapaxes(1, 2) @ offsets / 7)[:, -1]),
        "centres": means,
        "out": found[None],
        "variance": variance[None],
        "least_variance": variance[None],
        "log_factor": factor[None],
        "dipole": dipole,
    }
    return np.linalg.norm(found - exact), arguments


@pytest.mark.parametrize(("order", "dipole", "power"), [(0, False, 1), (2, False, 1), (0, True, 2), (2, True, 2)])
def test_multipole_output_orders(order, dipole, power):
    """The error and multipole_output are of first order in the size, with dipoles of second order."""
    errors, bounds = [], []
    for size in (0.4, 0.1, 0.025):
        error, arguments = moments(size, order, dipole)
        errors.append(error)
        bounds.append(multipole_output(**arguments)[0])
        if not order and not dipole:
            plain = {k: v for k, v in arguments.items() if k not in ("least_variance", "log_factor", "dipole")}
            assert bounds[-1] == pytest.approx(monopole_output(**plain)[0], rel=1e-12)
        # Less is known: never a smaller bound.
        for name in ("variance", "least_variance"):
            assert multipole_output(**arguments | {name: None})[0] >= bounds[-1] * (1 - 1e-12)
        assert multipole_output(**arguments | {"radius": 1.2 * arguments["radius"]})[0] >= bounds[-1]
    assert np.all(np.asarray(errors) <= bounds)
    assert bounds[2] < 40 * errors[2]
    slope = np.log(bounds[1] / bounds[2]) / np.log(4)
    assert slope == pytest.approx(power, abs=0.2)


def test_multipole_output_needs_the_dipole():
    """If the dipole is declared but left out, the error exceeds the bound."""
    error, arguments = moments(0.02, 0, False)
    assert error <= multipole_output(**arguments)[0]
    assert error > multipole_output(**arguments | {"dipole": True})[0]


def test_multipole_output_with_too_large_factors():
    """The bound is inf as soon as the surplus of mass could be all of it."""
    _, arguments = moments(0.1, 0, False)
    arguments |= {"log_weights": np.full((1, 2), np.log(0.5)), "log_factor": np.full((1, 2), 40.0)}
    # The whole weight is the factor's: b/g is about e^-40.
    assert multipole_output(**arguments)[0] > 1e10
    assert multipole_output(**arguments | {"log_weights": np.full((1, 2), np.log(0.5001))})[0] == np.inf


def test_output_bounds_on_every_library(backend):
    """monopole_output and multipole_output take float64 and float32 and leading axes on every library."""
    arguments = moments(0.3, 2, True)[1]
    names = [name for name in arguments if name != "dipole"]
    lead = {name: np.stack([arguments[name]] * 2) for name in names}
    for dtype, rtol in ((np.float64, 1e-12), (np.float32, 3e-4)):
        given = {name: backend.array(lead[name].astype(dtype)) for name in names}
        found = multipole_output(**given, dipole=True)
        assert found.dtype == given["out"].dtype
        assert found.shape == (2, 1)
        np.testing.assert_allclose(backend.to_numpy(found), multipole_output(**arguments)[None].repeat(2, 0), rtol=rtol)
        given = [given[name] for name in ("log_weights", "radius", "spread", "centres", "out")]
        expected = monopole_output(*(arguments[name] for name in ("log_weights", "radius", "spread", "centres", "out")))
        np.testing.assert_allclose(backend.to_numpy(monopole_output(*given)), expected[None].repeat(2, 0), rtol=rtol)
        mass = monopole_mass(given[1], given[1] ** 2 / 3)
        np.testing.assert_allclose(
            backend.to_numpy(mass), monopole_mass(lead["radius"], lead["radius"] ** 2 / 3), rtol=rtol
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes(dtype):
    """Clusters met key by key and single points count nothing, overflow gives inf, and tiny weights are not lost."""
    one = np.ones((1, 1), dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dipole in (False, True):
            for factor in (None, 0 * one, 2000 * one):

                def bound(
                    log_weight, radius, spread=1.0, variance=None, dipole=dipole, factor=factor, dtype=dtype, one=one
                ):
                    weights, radii = np.full((1, 1), log_weight, dtype), np.full((1, 1), radius, dtype)
                    variance = None if variance is None else np.full((1, 1), variance, dtype)
                    known = {"variance": variance, "log_factor": factor, "dipole": dipole}
                    return multipole_output(weights, radii, spread * one[0], one, 0 * one, **known)[0]

                assert bound(-np.inf, 3.0) == bound(-np.inf, 3000.0) == 0
                assert not np.isnan(bound(0.0, 3000.0))
                assert not np.isnan(bound(-3.0, 3000.0, 0.0, 1.0))
                # Without extent of the values, and with them at o', nothing is wrong, however large the rest.
                none = multipole_output(0 * one, 3000 * one, 0 * one[0], 0 * one, 0 * one, dipole=dipole)
                assert none[0] == 0
                if factor is None or not factor.any():
                    assert bound(0.0, 0.0) == 0
                    assert bound(-10.0, 3000.0) == np.inf
                    # The weight alone is 0 in this precision.
                    assert bound(-1000.0, 1000.0) > 0.5
    empty = monopole_output(np.zeros((3, 0)), np.zeros((3, 0)), np.zeros(0), np.zeros((0, 2)), np.zeros((3, 2)))
    assert np.array_equal(empty, np.zeros(3))
    none = monopole_output(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(2), np.zeros((2, 2)), np.zeros((0, 2)))
    assert none.shape == (0,)


def test_rows_in_pieces(monkeypatch):
    """Distances do not depend on how many rows are formed at a time."""
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(shape) for shape in ((2, 7, 3), (2, 7, 3), (2, 3), (2, 3, 4), (2, 7, 4))]
    arguments[1:3] = (np.abs(x) for x in arguments[1:3])
    whole = monopole_output(*arguments)
    monkeypatch.setattr(cluster_remainders, "NUMBERS", 50)
    assert np.array_equal(monopole_output(*arguments), whole)


def test_multipole_output_of_opposite_dipoles():
    """Two clusters whose dipoles cancel only because of a wrong factor attain the bound to first order."""
    x, log_factor = 1e-5, np.asarray([[1.0, 0.0]])
    scores = np.asarray([-1 + x, -1 - x, x, -x])
    exact = attention(scores, np.asarray([[1.0], [-1.0], [-1.0], [1.0]]))
    error = np.linalg.norm(exact)
    zero, radius = np.zeros((2, 1)), np.full((1, 2), x)
    bound = multipole_output(
        np.log(np.full((1, 2), 0.5)), radius, np.ones(2), zero, zero[:1], log_factor=log_factor, dipole=True
    )[0]
    assert error <= bound <= error * (1 + 1e-4)
