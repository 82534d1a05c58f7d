"""Sorted queries and keys in blocks, and which block of keys each block of queries meets."""

import numpy as np
import pytest
from hashed_pairs import paired
from problems import problem_of

from nlattn.select.block_pairs import code_bounds, pair_blocks
from nlattn.select.usable_keys import valid_keys
from nlattn.testing import to_numpy


@pytest.mark.parametrize("by", ["codes", "rank"])
@pytest.mark.parametrize("look_back", [False, True])
@pytest.mark.parametrize(("length", "s", "size"), [(20, 20, 6), (9, 31, 4), (31, 9, 4), (1, 20, 5), (20, 7, 10)])
def test_pairs_of_blocks(backend, by, look_back, length, s, size):
    rng = np.random.default_rng(length + s)
    mask = rng.random((2, 4, 1, s)) < 0.7
    mask[1, 3] = False  # a head without keys
    problem = problem_of(backend.array, length, s, heads=4, batch=2, mask=mask)
    keys = valid_keys(problem)
    row_codes, key_codes = rng.integers(0, 5, (2, 4, length)), rng.integers(0, 6, (2, 4, s))
    pairing = pair_blocks(backend.array(row_codes, "int64"), backend.array(key_codes, "int64"), keys, size, by=by)
    begin, end = (to_numpy(x) for x in pairing.ranges(look_back=look_back))
    rows, order = to_numpy(pairing.rows), to_numpy(pairing.keys)
    met = np.zeros((2, 4, length, s), dtype=int)
    for b, h, place in np.ndindex(2, 4, length):
        for w in range(begin.shape[3]):
            t = place // pairing.step
            met[b, h, rows[b, h, place], order[b, h, begin[b, h, t, w] : end[b, h, t, w]]] += 1
    ours, theirs = (np.stack([to_numpy(x) for x in codes], axis=-1) for codes in pairing.met(look_back=look_back))
    equal = np.any(ours[:, :, :, None, :] == theirs[:, :, None, :, :], axis=-1) & mask
    for b, h in np.ndindex(2, 4):
        wanted = paired(
            row_codes[b, h], [c if m else None for c, m in zip(key_codes[b, h], mask[b, h, 0], strict=True)],
            size, look_back, by,
        )  # fmt: skip
        np.testing.assert_array_equal(met[b, h], wanted)
        np.testing.assert_array_equal(equal[b, h], wanted)


def test_equal_tokens_meet_their_own_block():
    codes = np.random.default_rng(0).integers(0, 3, (1, 2, 50))
    problem = problem_of(np.asarray, 50, 50)
    pairing = pair_blocks(codes, codes, valid_keys(problem), 8)
    np.testing.assert_array_equal(pairing.block[0], np.tile(np.arange(7), (2, 1)))


@pytest.mark.parametrize("bits", [3, 40, 58, 60, 62])
def test_places_of_codes(backend, bits):
    """Of few bits, and of as many as leave none to tell 16 heads apart."""
    rng = np.random.default_rng(0)
    codes, wanted = np.sort(rng.integers(0, 2**bits, (2, 8, 50))), rng.integers(0, 2**bits, (2, 16, 7))
    wanted[..., :3] = np.repeat(codes, 2, axis=1)[..., [0, 20, 49]]
    low, high = code_bounds(backend.array(codes, "int64"), backend.array(wanted, "int64"))
    for b, h in np.ndindex(2, 16):
        np.testing.assert_array_equal(to_numpy(low)[b, h], np.searchsorted(codes[b, h // 2], wanted[b, h]))
        np.testing.assert_array_equal(to_numpy(high)[b, h], np.searchsorted(codes[b, h // 2], wanted[b, h], "right"))
