"""Rows taken, repeated and scaled, and the guards against empty sums."""

import numpy as np
import pytest

from nlattn.arrays.guards import exp_weights, finite_or_zero, log_mass, nonzero
from nlattn.arrays.rows import repeat_heads, take_for_heads, take_rows, unit_rows
from nlattn.testing import assert_close, assert_same_kind, to_numpy

rng = np.random.default_rng(0)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_take_rows(backend, lead):
    x, index = rng.standard_normal((*lead, 7, 4)), rng.integers(0, 7, (*lead, 5))
    found = take_rows(backend.array(x), backend.array(index))
    assert_close(found, np.take_along_axis(x, index[..., None], axis=-2), rtol=0, like=backend.array(x))


@pytest.mark.parametrize("rest", [(), (4,), (2, 3)])
def test_take_for_heads(backend, rest):
    array, index = rng.standard_normal((2, 3, 7, *rest)), rng.integers(0, 7, (2, 6, 5))
    found = to_numpy(take_for_heads(backend.array(array), backend.array(index)))
    for b, h in np.ndindex(2, 6):
        assert np.array_equal(found[b, h], array[b, h // 2][index[b, h]])


def test_repeat_heads(backend):
    array = rng.standard_normal((2, 3, 4))
    assert_close(repeat_heads(backend.array(array), 6), np.repeat(array, 2, axis=1), rtol=0, like=backend.array(array))
    same = backend.array(array)
    assert repeat_heads(same, 3) is same


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_unit_rows(backend, dtype):
    """Also where squares of the entries leave the floating range; rows of zeros stay."""
    x = rng.standard_normal((2, 5, 3)) * np.asarray([1, 1e-30, 1e30, 0, 1])[:, None]
    unit, zero = unit_rows(backend.array(x, dtype))
    assert_same_kind(unit, backend.array(x, dtype))
    lengths = np.linalg.norm(to_numpy(unit).astype(float), axis=-1)
    np.testing.assert_allclose(lengths, np.broadcast_to([1, 1, 1, 0, 1], (2, 5)), rtol=1e-6)
    assert np.array_equal(to_numpy(zero), np.broadcast_to([False, False, False, True, False], (2, 5)))
    assert tuple(unit_rows(backend.array(np.zeros((4, 0)), dtype))[0].shape) == (4, 0)


def test_divisors_and_shifts(backend):
    x = backend.array(np.asarray([0.0, -2.0, np.inf, -np.inf]))
    assert np.array_equal(to_numpy(nonzero(x)), [1, -2, np.inf, -np.inf])
    assert np.array_equal(to_numpy(finite_or_zero(x)), [0, -2, np.inf, 0])


def test_empty_rows_have_no_mass(backend):
    scores = backend.array(np.asarray([[1.0, 2.0, -np.inf], [-np.inf] * 3]))
    weights, shift = exp_weights(scores)
    lse = to_numpy(log_mass(shift[:, 0], backend.array(to_numpy(weights).sum(axis=-1))))
    np.testing.assert_allclose(lse, [np.logaddexp(1, 2), -np.inf])
    assert not to_numpy(weights)[1].any()


def test_gradients_of_empty_rows_are_zero():
    torch = pytest.importorskip("torch")
    scores = torch.tensor([[1.0, 2.0], [-torch.inf, -torch.inf]], requires_grad=True)
    weights, shift = exp_weights(scores)
    lse = log_mass(shift[:, 0], weights.sum(dim=-1))
    torch.where(torch.isfinite(lse), lse, 0.0).sum().backward()
    assert torch.equal(scores.grad[1], torch.zeros(2))
    torch.testing.assert_close(scores.grad[0], torch.softmax(scores[0].detach(), 0))
