"""Partials with signed weights, against dense formulas."""

import numpy as np
import pytest

import nlattn
from nlattn import Partial, SignedPartial, merge_partials
from nlattn.problem.partials import normalised
from nlattn.testing import to_numpy

ROWS, KEYS = 20, 30


def scores_and_values(seed=0):
    rng = np.random.default_rng(seed)
    return 3 * rng.standard_normal((2, ROWS, KEYS)), rng.standard_normal((2, KEYS, 4))


def part(backend, scores, values, keys):
    """The partial over some keys, from its definition."""
    s = scores[:, :, keys]
    weights = np.exp(s)
    total = weights.sum(-1)
    with np.errstate(divide="ignore"):
        lse = np.log(total)
    out = weights @ values[:, keys] / np.where(total > 0, total, 1)[..., None]
    return Partial(backend.array(out), backend.array(lse))


def test_overlap_is_subtracted(backend):
    """Two parts that share keys, less what they share, are softmax attention over the union."""
    scores, values = scores_and_values()
    left, right = part(backend, scores, values, slice(0, 20)), part(backend, scores, values, slice(12, KEYS))
    overlap = part(backend, scores, values, slice(12, 20)).signed().negative()
    merged = merge_partials(left, right, overlap)
    assert isinstance(merged, SignedPartial)
    weights = np.exp(scores)
    wanted = weights @ values / weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(to_numpy(normalised(merged)), wanted, rtol=1e-10)
    np.testing.assert_allclose(to_numpy(merged.den) * np.exp(to_numpy(merged.shift)), weights.sum(-1), rtol=1e-10)


def test_weights_of_any_sign(backend):
    """num / den of a matrix of signed weights, split by keys, and beside a partial with exact softmax mass."""
    scores, values = scores_and_values(1)
    rng = np.random.default_rng(2)
    signs = rng.standard_normal((2, ROWS, KEYS)) + 1.5
    pieces = []
    for keys in (slice(0, 7), slice(7, 25)):
        shift = rng.standard_normal((2, ROWS)) * 50
        weights = signs[:, :, keys] * np.exp(scores[:, :, keys] - shift[..., None])
        arrays = weights @ values[:, keys], weights.sum(-1), shift
        pieces.append(SignedPartial(*map(backend.array, arrays)))
    merged = merge_partials(*pieces, part(backend, scores, values, slice(25, KEYS)))
    signs[:, :, 25:] = 1
    weights = signs * np.exp(scores)
    wanted = weights @ values / weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(to_numpy(merged.normalised()), wanted, rtol=1e-9)


def test_shifts_far_apart(backend):
    scores, values = scores_and_values(3)
    left, right = (part(backend, scores, values, keys) for keys in (slice(0, 9), slice(9, KEYS)))
    for shift in (2000.0, -2000.0):
        moved = right.signed()._replace(shift=right.lse + shift)
        merged = normalised(merge_partials(left, moved))
        np.testing.assert_allclose(to_numpy(merged), to_numpy((right if shift > 0 else left).out), rtol=1e-12)


def test_what_is_empty_gives_zero(backend):
    scores, values = scores_and_values(4)
    scores[:, 3] = -np.inf
    empty = part(backend, scores, values, slice(0, KEYS)).signed()
    assert np.all(to_numpy(empty.normalised())[:, 3] == 0)
    merged = merge_partials(empty, empty.negative())
    assert np.all(to_numpy(merged.normalised())[:, 3] == 0)
    assert np.all(to_numpy(merge_partials(empty, part(backend, scores, values, slice(0, 5))).normalised())[:, 3] == 0)


def test_cancelled_weights_are_not_hidden():
    """Weights of sum 0 over different values have no mean: the result is not finite, rather than a wrong number."""
    one = np.ones((1, 1))
    parts = [SignedPartial(one[..., None] * value, one * sign, 0 * one) for value, sign in ((1.0, 1.0), (3.0, -1.0))]
    with np.errstate(divide="ignore"):
        assert np.isinf(merge_partials(*parts).normalised()[0, 0])


def test_gradients_are_those_of_the_quotient():
    torch = pytest.importorskip("torch")
    scores, values = map(torch.tensor, scores_and_values(5))

    def merged(scores, values):
        weights = torch.exp(scores)
        few = Partial(weights[..., :9] @ values[:, :9] / weights[..., :9].sum(-1, keepdim=True),
                      torch.log(weights[..., :9].sum(-1)))  # fmt: skip
        rest = SignedPartial(weights[..., 9:] @ values[:, 9:], weights[..., 9:].sum(-1), 0 * scores[..., 0])
        return normalised(merge_partials(few, rest))

    inputs = [scores[:, :3].clone().requires_grad_(), values.clone().requires_grad_()]
    assert torch.autograd.gradcheck(merged, inputs, fast_mode=True)


def test_methods_without_softmax_mass_return_no_partial():
    q, k, v = nlattn.datasets.load("minilm")[:3]
    for method in (nlattn.METHODS["nystrom"].method(), nlattn.METHODS["routing"].method(variant="paper")):
        with pytest.raises(NotImplementedError, match="no log-sum-exp"):
            nlattn.run(method, q, k, v, return_lse=True)
