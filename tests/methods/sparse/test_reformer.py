"""Reformer is softmax attention over the pairs that meet in some round, or an unbiased estimate of all of it."""

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hashed_pairs import dropped_mass, paired, weighted_attention

import nlattn
from nlattn.methods.sparse.reformer import Reformer
from nlattn.testing import BACKENDS, cases, to_numpy
from nlattn.testing.checks.finite import BAD


def draw(length, s, seed=0, e=6):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((length, e)), rng.standard_normal((s, e)), rng.standard_normal((s, 3))


def meetings(q, k, size, rounds, seed, *, centre=True, valid=None):
    """How often each pair meets, keys beside queries or, where k is q, tokens among themselves."""
    s = len(k)
    valid = np.ones(s, bool) if valid is None else valid
    shared = k is q
    blocks = -(-s // size)
    groups = [max(1, math.ceil(blocks / 2))] if blocks <= 128 else [math.ceil(math.sqrt(blocks) / 2)] * 2
    if centre:
        q, k = q - (k[valid] if shared else q).mean(0), k - k[valid].mean(0)
    rotations = np.random.default_rng(seed).spawn(1)[0].standard_normal((1, rounds, sum(groups), q.shape[1]))[0]
    count = np.zeros((len(q), s), dtype=int)
    for rotation in rotations:
        ours, theirs = [np.zeros(len(x), dtype=int) for x in (q, k)]
        base, first = 1, 0
        for group in groups:
            part = rotation[first : first + group]
            for x, codes in ((q, ours), (k, theirs)):
                y = x @ part.T
                codes += base * np.argmax(np.concatenate([y, -y], axis=1), axis=1)
            base, first = base * 2 * group, first + group
        if shared:
            ours = np.where(valid, ours, base)
        count += paired(list(ours), [c if m else None for c, m in zip(theirs, valid, strict=True)], size, True, "codes")
    return count


@functools.cache
def met(length, s, size, masked):
    """Arrays, the keys that are not masked, and how often each pair meets in three rounds of seed 4."""
    q, k, v = draw(length, s)
    valid = np.random.default_rng(5).random(s) < (0.6 if masked else 1.1)
    return q, k, v, valid, meetings(q, k, size, 3, 4, valid=valid)


@pytest.mark.parametrize("multiplicity", ["unique", "sum"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("length", "s", "size"), [(40, 40, 5), (33, 50, 7), (50, 33, 4), (140, 140, 1)])
@pytest.mark.parametrize("masked", [False, True])
def test_is_attention_over_what_meets(backend, multiplicity, is_causal, length, s, size, masked):
    q, k, v, valid, count = met(length, s, size, masked)
    count = count.copy()
    options = {"attn_mask": backend.array(valid, "bool")} if masked else {}
    options |= {"multiplicity": multiplicity, "is_causal": is_causal, "return_lse": True}
    out, lse = nlattn.reformer_attention(*(backend.array(x) for x in (q, k, v)), size, 3, rng=4, **options)
    assert count.max() > 1
    if is_causal:
        position = np.arange(length) + s - length
        count[np.arange(s) > position[:, None]] = 0
        for i, p in enumerate(position):
            if np.any(valid[: p + 1]) and p >= 0:
                count[i, np.nonzero(valid[: p + 1])[0][-1]] = 1  # the newest key it may see, once
    wanted = weighted_attention(q, k, v, count > 0 if multiplicity == "unique" else count)
    np.testing.assert_allclose(to_numpy(out), wanted[0], atol=1e-12)
    np.testing.assert_allclose(to_numpy(lse), wanted[1], atol=1e-12)


@pytest.mark.parametrize("multiplicity", ["unique", "sum"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("size", [3, 8, 40])
@pytest.mark.parametrize("masked", [False, True])
def test_shared_queries_and_keys(backend, multiplicity, is_causal, size, masked):
    q, _, v = draw(40, 40)
    valid = np.random.default_rng(5).random(40) < (0.6 if masked else 1.1)
    options = {"attn_mask": backend.array(valid, "bool")} if masked else {}
    options |= {"multiplicity": multiplicity, "is_causal": is_causal, "return_lse": True, "shared_qk": True}
    x = backend.array(q)
    out, lse = nlattn.reformer_attention(x, x, backend.array(v), size, 3, rng=4, scale=1.0, **options)
    count = meetings(q, q, size, 3, 4, valid=valid) if size < 40 else np.tile(valid, (40, 1)).astype(int)
    if is_causal:
        count = np.tril(count)
    np.fill_diagonal(count, 0)
    alone = count.sum(1) == 0
    assert np.any(alone) == is_causal or size == 3
    for i in np.nonzero(alone)[0]:
        before = np.nonzero(valid[: i + 1])[0]
        if len(before):
            count[i, before[-1]] = 1  # itself, unless it is masked
    k = q / np.linalg.norm(q, axis=1, keepdims=True)
    wanted = weighted_attention(q, k, v, count > 0 if multiplicity == "unique" else count, 1.0)
    np.testing.assert_allclose(to_numpy(out), wanted[0], atol=1e-12)
    np.testing.assert_allclose(to_numpy(lse), wanted[1], atol=1e-12)
    if is_causal and not masked:
        np.testing.assert_array_equal(to_numpy(out)[0], v[0])  # the first token sees itself alone


def test_log_weights(backend):
    q, k, v = draw(40, 50)
    bias = np.random.default_rng(6).standard_normal(50)
    bias[7] = -np.inf
    arrays, mask = [backend.array(x) for x in (q, k, v)], backend.array(bias)
    for is_causal in (False, True):
        out = nlattn.reformer_attention(*arrays, 8, 3, attn_mask=mask, is_causal=is_causal, rng=4)
        count = meetings(q, k, 8, 3, 4, valid=bias > -np.inf)
        if is_causal:
            own = np.arange(40) + 10
            count[np.arange(40), own] = 1
            count[np.arange(50) > own[:, None]] = 0
        wanted = weighted_attention(q, k, v, (count > 0) * np.exp(bias))[0]
        np.testing.assert_allclose(to_numpy(out), wanted, atol=1e-12)


@pytest.mark.parametrize("shared", [False, True])
def test_horvitz_thompson_with_masks(shared):
    """Heads and what is masked do not matter to others; log-weights of log 2 double all masses."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((4, 30, 6)) for _ in range(3))
    k = q if shared else k
    mask = rng.random(30) < 0.7

    def call(mask):
        options = {"multiplicity": "ht", "shared_qk": shared, "return_lse": True, "rng": 0}
        return nlattn.reformer_attention(q, k, v, 8, 3, attn_mask=mask, **options)

    first = call(mask)
    assert np.all(np.isfinite(first.lse))
    for other in (np.broadcast_to(mask, (4, 1, 30)), np.where(mask, 0.0, -np.inf)):
        np.testing.assert_allclose(call(other).out, first.out, atol=1e-13)
    options = {"multiplicity": "ht", "shared_qk": shared, "attn_mask": mask, "rng": 0}
    alone = nlattn.reformer_attention(q[:1], k[:1], v[:1], 8, 3, **options)
    np.testing.assert_allclose(alone, first.out[:1], atol=1e-13)
    twice = call(np.where(mask, math.log(2), -np.inf))
    np.testing.assert_allclose(twice.out, first.out, atol=1e-13)
    np.testing.assert_allclose(twice.lse, first.lse + math.log(2), atol=1e-13)
    hidden = np.where(mask[:, None], v, 1e6)
    k2 = np.where(mask[:, None], k, 9.0)
    changed = nlattn.reformer_attention(k2 if shared else q, k2, hidden, 8, 3, **options)
    np.testing.assert_allclose(changed[:, mask], first.out[:, mask], atol=1e-12)


def test_variant_of_the_paper():
    q, _, v = draw(60, 60)
    q = q + 3.0
    paper = nlattn.reformer_attention(q, q, v, 5, 3, variant="paper", rng=4)
    count = meetings(q, q, 5, 3, 4, centre=False)
    np.fill_diagonal(count, 0)
    k = q / np.linalg.norm(q, axis=1, keepdims=True)
    np.testing.assert_allclose(paper, weighted_attention(q, k, v, count)[0], atol=1e-12)
    options = {"shared_qk": True, "multiplicity": "sum"}
    assert np.abs(nlattn.reformer_attention(q, q, v, 5, 3, rng=4, **options) - paper).max() > 0.01  # hashed as they are
    unique = nlattn.reformer_attention(q, q, v, 5, 3, variant="paper", multiplicity="unique", rng=4)
    np.testing.assert_allclose(unique, weighted_attention(q, k, v, count > 0)[0], atol=1e-12)


def test_dropped_mass():
    q, k, v = draw(60, 60)
    exact = nlattn.exact_attention(q, k, v, return_lse=True)
    last = -np.inf
    for rounds in (1, 2, 4, 8):
        out, lse = nlattn.reformer_attention(q, k, v, 5, rounds, rng=1, return_lse=True)
        wanted, inside = dropped_mass(q, k, v, meetings(q, k, 5, rounds, 1) > 0)
        np.testing.assert_allclose(out, wanted, atol=1e-12)
        np.testing.assert_allclose(np.exp(lse - exact.lse), inside, atol=1e-12)
        assert np.all(lse >= last - 1e-12)  # the first rounds are the same
        last = lse


def test_rounds_in_which_all_meet_count_once():
    q, k, v = draw(16, 16)
    out = nlattn.reformer_attention(q, k, v, 8, 4, rng=0)  # two blocks: its own and the one before are all
    np.testing.assert_allclose(out, nlattn.exact_attention(q, k, v), atol=1e-14)
    out = nlattn.reformer_attention(q, k, v, 8, 4, multiplicity="sum", rng=0)
    np.testing.assert_allclose(out, nlattn.exact_attention(q, k, v), atol=1e-14)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_horvitz_thompson_is_unbiased(shared, is_causal):
    """The mean of sum and weighted sum over 4000 hashes, in units of its standard error."""
    n, draws = 14, 4000
    q, k, v = draw(n, n, e=4)
    q[3], k[5] = 0, 0  # zero vectors collide with all of code 0
    k = q if shared else k
    keys = q / np.where(q.any(1), np.linalg.norm(q, axis=1), 1)[:, None] if shared else k
    weights = np.tril(np.ones((n, n))) if is_causal else np.ones((n, n))
    if shared:
        np.fill_diagonal(weights, 0)
    wanted = weighted_attention(q, keys, v, weights)
    many = [np.broadcast_to(x, (draws, 1, n, x.shape[1])) for x in (q, k, v)]
    options = {"multiplicity": "ht", "shared_qk": shared, "is_causal": is_causal, "return_lse": True}
    # About their mean no vector is zero: hash them as they are.
    options |= {"variant": "paper"}
    out, lse = nlattn.reformer_attention(*many, 3, 2, rng=0, **options)
    rows = slice(1 if shared and is_causal else 0, None)  # the first token of a causal call falls back to itself
    ratio = np.exp(lse[:, 0] - wanted[1])[:, rows]
    if shared:
        # Tokens that found nothing have their own value instead of an empty sum.
        alone = np.all(np.abs(out[:, 0] - v) < 1e-12, axis=-1)[:, rows]
        ratio = np.where(alone, 0.0, ratio)
    elif not is_causal:
        alone = np.all(np.abs(out[:, 0] - v[-1]) < 1e-12, axis=-1)[:, rows]
        single = np.abs(lse[:, 0] - np.sum(q * keys[-1], 1) / 2)[:, rows] < 1e-12
        ratio = np.where(alone & single, 0.0, ratio)
    for sample, mean in ((ratio, 1.0), (ratio[..., None] * out[:, 0, rows], wanted[0][rows])):
        error = sample.std(0) / math.sqrt(draws)
        assert np.all(np.abs(sample.mean(0) - mean) < 4.5 * error + 1e-9)
        assert np.all(error < 0.25)


def test_horvitz_thompson_is_nearer_with_more_rounds():
    q, k, v = draw(60, 60)
    exact = nlattn.exact_attention(q, k, v)
    few, many = (
        np.linalg.norm(nlattn.reformer_attention(q, k, v, 15, rounds, multiplicity="ht", rng=0) - exact)
        for rounds in (4, 200)
    )
    assert many < 0.3 * few


def test_peer():
    torch = pytest.importorskip("torch")
    package = pytest.importorskip("reformer_pytorch")
    q, _, v = (x.astype(np.float32) for x in draw(64, 64, e=16))
    v = np.concatenate([v] * 5 + [v[:, :1]], axis=1)
    for is_causal in (False, True):
        peer = package.reformer_pytorch.FullQKAttention(causal=is_causal)
        wanted = peer(torch.from_numpy(q)[None], torch.from_numpy(v)[None])[0][0].numpy()
        got = nlattn.reformer_attention(q, q, v, 64, shared_qk=True, is_causal=is_causal)
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_the_past_does_not_depend_on_future_values():
    q, k, v = draw(200, 200)
    first = nlattn.reformer_attention(q, k, v, 8, is_causal=True, rng=0)
    other = v.copy()
    other[77:] = 1e3
    assert np.array_equal(nlattn.reformer_attention(q, k, other, 8, is_causal=True, rng=0)[:77], first[:77])


@dataclass(frozen=True)
class SharedReformer(Reformer):
    """The form whose queries are its keys, as a method of its own."""

    shared_qk: bool | None = True

    @property
    def claims(self):
        return replace(self.record, shared_qk=True, cross_length=False, exact_at=None)


# They change keys alone, draw grouped queries, or expect that a query sees its own key.
SKIPPED = ("batch_equals_loop", "streams", "masks_refused", "causal_alignment", "exact_limit", "memory")


@pytest.mark.parametrize(
    ("check", "method", "backend"),
    [
        pytest.param(*case, id=f"{case[2]}-{case[0]}")
        for case in cases([SharedReformer()], [BACKENDS["numpy-numba"]])
        if case[0].name not in SKIPPED
    ],
)
def test_conformance_of_the_shared_form(check, method, backend):
    check(method, backend)


def test_equal_tokens_and_zeros():
    v = np.random.default_rng(0).standard_normal((50, 3))
    for x in (np.zeros((50, 4)), np.ones((50, 4))):
        for options in ({}, {"shared_qk": True}, {"variant": "paper"}, {"is_causal": True}, {"multiplicity": "ht"}):
            out = nlattn.reformer_attention(x, x, v, 8, 2, rng=0, **options)
            assert np.all(np.isfinite(out))
            np.testing.assert_allclose(nlattn.reformer_attention(x, x, np.ones((50, 1)), 8, 2, rng=0, **options), 1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"bucket_size": 0}, ValueError, "bucket_size must be at least 1, got 0"),
        ({"rounds": True}, TypeError, "rounds must be an integer"),
        ({"multiplicity": "all"}, ValueError, "multiplicity must be one of 'unique', 'sum', 'ht', got 'all'"),
        ({"variant": "trax"}, ValueError, "variant must be one of 'nlattn', 'paper', got 'trax'"),
        ({"shared_qk": 1}, TypeError, "shared_qk must be a bool, got 1"),
        ({"shared_qk": True}, ValueError, "key must equal query for shared_qk=True"),
    ],
)
def test_refusals(options, error, words):
    with pytest.raises(error, match=words):
        nlattn.reformer_attention(*draw(9, 9), **options)


def test_shared_refuses_other_lengths():
    with pytest.raises(NotImplementedError, match="as many keys as queries, got 9 and 8"):
        nlattn.reformer_attention(*draw(8, 9), shared_qk=True)


def test_nan_in_a_shared_query():
    q, _, v = draw(20, 20)
    for bad in BAD[:2]:
        q[3, 1] = bad
        with pytest.raises(ValueError, match="query contains NaN or inf"):
            nlattn.reformer_attention(q, q, v, 4, shared_qk=True)
        assert nlattn.reformer_attention(q, q, v, 4, shared_qk=True, check_finite=False).shape == v.shape
