"""Certificates against the whole truth."""

import numpy as np
import pytest
from scipy import stats

import nlattn
from nlattn.testing import dense_attention


@pytest.fixture(scope="module")
def sample():
    q, k, v, scale, is_causal = nlattn.datasets.load("smollm2")[:5]
    q, k, v = q[:, :1024], k[:, :1024], v[:, :1024]
    output = nlattn.streaming_attention(q, k, v, 64, scale=scale, is_causal=is_causal)
    exact = dense_attention(q, k, v, scale=scale, is_causal=is_causal).out
    baseline = dense_attention(q, k, v, scale=0.0, is_causal=is_causal)[0]
    return (q, k, v), {"scale": scale, "is_causal": is_causal}, output, exact, baseline


def relative(difference, exact, axis):
    return np.linalg.norm(difference, axis=axis) / np.linalg.norm(exact, axis=axis)


def test_all_rows_are_the_truth(sample):
    qkv, options, output, exact, baseline = sample
    found = nlattn.certify(output, *qkv, rows=5000, **options)
    assert found.exact
    assert found.rows == 1024
    np.testing.assert_allclose(found.error, relative(output - exact, exact, (1, 2)), rtol=1e-6)
    np.testing.assert_allclose(found.upper, found.error)
    np.testing.assert_allclose(found.baseline, relative(baseline - exact, exact, (1, 2)), rtol=1e-6)
    norms = np.linalg.norm(output - exact, axis=-1)
    np.testing.assert_allclose(found.mean_bound, norms.mean(-1), rtol=1e-6)
    np.testing.assert_allclose(found.quantile(0.95), np.sort(norms, -1)[:, int(np.ceil(0.95 * 1024)) - 1], rtol=1e-6)
    np.testing.assert_allclose(found.pooled.error, np.linalg.norm(output - exact) / np.linalg.norm(exact), rtol=1e-6)
    np.testing.assert_allclose(found.norm, np.sqrt((exact**2).sum(-1).mean(-1)), rtol=1e-6)


def test_statements_hold_as_often_as_stated(sample):
    qkv, options, output, exact, _ = sample
    norms = np.linalg.norm(output - exact, axis=-1)
    truth = {
        "upper": relative(output - exact, exact, (1, 2)),
        "quantile": np.sort(norms, -1)[:, int(np.ceil(0.95 * 1024)) - 1],
        "mean": norms.mean(-1),
        "range": norms.max(-1),
        "pooled upper": np.linalg.norm(output - exact) / np.linalg.norm(exact),
        "pooled quantile": np.sort(norms.ravel())[int(np.ceil(0.95 * norms.size)) - 1],
        "pooled mean": norms.mean(),
    }
    trials = 60
    failures, ratios = dict.fromkeys(truth, 0), []
    for seed in range(trials):
        found = nlattn.certify(output, *qkv, rows=128, confidence=0.9, rng=seed, **options)
        pooled = found.pooled
        stated = {
            "upper": found.upper,
            "quantile": found.quantile(0.95),
            "mean": found.mean_bound,
            "range": found.range,
            "pooled upper": pooled.upper,
            "pooled quantile": pooled.quantile(0.95),
            "pooled mean": pooled.mean_bound,
        }
        for name, value in stated.items():
            failures[name] += np.sum(value < truth[name] * (1 - 1e-6))
        ratios.append(found.upper / truth["upper"])
    assert np.all(np.median(ratios, axis=0) < 2)  # not vacuous
    for name, count in failures.items():
        n = trials if "pooled" in name else 3 * trials
        assert count <= (0 if name == "range" else stats.binom.isf(1e-6, n, 0.1)), name


@pytest.mark.parametrize("kind", ["general mask", "key mask", "bias", "key bias"])
def test_masks_and_baseline(kind):
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((2, 4, 40, 8)), rng.standard_normal((2, 2, 50, 8)), rng.standard_normal((2, 2, 50, 3))
    shape = (2, 4, 40, 50) if kind in ("general mask", "bias") else (2, 4, 1, 50)
    seen = rng.random(shape) < 0.4
    if shape[2] > 1:
        seen[0, 0, 0] = False
    mask = seen if "mask" in kind else np.where(seen, rng.standard_normal(shape), -np.inf)
    output = rng.standard_normal((2, 4, 40, 3))
    exact = dense_attention(q, k, v, mask, is_causal=True)[0]
    baseline = dense_attention(q, k, v, seen, is_causal=True, scale=0.0)[0]
    some = nlattn.certify(output, q, k, v, rows=25, attn_mask=mask, is_causal=True, rng=0)
    norms = np.linalg.norm(output - exact, axis=-1)
    assert all(np.isin(np.round(a, 9), np.round(b, 9)).all() for a, b in zip(some.row_norms, norms, strict=True))
    assert some.row_norms.shape == (2, 4, 25)
    found = nlattn.certify(output, q, k, v, rows=40, attn_mask=mask, is_causal=True)
    np.testing.assert_allclose(found.error, relative(output - exact, exact, (2, 3)), rtol=1e-8)
    np.testing.assert_allclose(found.baseline, relative(baseline - exact, exact, (2, 3)), rtol=1e-8)
    assert found.error.shape == (2, 4)
    assert found.pooled.error.shape == (2,)
    assert np.all(np.linalg.norm(output - exact, axis=-1).max(-1) <= found.range)


def test_too_few_rows_give_the_range(sample):
    qkv, options, output, *_ = sample
    found = nlattn.certify(output, *qkv, rows=89, rng=0, **options)
    assert np.array_equal(found.quantile(0.95), found.range)
    assert np.all(nlattn.certify(output, *qkv, rows=90, rng=0, **options).quantile(0.95) < found.range)


@pytest.mark.parametrize("make", [int, np.random.SeedSequence, np.random.default_rng])
def test_rows_never_follow_the_draws_of_a_method(make):
    """One seed passed to a method and to its certificate gives unrelated draws, and the same ones again."""
    from nlattn.arrays.random import children, private
    from nlattn.guarantees.certificate import CERTIFY

    draws = [private(make(7), CERTIFY).random(100), *(child.random(100) for child in children(make(7), 3))]
    assert len({draw.tobytes() for draw in draws}) == 4
    assert np.array_equal(private(make(7), CERTIFY).random(100), draws[0])
    if make is np.random.default_rng:
        rng = make(7)
        assert not np.array_equal(children(rng, 1)[0].random(9), private(rng, CERTIFY).random(9))


def test_text_tells_bounds_from_estimates(sample):
    qkv, options, output, *_ = sample
    text = str(nlattn.certify(output, *qkv, rng=0, **options))
    assert text.count("(estimates)") == text.count("(bound)") == 2
    assert "256 rows of each head, at 99 %" in text


def test_zero_reference():
    q = np.ones((30, 4))
    v = np.zeros((30, 2))
    assert nlattn.certify(v, q, q, v).error == 0
    assert nlattn.certify(v + 1, q, q, v).error == np.inf
    assert nlattn.certify(v + 1, q, q, v).upper == np.inf


@pytest.mark.parametrize("length", [0, 1, 2])
def test_short(length):
    q = np.ones((2, length, 4))
    found = nlattn.certify(q, q, q, q)
    assert found.error.tolist() == [0, 0]
    assert found.quantile(0.95).shape == (2,)


def test_torch_and_float16():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    q, k, v, output = (torch.asarray(rng.standard_normal((2, 300, 8)), dtype=torch.float16) for _ in range(4))
    found = nlattn.certify(output, q, k, v, rng=0)
    arrays = (x.to(torch.float64).numpy() for x in (output, q, k, v))
    desired = nlattn.certify(*arrays, rng=0)
    assert isinstance(found.error, np.ndarray)
    np.testing.assert_allclose(found.error, desired.error, rtol=1e-9)
    np.testing.assert_allclose(found.upper, desired.upper, rtol=1e-9)


def test_nan_in_the_output():
    rng = np.random.default_rng(0)
    q, k, v, output = (rng.standard_normal((2, 300, 4)) for _ in range(4))
    output[1, 7] = np.nan
    with pytest.raises(ValueError, match="output contains NaN or inf"):
        nlattn.certify(output, q, k, v)
    found = nlattn.certify(output, q, k, v, rows=300, check_finite=False)
    assert np.isfinite(found.error[0])
    assert found.error[1] == found.upper[1] == found.pooled.error == np.inf


def test_rows_are_not_the_landmarks_of_the_same_seed():
    """The rows that certify draws are unrelated to what nystrom_attention draws from the same seed."""
    from nlattn.arrays.random import private
    from nlattn.guarantees.certificate import CERTIFY
    from nlattn.guarantees.sampling import draw_rows
    from nlattn.problem.arguments import checked_problem
    from nlattn.select.landmarks import random_landmarks

    x = np.arange(1000.0)[None, :, None] / 1000
    shared = []
    for seed in range(50):
        landmarks = (
            random_landmarks(checked_problem("test", x, x, x), 100, np.random.default_rng(seed))[0][0, 0, :, 0] * 1000
        )
        rows = draw_rows(private(seed, CERTIFY), 1, 1, 1000, 100)[0, 0]
        shared.append(len(np.intersect1d(np.round(landmarks), rows)))
    assert 8 < np.mean(shared) < 12  # 10 expected by chance


def test_a_seed_sequence_can_be_used_again():
    x = np.random.default_rng(0).standard_normal((64, 4))
    seed = np.random.SeedSequence(3)
    a, b = (nlattn.nystrom_attention(x, x, x, 8, selection="random", rng=seed) for _ in range(2))
    assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"rows": 0}, ValueError, "rows must be at least 1, got 0"),
        ({"rows": 2.5}, TypeError, "rows must be an integer"),
        ({"confidence": 1.0}, ValueError, "confidence must lie between 0 and 1"),
        ({"output": np.ones((2, 9, 3))}, ValueError, r"output must have shape \(2, 8, 3\)"),
        ({"output": [[1.0]]}, TypeError, "output must be an array"),
        ({"output": np.ones((2, 8, 3), int)}, TypeError, "output must have a real floating dtype"),
        ({"rng": -1}, ValueError, "rng must not be negative"),
        ({"rng": "a"}, TypeError, "rng must be None, an integer"),
    ],
)
def test_refusals(change, error, sentence):
    arguments = {"output": np.ones((2, 8, 3)), "query": np.ones((2, 8, 4)), "key": np.ones((2, 8, 4))}
    with pytest.raises(error, match=sentence):
        nlattn.certify(**{**arguments, "value": np.ones((2, 8, 3)), "rows": 4, **change})


def test_quantile_refuses():
    q = np.ones((8, 4))
    with pytest.raises(ValueError, match="p must lie between 0 and 1, got 2"):
        nlattn.certify(q, q, q, q).quantile(2)
