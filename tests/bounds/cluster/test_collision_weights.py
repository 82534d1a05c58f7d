"""Sums over colliding keys, over all hyperplanes of the plane."""

import numpy as np
import pytest

from nlattn.bounds import collision_count_variance, collision_union_variance
from nlattn.cluster import hyperplane_codes

QUERY = np.asarray([1.0, 0.2])
KEY = np.asarray([[2.0, 1.0], [0.3, -0.1], [-0.5, 1.0], [0.4, 0.2]])
TERMS = np.random.default_rng(0).standard_normal((4, 2))


def directions(count):
    t = (np.arange(count) + 0.5) * (2 * np.pi / count)
    return np.stack([np.cos(t), np.sin(t)], axis=-1)


def meetings(normals):
    """Which keys have the code of the query (..., S), for normals (..., bits, 2)."""
    codes = hyperplane_codes(np.concatenate([QUERY[None], KEY]), normals)
    return codes[..., 1:] == codes[..., :1]


def chances(bits):
    cosine = KEY @ QUERY / np.linalg.norm(KEY, axis=1) / np.linalg.norm(QUERY)
    return (1 - np.arccos(cosine) / np.pi) ** bits


def square(weights):
    return np.mean(np.sum(((weights - 1) @ TERMS) ** 2, axis=-1))


def test_all_directions_of_the_plane():
    """collision_count_variance and collision_union_variance for one and two bits and rounds."""
    one = meetings(directions(20_000)[:, None])
    few = directions(300)
    pairs = np.stack(np.broadcast_arrays(few[:, None], few), axis=-2)
    two = meetings(pairs)
    for bits, hits in ((1, one), (2, two.reshape(-1, 4))):
        p = chances(bits)
        assert np.mean(hits / p @ TERMS, axis=0) == pytest.approx(np.sum(TERMS, axis=0), abs=0.06)
        expected = collision_count_variance(QUERY, KEY, TERMS, bits, 1)
        assert square(hits / p) == pytest.approx(expected, rel=0.03 if bits == 2 else 2e-3)
    hits = meetings(few[:, None])
    rounds, p = hits[:, None].astype(int) + hits, chances(1)
    assert square(rounds / (2 * p)) == pytest.approx(collision_count_variance(QUERY, KEY, TERMS, 1, 2), rel=0.03)
    union = 1 - (1 - p) ** 2
    expected = collision_union_variance(QUERY, KEY, TERMS, 1, 2)
    assert square((rounds > 0) / union) == pytest.approx(expected, rel=0.03)


def test_one_round_is_one_round():
    """For one round both formulas agree; for many rounds collision_union_variance tends to 0."""
    for bits in (1, 3):
        one = collision_count_variance(QUERY, KEY, TERMS, bits, 1)
        assert collision_union_variance(QUERY, KEY, TERMS, bits, 1) == pytest.approx(one, rel=1e-12)
        assert collision_union_variance(QUERY, KEY, TERMS, bits, 9) < collision_count_variance(
            QUERY, KEY, TERMS, bits, 9
        )
    assert collision_union_variance(QUERY, KEY, TERMS, 1, 1000) == pytest.approx(0, abs=1e-9)


def test_collision_count_variance_of_one_key():
    p = chances(3)
    for j in range(4):
        variance = collision_count_variance(QUERY, KEY[j : j + 1], np.asarray([[2.0]]), 3, 5)
        assert variance == pytest.approx(4 * (1 - p[j]) / (5 * p[j]), rel=1e-12)
    # A key in the direction of the query always meets it; two equal keys count as one of twice the weight.
    assert collision_count_variance(QUERY, 3 * QUERY[None], np.ones((1, 1)), 4, 2) == pytest.approx(0, abs=1e-7)
    twice = collision_count_variance(QUERY, KEY[[2, 2]], np.ones((2, 1)), 2, 3)
    assert twice == pytest.approx(collision_count_variance(QUERY, KEY[2:3], np.full((1, 1), 2.0), 2, 3), rel=1e-12)


def test_collision_count_variance_needs_independent_normals():
    """Orthogonal pairs of normals meet with other probabilities, so that the sum is biased."""
    first = directions(20_000)
    turned = np.stack([-first[:, 1], first[:, 0]], axis=-1)
    hits = meetings(np.stack([first, turned], axis=1))
    assert abs(square(hits / chances(2)) / collision_count_variance(QUERY, KEY, TERMS, 2, 1) - 1) > 0.1


def test_refuses_no_rounds():
    for function in (collision_count_variance, collision_union_variance):
        with pytest.raises(ValueError, match=r"\Arounds must "):
            function(QUERY, KEY, TERMS, 2, 0)
        with pytest.raises(ValueError, match=r"\Abits must "):
            function(QUERY, KEY, TERMS, 0, 2)
