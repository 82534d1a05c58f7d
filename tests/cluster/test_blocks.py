"""Blocks of sorted points."""

import itertools

import numpy as np
import pytest

from nlattn.cluster import (
    sort_into_blocks,
)

rng = np.random.default_rng(0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("n", [0, 1, 64, 101])
def test_sort_into_blocks(backend, n, masked):
    for size, kind in itertools.product((1, 4, 64, 200), ("int64", "int8", "float32", "high", "low")):
        codes = rng.integers(-5, 6, (2, n))
        # "high" and "low" go beyond 16 bits on one side only.
        codes = {"high": np.abs, "low": lambda c: -np.abs(c)}[kind](codes) * 2**40 if kind in ("high", "low") else codes
        codes = codes.astype("int64" if kind in ("high", "low") else kind)
        valid = rng.random((2, n)) < 0.6
        index, used, inverse = (
            backend.to_numpy(p)
            for p in sort_into_blocks(backend.array(codes), size, valid=backend.array(valid) if masked else None)
        )
        blocks = -(-n // size)
        assert index.shape == used.shape == (2, blocks, size)
        assert inverse.shape == (2, n)
        for b in range(2):
            keep = valid[b] if masked else np.ones(n, bool)
            points = np.arange(n)
            order = np.lexsort((points, codes[b], ~keep))
            assert np.array_equal(used[b].ravel(), np.arange(blocks * size) < keep.sum())
            assert np.array_equal(index[b].ravel()[:n], order)
            assert np.array_equal(index[b].ravel()[inverse[b]], points)
            assert np.all((index[b] >= 0) & (index[b] < n))


def test_bad_blocks():
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        sort_into_blocks(np.arange(3), 0)
    with pytest.raises(ValueError, match="codes must have at least one axis"):
        sort_into_blocks(np.asarray(3), 1)
    with pytest.raises(TypeError, match="valid must be boolean, got int64"):
        sort_into_blocks(np.arange(3), 1, valid=np.arange(3))
    with pytest.raises(TypeError, match="codes must be integers or real numbers, got complex128"):
        sort_into_blocks(np.arange(3) + 0j, 1)
    with pytest.raises(
        ValueError, match=r"valid must have a shape that broadcasts to \(3,\), that of codes, got \(2,\)"
    ):
        sort_into_blocks(np.arange(3), 1, valid=np.ones(2, bool))
