"""The order of binary codes."""

import numpy as np
import pytest

from nlattn.cluster import gray_rank

rng = np.random.default_rng(0)


@pytest.mark.parametrize("bits", [1, 2, 3, 7, 12])
def test_gray_neighbours_differ_in_one_bit(backend, bits):
    codes = np.arange(2**bits)
    rank = backend.to_numpy(gray_rank(backend.array(codes)))
    by_rank = np.argsort(rank)
    assert np.array_equal(np.sort(rank), codes)
    assert np.all(np.bitwise_count(by_rank[1:] ^ by_rank[:-1]) == 1)
    # It inverts the map from ranks to codes.
    assert np.array_equal(rank ^ (rank >> 1), codes)


def test_forward_gray_map_is_no_rank():
    """With the map that other implementations take, consecutive buckets differ in several bits from three bits on."""
    for bits, jumps in ((2, 0), (3, 1), (7, 31)):
        codes = np.arange(2**bits)
        by_rank = np.argsort(codes ^ (codes >> 1))
        different = np.bitwise_count(by_rank[1:] ^ by_rank[:-1])
        assert np.sum(different > 1) == jumps


def test_gray_rank_of_long_codes():
    codes = rng.integers(0, 2**62, 100)
    rank = gray_rank(codes)
    assert np.array_equal(rank ^ (rank >> 1), codes)
    assert gray_rank(codes.astype(np.uint8)).dtype == np.uint8
    with pytest.raises(TypeError, match="codes must be integers, got float64"):
        gray_rank(codes * 1.0)
