"""Blocks of sorted queries and keys, samples of places, and causal attention by halving."""

import numpy as np
import pytest
import scipy.stats
from hashed_pairs import paired

from nlattn.attend.halving import attend_to_halves, prepare_halves
from nlattn.attend.intervals import interval_attention
from nlattn.attend.newest_key import newest_key
from nlattn.problem.arguments import checked_problem
from nlattn.select.block_pairs import code_bounds, pair_blocks
from nlattn.select.sampled_keys import sample_places
from nlattn.select.usable_keys import valid_keys
from nlattn.testing import dense_attention, to_numpy


def problem_of(xp_array, length, s, *, heads=2, heads_kv=2, batch=1, mask=None, is_causal=False, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (batch, heads, length, 6), (batch, heads_kv, s, 6), (batch, heads_kv, s, 3)
    arrays = [xp_array(rng.standard_normal(shape)) for shape in shapes]
    return checked_problem("test", *arrays, attn_mask=None if mask is None else xp_array(mask), is_causal=is_causal)


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


@pytest.mark.parametrize("weighted", [False, True])
def test_sampled_places(backend, weighted):
    rng = np.random.default_rng(1)
    count = np.asarray([[7, 3, 0]])
    weights = rng.random((1, 3, 7)) + 0.1 if weighted else np.ones((1, 3, 7))
    m = 20000
    place, log_weight = (
        to_numpy(x)
        for x in sample_places(
            backend.array(rng.random((1, 3, m))),
            backend.array(count, "int64"),
            backend.array(weights) if weighted else None,
        )
    )
    for k in range(2):
        p = weights[0, k, : count[0, k]] / weights[0, k, : count[0, k]].sum()
        np.testing.assert_allclose(np.exp(log_weight[0, k]) * m * p[place[0, k]], 1, rtol=1e-12)
        counts = np.bincount(place[0, k], minlength=len(p))
        assert scipy.stats.chisquare(counts, m * p).pvalue > 1e-4


def test_newest_key():
    mask = np.asarray([True, False, False, True, False])
    problem = problem_of(np.asarray, 7, 5, mask=mask, is_causal=True)
    newest = newest_key(problem, valid_keys(problem), problem.stop)
    assert newest.exists[0, 0].tolist() == [False, False, True, True, True, True, True]
    assert newest.position[0, 0, 2:].tolist() == [0, 0, 0, 3, 3]


@pytest.mark.parametrize(("length", "s", "most"), [(64, 64, 8), (50, 50, 7), (9, 70, 8), (33, 70, 5),
        (37, 70, 5), (70, 33, 4),
                                                   (1, 70, 6), (20, 20, 30), (65, 64, 1)])  # fmt: skip
@pytest.mark.parametrize("masked", [None, "keys", "heads"])
def test_halves_of_exact_attention_are_exact(backend, length, s, most, masked):
    rng = np.random.default_rng(0)
    mask = {None: None, "keys": rng.random((1, s)) < 0.7, "heads": rng.random((2, 4, 1, s)) < 0.7}[masked]
    problem = problem_of(backend.array, length, s, heads=4, batch=2, mask=mask, is_causal=True)
    sizes = []

    def prepare(some):
        assert not some.is_causal
        return some.query.shape

    def part(shape, some):
        assert some.query.shape == shape
        sizes.append((some.query.shape[0], some.query.shape[2], some.key.shape[2]))
        assert some.key.shape[2] >= min(most / 2, 1)
        return interval_attention(some)

    got = attend_to_halves(problem, prepare_halves(problem, most, prepare), part)
    wanted = dense_attention(*(to_numpy(x) for x in (problem.query, problem.key, problem.value)), mask, is_causal=True)
    np.testing.assert_allclose(to_numpy(got.out), wanted.out, atol=1e-13)
    np.testing.assert_allclose(to_numpy(got.lse), wanted.lse, atol=1e-13)
    # A few calls a level, not one a block.
    assert len(sizes) <= 3 * max(1, np.ceil(np.log2(max(2, s / most)) + 1))
