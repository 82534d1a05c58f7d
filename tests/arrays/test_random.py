"""The argument `rng`, independent streams, and draws for every array library."""

import numpy as np
import pytest

from nlattn.arrays.random import (
    children,
    generator,
    moved,
    private,
    random_signs,
    stacked_draws,
    standard_normal,
    weighted_draws,
)
from nlattn.testing import assert_close, assert_same_kind, to_numpy


@pytest.mark.parametrize("rng", [3, np.int64(3), np.random.SeedSequence(3)])
def test_what_seeds_a_generator(rng):
    expected = np.random.default_rng(3).random(4)
    for _ in range(2):  # neither a seed nor a sequence is used up
        assert np.array_equal(generator(rng).random(4), expected)


def test_a_generator_advances():
    rng = np.random.default_rng(3)
    assert generator(rng) is rng
    assert not np.array_equal(generator(None).random(2), generator(None).random(2))


@pytest.mark.parametrize("rng", [1.5, True, "0", np.random.RandomState(0), [1, 2]])
def test_what_is_no_rng(rng):
    with pytest.raises(TypeError, match="rng must be None, an integer, a SeedSequence or a Generator, got"):
        generator(rng)
    with pytest.raises(TypeError, match="rng must be None, an integer, a SeedSequence or a Generator, got"):
        private(rng, 1)


def test_negative_seeds():
    with pytest.raises(ValueError, match="rng must not be negative, got -1"):
        generator(-1)


@pytest.mark.parametrize("make", [lambda: 5, lambda: np.random.SeedSequence(5), lambda: np.random.default_rng(5)])
def test_private_draws_are_no_others(make):
    key = 1 << 40
    own = private(make(), key).random(3)
    assert np.array_equal(own, private(make(), key).random(3))
    others = [child.random(3) for child in children(make(), 20)] + [generator(make()).random(3)]
    assert not any(np.array_equal(own, other) for other in others)


def test_stacked_draws(backend):
    like = backend.array(np.zeros(1, np.float32))
    found = stacked_draws(children(0, 3), np.random.Generator.random, (2, 4), like)
    expected = np.stack([child.random((2, 4)) for child in children(0, 3)])
    assert_close(found, expected, rtol=0, like=backend.array(expected))
    single = stacked_draws(children(0, 3), np.random.Generator.random, (2, 4), like, like.dtype)
    assert_close(single, expected.astype(np.float32), rtol=0, like=like)
    whole = stacked_draws(children(0, 2), lambda rng, shape: rng.integers(0, 9, shape), (5,), like)
    assert to_numpy(whole).dtype == np.int64
    assert tuple(stacked_draws([], np.random.Generator.random, (2, 4), like).shape) == (0, 2, 4)


def test_streams_are_drawn_from_in_turn():
    """Draws of one generator follow each other, whatever is drawn from the others in between."""
    streams = children(0, 2)
    first, second = (stacked_draws(streams, np.random.Generator.random, (n,), np.zeros(1)) for n in (3, 2))
    for row, child in enumerate(children(0, 2)):
        assert np.array_equal(first[row], child.random(3))
        assert np.array_equal(second[row], child.random(2))


def test_moved_arrays(backend):
    like = backend.array(np.zeros(1))
    for host in (np.arange(6.0).reshape(2, 3)[:, ::-1], np.broadcast_to(1, (2, 3))):
        assert np.array_equal(to_numpy(moved(host, like)), host)
    assert_same_kind(moved(np.ones(2, np.float32), like, like.dtype), like)


def test_complex_normal_draws():
    draws = standard_normal(np.random.default_rng(0), (20_000,), np.zeros(0, complex))
    np.testing.assert_allclose(np.mean(np.abs(draws) ** 2), 1, rtol=0.03)
    np.testing.assert_allclose(np.mean(draws**2), 0, atol=0.03)


def test_signs():
    signs = random_signs(np.random.default_rng(0), (100, 50))
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean()) < 5 / np.sqrt(signs.size)


def test_weighted_draws(backend):
    weights = np.asarray([0.0, 1, 0, 3, 6, 0])
    found = to_numpy(weighted_draws(np.random.default_rng(0), backend.array(weights), 4000))
    counts = np.bincount(found, minlength=6)
    assert np.all(counts[weights == 0] == 0)
    expected = 400 * weights
    assert np.all(np.abs(counts - expected) <= 5 * np.sqrt(expected))
