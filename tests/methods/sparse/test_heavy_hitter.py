"""heavy_hitter_attention against dense attention over index sets that are built here."""

import itertools

import numpy as np
import pytest

import nlattn
from nlattn.testing import dense_attention


def draw(length, s, seed=0, heads_kv=2):
    rng = np.random.default_rng(seed)
    return 2 * rng.standard_normal((4, length, 8)), *(rng.standard_normal((heads_kv, s, d)) for d in (8, 5))


def near(length, s, window, is_causal):
    distance = np.arange(s) - (np.arange(length)[:, None] + s - length)
    return (np.abs(distance) < window) & ((distance <= 0) | (not is_causal))


def softmax(q, k, v, mask=None, is_causal=False):
    eye = np.broadcast_to(np.eye(k.shape[-2]), (*k.shape[:-1], k.shape[-2]))
    return dense_attention(q, k, eye, mask, is_causal=is_causal).out


def index_sets(q, k, v, heavy, window, *, is_causal, plain=False, mask=None):
    length, s = q.shape[-2], k.shape[-2]
    local = near(length, s, window, is_causal)
    mass = softmax(q, k, v, mask, is_causal)
    sums = np.where(local & (not plain), 0, mass).sum(-2)
    if mask is not None:
        sums = np.where(np.broadcast_to(mask, (4, 1, s))[:, 0], sums, -np.inf)
    largest = np.argsort(-sums, axis=-1, kind="stable")[:, :heavy]
    chosen = np.zeros((4, 1, s), bool)
    np.put_along_axis(chosen, largest[:, None], True, axis=-1)
    return (chosen | local) & (True if mask is None else mask)


@pytest.mark.parametrize("variant", ["nlattn", "paper"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    ("length", "s", "heavy", "window"), [(60, 60, 5, 7), (60, 60, 1, 1), (20, 90, 9, 12), (90, 40, 6, 3)]
)
def test_is_masked_attention(variant, is_causal, length, s, heavy, window):
    q, k, v = draw(length, s)
    sets = index_sets(q, k, v, heavy, window, is_causal=is_causal, plain=variant == "paper")
    wanted = dense_attention(q, k, v, sets, is_causal=is_causal)
    blind = wanted.lse == -np.inf
    out, lse = nlattn.heavy_hitter_attention(
        q, k, v, heavy, window, rows=length, variant=variant, is_causal=is_causal, return_lse=True
    )
    np.testing.assert_allclose(out[~blind], wanted.out[~blind], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(lse[~blind], wanted.lse[~blind], rtol=1e-10, atol=1e-12)


def test_the_choice_holds_the_most_mass():
    """Over all sets of 3 keys of 10, the mass of window and set, summed over rows."""
    q, k, v = draw(10, 10, heads_kv=4)
    q, k, v = q[:1], k[:1], v[:1]
    mass, local = softmax(q, k, v, None, True)[0], near(10, 10, 2, True)
    best = max(mass[local | np.isin(np.arange(10), c)].sum() for c in itertools.combinations(range(10), 3))
    part = nlattn.heavy_hitter_attention(q, k, v, 3, 2, is_causal=True, return_lse=True)
    exact = nlattn.exact_attention(q, k, v, is_causal=True, return_lse=True)
    np.testing.assert_allclose(np.exp(part.lse - exact.lse).sum(), best, rtol=1e-12)


def test_sums_over_sampled_rows_are_unbiased():
    from nlattn.problem.arguments import checked_problem
    from nlattn.select.column_sums import column_sums

    q, k, v = draw(40, 30)
    wanted = softmax(q, k, v).sum(-2)
    problem = checked_problem("x", q, k, v)
    trials = 400
    sums = []
    for seed in range(trials):
        index = np.stack([np.random.default_rng((seed, h)).choice(40, 8, replace=False) for h in range(4)])[None]
        sums.append(40 / 8 * column_sums(problem.rows(index), None)[0])
    mean, error = np.mean(sums, axis=0), np.std(sums, axis=0) / np.sqrt(trials)
    assert np.abs(mean - wanted).max() < 5 * error.max()
    assert np.all(np.abs(mean - wanted) < 5.5 * error)


def test_masks_of_heads_and_blind_windows():
    """A row whose window and heavy keys are hidden attends to the newest key that it may see."""
    q, k, v = draw(40, 40)
    mask = np.zeros((4, 1, 40), bool)
    mask[0, 0, 30:] = mask[1, 0, [2, 8]] = mask[2, 0, ::3] = True
    q[1, 12:] = 9 * (k[0, 8] - k[0, 2])  # so that key 8 is the heavy one, and rows 6 and 7 have met nothing
    sets = index_sets(q, k, v, 1, 4, is_causal=True, mask=mask)
    wanted = dense_attention(q, k, v, sets, is_causal=True)
    out, lse = nlattn.heavy_hitter_attention(q, k, v, 1, 4, attn_mask=mask, is_causal=True, return_lse=True)
    met = wanted.lse > -np.inf
    np.testing.assert_allclose(out[met], wanted.out[met], rtol=1e-10, atol=1e-12)
    may = mask & (np.arange(40) <= np.arange(40)[:, None])
    lost = ~met & may.any(-1)
    assert np.argwhere(lost).tolist() == [[1, 6], [1, 7]]
    for h, i in np.argwhere(lost):
        np.testing.assert_allclose(out[h, i], v[h // 2, np.flatnonzero(may[h, i])[-1]], rtol=1e-12)
    assert np.all(lse[~may.any(-1)] == -np.inf)
    assert np.all(out[~may.any(-1)] == 0)


def test_on_a_causal_model():
    q, k, v, scale, is_causal = nlattn.datasets.load("smollm2")[:5]
    exact = nlattn.exact_attention(q, k, v, is_causal=is_causal, scale=scale)

    def error(out):
        return float(np.linalg.norm(out - exact) / np.linalg.norm(exact))

    ours, papers = (
        error(
            nlattn.heavy_hitter_attention(q, k, v, 64, 64, rows=len(q[0]), variant=x, is_causal=is_causal, scale=scale)
        )
        for x in ("nlattn", "paper")
    )
    assert ours < papers < 1
    with pytest.raises(ValueError, match="variant must be one of 'nlattn', 'paper', got 'h2o'"):
        nlattn.heavy_hitter_attention(q, k, v, variant="h2o")
