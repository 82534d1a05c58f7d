"""The matrices of linear sketches against their definitions."""

import numpy as np
import pytest
from scipy import linalg

from nlattn.sketch import (
    count_sketch,
    gaussian_sketch,
    sketch_operator,
    sparse_sign_sketch,
    srht_sketch,
)

KINDS = ["gaussian", "sparse_sign", "count", "balanced_count", "srht"]


ONE = np.zeros(1)


def test_sparse_sign_has_its_nonzeros():
    for m, nonzeros in [(1, 1), (5, 5), (20, 3), (64, 8)]:
        S = sparse_sign_sketch(m, 500, nonzeros, rng=0).matrix(ONE)
        assert np.all(np.sum(S != 0, axis=0) == nonzeros)
        np.testing.assert_allclose(np.abs(S[S != 0]), nonzeros**-0.5)
        # All rows and both signs alike.
        mean = 500 * nonzeros / m
        assert np.all(np.abs(np.sum(S != 0, axis=1) - mean) < 6 * np.sqrt(mean))
        assert abs(np.sum(np.sign(S))) < 5 * np.sqrt(500 * nonzeros)
    assert np.all(np.sum(sparse_sign_sketch(3, 50, rng=0).matrix(ONE) != 0, axis=0) == 3)
    assert np.all(np.sum(sparse_sign_sketch(30, 50, rng=0).matrix(ONE) != 0, axis=0) == 8)


def test_count_sketch_has_one_sign_in_each_column():
    S = count_sketch(7, 400, rng=0).matrix(ONE)
    assert np.all(np.sum(np.abs(S), axis=0) == 1)
    assert np.all(np.isin(S, [-1.0, 0.0, 1.0]))


@pytest.mark.parametrize(("m", "n"), [(7, 40), (7, 42), (50, 42), (1, 5)])
def test_balanced_count_sketch_is_balanced(m, n):
    S = count_sketch(m, n, balanced=True, rng=0).matrix(ONE)
    assert np.all(np.sum(np.abs(S), axis=0) == 1)
    assert np.max(np.sum(np.abs(S), axis=1)) <= -(-n // m)


@pytest.mark.parametrize(("m", "n"), [(3, 5), (8, 8), (20, 32), (1, 1)])
def test_srht_is_made_of_hadamard_rows(m, n):
    padded = 1 << (n - 1).bit_length()
    S = np.sqrt(m) * srht_sketch(m, n, rng=0).matrix(ONE)
    signs = np.sign(S[0]) * 1.0
    H = linalg.hadamard(padded)[:, :n]
    rows = {tuple(row) for row in S * S[0]}  # the signs D cancel, a row of H is left to compare with
    assert rows <= {tuple(a * b) for a in H for b in H}
    assert len(rows) == m
    assert np.all(np.abs(S) == 1)
    assert signs.shape == (n,)
    if m == padded:
        np.testing.assert_allclose(S.T @ S / m, np.eye(n), atol=1e-12)


def test_gaussian_scale():
    S = gaussian_sketch(100, 400, rng=0).matrix(ONE)
    np.testing.assert_allclose(np.mean(S**2), 1 / 100, rtol=0.03)


@pytest.mark.parametrize("kind", KINDS)
def test_seeds(kind):
    first, again, other = (sketch_operator(kind, 5, 30, rng=seed).matrix(ONE) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    generator = np.random.default_rng(3)
    assert np.array_equal(sketch_operator(kind, 5, 30, rng=generator).matrix(ONE), first)
    assert not np.array_equal(sketch_operator(kind, 5, 30, rng=generator).matrix(ONE), first)
    seed = np.random.SeedSequence(3)
    assert np.array_equal(sketch_operator(kind, 5, 30, rng=seed).matrix(ONE), first)
