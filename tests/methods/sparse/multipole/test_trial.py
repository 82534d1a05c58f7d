"""Multipole attention that chooses its number of near keys."""

import numpy as np
import pytest
from places import SHARED

import nlattn
from nlattn.methods.sparse.multipole.method import Multipole
from nlattn.methods.sparse.multipole.policy import POLICY
from nlattn.problem.arguments import checked_problem
from nlattn.testing import to_numpy


def head_errors(out, exact):
    return np.linalg.norm(out - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))


def chosen(qkv, rtol, **options):
    problem = checked_problem("multipole_attention", *qkv, **options)
    state = Multipole(POLICY.first, rtol=rtol).prepare(problem, np.random.default_rng())
    return to_numpy(state.near)[0]


@pytest.mark.parametrize("name", nlattn.datasets.NAMES)
def test_each_head_keeps_the_tolerance_with_few_keys(name):
    q, k, v, scale, is_causal = nlattn.datasets.load(name)[:5]
    q, k, v = q[:4], k[:4], v[:4]
    options = {"scale": scale, "is_causal": is_causal}
    exact = nlattn.exact_attention(*(x.astype(float) for x in (q, k, v)), **options)
    before = None
    for rtol in (0.2, 0.02):
        out = nlattn.multipole_attention(q, k, v, rtol=rtol, **options)
        assert np.all(head_errors(out, exact) <= rtol)
        if k.shape[1] > POLICY.first:
            near = chosen((q, k, v), rtol, **options)
            assert before is None or np.all(near >= before)
            before = near


def test_heads_choose_for_themselves():
    """A head whose keys cannot be told apart in advance is computed exactly, the others stay cheap."""
    q, k, v = (x.copy() for x in nlattn.datasets.load("smollm2")[:3])
    rng = np.random.default_rng(0)
    k, v = np.concatenate([k, rng.standard_normal(k.shape)]), np.concatenate([v, rng.standard_normal(v.shape)])
    q = np.concatenate([q[:2], 8 * rng.standard_normal((2, *q.shape[1:]))])
    arrays = [x.astype(np.float32) for x in (q, k, v)]
    near = chosen(arrays, 0.05, is_causal=True)
    assert np.all(near[:2] < 1024)
    assert np.all(near[2:] == 2048)
    out = nlattn.multipole_attention(*arrays, rtol=0.05, is_causal=True)
    exact = nlattn.exact_attention(*(x.astype(float) for x in arrays), is_causal=True)
    assert np.all(head_errors(out, exact) <= [0.05, 0.05, 1e-5, 1e-5])


def test_too_few_rows_to_choose_by_are_exact():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, n, 8)) for n in (40, 900, 900))
    out = nlattn.multipole_attention(q, k, v, rtol=0.5, is_causal=True)
    np.testing.assert_allclose(out, nlattn.exact_attention(q, k, v, is_causal=True), rtol=1e-10)


@pytest.mark.parametrize(
    ("rtol", "error"), [(0, ValueError), (-1.0, ValueError), (float("nan"), ValueError), ("0.1", TypeError)]
)
def test_bad_tolerances(rtol, error):
    q = np.zeros((1, 4, 2))
    with pytest.raises(error, match="rtol"):
        nlattn.multipole_attention(q, q, q, rtol=rtol)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "layer"), [(8192, 15), (8192, 25), (32768, 15), (32768, 25)])
def test_long_context(n, layer):
    file = SHARED / f"smollm2_kjv_n{n}_kv1.npz"
    if not file.exists():
        pytest.skip("needs ../shared/qkv")
    with np.load(file) as z:
        q, k, v = (z[part][z["layers"].tolist().index(layer)].astype(np.float32) for part in "qkv")
    out = nlattn.multipole_attention(q, k, v, rtol=0.05, is_causal=True)
    found = nlattn.certify(out, q, k, v, is_causal=True, rows=1024, rng=0)
    assert found.pooled.error <= 0.05
    assert np.all(found.error <= 1.3 * 0.05)  # chosen by a hundred rows
