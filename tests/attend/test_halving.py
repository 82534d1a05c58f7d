"""Causal attention by recursive halving, with exact attention between the halves."""

import numpy as np
import pytest
from problems import problem_of

from nlattn.attend.halving import attend_to_halves, prepare_halves
from nlattn.attend.intervals import interval_attention
from nlattn.testing import dense_attention, to_numpy


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
