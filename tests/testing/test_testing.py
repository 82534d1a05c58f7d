"""The tools for testing: the assertions, the oracle, and that each conformance check can fail."""

from dataclasses import dataclass, replace
from unittest import SkipTest

import numpy as np
import pytest

import nlattn
from nlattn import METHODS, exact_attention, run
from nlattn.methods import registry
from nlattn.testing import BACKENDS, CHECKS, Backend, assert_close, assert_same_kind, cases, dense_attention
from nlattn.testing.checks import memory

ONES = np.ones((2, 3))


@pytest.mark.parametrize(
    ("actual", "desired", "options", "sentence"),
    [
        (ONES.tolist(), ONES, {}, "expected an array, got list"),
        (ONES.astype("f4"), ONES, {}, "dtype differs: got float32, expected float64"),
        (ONES[:1], ONES, {}, r"shape differs: got \(1, 3\), expected \(2, 3\)"),
        (
            ONES,
            ONES + np.eye(2, 3) * 1e-3,
            {"rtol": 1e-4},
            r"2 of 6 elements differ; worst at \[0, 0\]: got 1.0, expected",
        ),
        (ONES, ONES * np.nan, {}, "6 of 6 elements differ"),
        (ONES * np.inf, -ONES * np.inf, {"rtol": 1.0, "atol": 10.0}, "6 of 6 elements differ"),
        (ONES * np.inf, ONES * 1e308, {"rtol": 1.0}, "6 of 6 elements differ"),
        (ONES * 1e-9, ONES * 0, {"rtol": 0.5}, "6 of 6 elements differ"),
        (ONES, ONES, {"like": ONES.astype("f4")}, "dtype differs: got float64, expected float32"),
        (np.arange(3), np.array([0, 1, 4]), {}, r"1 of 3 elements differ; worst at \[2\]: got 2.0, expected 4.0"),
    ],
)
def test_assert_close_fails(actual, desired, options, sentence):
    with pytest.raises(AssertionError, match=sentence):
        assert_close(actual, desired, **({"rtol": 1e-7} | options))


def test_assert_close_passes(backend):
    for dtype in backend.dtypes:
        x = backend.array([1.0, -np.inf, np.nan, 0.0], dtype)
        assert_close(x, backend.array([1.0, -np.inf, np.nan, 0.0], dtype), rtol=0)
        assert_close(x, np.array([1.001, -np.inf, np.nan, 1e-3]), rtol=1e-2, atol=1e-2, like=x)
    assert_close(backend.array(np.zeros((0, 3))), backend.array(np.zeros((0, 3))), rtol=0)


def test_kinds_differ_in_library_and_device():
    xp = pytest.importorskip("array_api_strict")
    there = xp.ones(3, device=xp.Device("device1"))
    with pytest.raises(AssertionError, match=r"namespace differs: got array_api_strict, expected .*numpy"):
        assert_same_kind(there, np.ones(3))
    with pytest.raises(AssertionError, match=r"device differs: got .*device1.*, expected .*CPU_DEVICE"):
        assert_same_kind(there, xp.ones(3))
    assert_same_kind(there, xp.zeros((2, 2), device=xp.Device("device1")))


def test_oracle_by_hand():
    """Two keys with scores 0 and log 3; a bias, a mask, causality, groups, nothing to see, a NaN."""
    q, k, v = np.array([[2.0], [2.0]]), np.array([[0.0], [np.log(3.0) / 2]]), np.array([[0.0], [4.0]])
    out, lse, weights = dense_attention(q, k, v)
    np.testing.assert_allclose(weights, [[0.25, 0.75]] * 2)
    np.testing.assert_allclose(out, [[3.0]] * 2)
    np.testing.assert_allclose(lse, [np.log(4.0)] * 2)
    np.testing.assert_allclose(dense_attention(q, k, v, is_causal=True).out, [[0.0], [3.0]])
    np.testing.assert_allclose(dense_attention(q, k, v, scale=0.0).out, [[2.0]] * 2)
    np.testing.assert_allclose(dense_attention(q, k, v, np.array([[np.log(3.0), 0.0]])).out, [[2.0]] * 2)
    blind = dense_attention(q, k, v, np.array([[True, False], [False, False]]))
    np.testing.assert_array_equal(blind.out, [[0.0], [0.0]])
    np.testing.assert_array_equal(blind.lse, [0.0, -np.inf])
    np.testing.assert_array_equal(dense_attention(q, k[:1], v[:1], is_causal=True).lse, [-np.inf, 0.0])
    bad = dense_attention(q, k, np.array([[np.nan], [4.0]]), np.array([[True, True], [False, True]]))
    np.testing.assert_array_equal(bad.out, [[np.nan], [4.0]])
    heads = dense_attention(np.stack([q] * 4), np.stack([k, 0 * k]), np.stack([v, v]))
    np.testing.assert_allclose(heads.out[:, 0, 0], [3.0, 3.0, 2.0, 2.0])


def test_oracle_against_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    q, k, v = (torch.tensor(rng.standard_normal((2, h, 20, 8))) for h in (6, 2, 2))
    mask = torch.tensor(rng.random((20, 20)) < 0.7)
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}, {"scale": 2.0}):
        peer = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)
        assert_close(peer, dense_attention(q, k, v, **options).out, rtol=1e-12, atol=1e-13, like=q)


def test_backends_are_what_they_say():
    pytest.importorskip("numba")
    for name, served in (("numpy-numba", "numba_cpu"), ("numpy-generic", "generic")):
        with BACKENDS[name].context():
            assert nlattn.dispatch.backend_name(np.ndarray) == served


def test_missing_backend_is_skipped():
    absent = Backend(name="absent", library="numpy", make=np.asarray, unavailable=lambda: "it is not here")
    (check,) = (c for c in CHECKS if c.name == "convex")
    with pytest.raises(SkipTest, match="it is not here"):
        check(METHODS["exact"].method(), absent)


def test_cases_follow_the_record():
    names = {str(check) for check, _, _ in cases([METHODS["nystrom"].method()])}
    assert {"causal_refused", "masks_refused", "not_convex", "rows_do_not_sum_to_one"} <= names
    assert not {"causality", "convex", "rows_sum_to_one", "seeds"} & names
    only = claiming(METHODS["exact"].method(), namespaces=("numpy",))
    assert {backend.library for _, _, backend in cases([only])} == {"numpy"}
    assert len({check.name for check in CHECKS}) == len(CHECKS)


# -- each check can fail ----------------------------------------------------------------------------------------------

FAILURES = {}


def claiming(method, **claims):
    """The method with other claims."""

    def claims_of(self):
        return replace(type(method).claims.fget(self), **claims)

    changed = type("Claiming", (type(method),), {"claims": property(claims_of)})
    return changed(**method.options)


def fails(*checks, method="exact", backend="numpy-generic", **claims):
    """These checks must fail with the decorated function in the place of `nlattn.run`, or with such claims."""

    def register(function):
        subject = claiming(METHODS[method].method(), **claims)
        for name in checks:
            FAILURES[name] = subject, BACKENDS[backend], function or run
        return function

    return register


def on_arrays(function):
    """A function of arrays in the place of `nlattn.run`: budgets of the method come as options."""

    def call(method, query, key, value, **options):
        return function(query, key, value, **method.options, **options)

    return call


def _edit(change):
    """`nlattn.run` with its arrays changed first."""

    def edited(method, query, key, value, **options):
        return run(method, *change(query, key, value), **options)

    return edited


# Records that deny what holds, or promise what does not.
fails("cross_length_refused", cross_length=False)(None)
fails("masks_refused", masks=None)(lambda m, *x, attn_mask=None, **o: run(m, *x, **o))
fails("causal_refused", causal=None)(lambda m, *x, is_causal=False, **o: run(m, *x, **o))
fails("causality_is_not_better", causal="keys")(None)
fails("key_permutation_is_denied", key_permutation=False)(None)
fails("not_convex", convex=False)(None)
fails("linear_is_denied", linear=False)(None)
fails("rows_do_not_sum_to_one", rows_sum_to_one=False)(None)
fails("key_permutation", method="streaming", key_permutation=True)(None)
fails("rows_sum_to_one", "convex", method="nystrom", rows_sum_to_one=True, convex=True)(None)
fails("exact_limit", method="streaming")(lambda m, *x, **o: run(replace(m, window=1, sinks=0), *x, **o))
fails("approximates", method="streaming")(lambda m, *x, **o: exact_attention(*x, **o))
fails("deterministic_is_denied", "seeds", "streams", "bad_seeds", deterministic=False)(
    lambda m, *x, rng, **o: exact_attention(*x, **o)
)

# Methods with a fault.
fails("batch_equals_loop", "value_features")(_edit(lambda q, k, v: (q, k, v / v.std())))
fails("grouped_queries")(_edit(lambda q, k, v: (q, np.flip(k, -3), np.flip(v, -3))))
fails("dtypes")(_edit(lambda q, k, v: tuple(x.astype(np.float64) for x in (q, k, v))))
fails("scale")(lambda m, *x, scale=None, **o: exact_attention(*x, **o))
fails("equal_keys")(_edit(lambda q, k, v: (q, k + np.arange(k.shape[-2])[:, None], v)))
fails("accuracy", "accuracy_on_real_data")(_edit(lambda q, k, v: (q * np.float32(1 + 1e-6), k, v)))
fails("future_weights", "without_lookahead", method="streaming", without_lookahead=(("sinks", 8),))(
    lambda m, *x, is_causal=False, **o: run(m, *x, **o)
)
fails("agrees_with_numpy", backend="numpy-numba")(
    _edit(lambda q, k, v: (q, k, v + (nlattn.dispatch.backend_name(np.ndarray) == "generic")))
)


@fails("broadcast_batch", "empty_axes", "bad_shapes")
@on_arrays
def wants_equal_batches(query, key, value, **options):
    assert query.shape[:-3] == key.shape[:-3]
    assert query.size
    return exact_attention(query, key, value, **options)


@fails("leading_axes")
@on_arrays
def wants_heads(query, key, value, **options):
    return exact_attention(query, key, value, **options) + (query.ndim == 2)


@fails("lengths", "unusual_values")
@on_arrays
def divides_by_the_range(query, key, value, **options):
    with np.errstate(all="ignore"):
        return exact_attention(query, (key - key.mean()) / np.ptp(key, axis=(0, 1)), value, **options)


@fails("blind_rows")
@on_arrays
def nan_in_blind_rows(query, key, value, return_lse, **options):
    out, lse = exact_attention(query, key, value, return_lse=True, **options)
    out[lse == -np.inf] = np.nan
    return out, lse


@fails("boolean_equals_infinite", "mask_broadcasting", "masked_keys_have_no_influence")
@on_arrays
def forgets_boolean_masks(*arrays, attn_mask=None, **options):
    forget = attn_mask is not None and attn_mask.dtype == bool
    return exact_attention(*arrays, attn_mask=None if forget else attn_mask, **options)


@fails("lowest_does_not_mask", "hidden_nan")
@on_arrays
def masks_what_is_very_low(query, key, value, attn_mask=None, **options):
    if attn_mask is not None and attn_mask.dtype != bool:
        attn_mask = np.where(attn_mask < -1e30, -np.inf, attn_mask).astype(query.dtype)
    if not np.all(np.isfinite(key)):
        raise ValueError("key contains NaN")
    return exact_attention(query, key, value, attn_mask, **options)


@fails("causality", "causal_alignment")
@on_arrays
def aligned_at_the_top(query, key, value, is_causal=False, attn_mask=None, **options):
    if is_causal:
        attn_mask = np.tri(query.shape[-2], key.shape[-2], dtype=bool)
    return exact_attention(query, key, value, attn_mask, **options)


@fails("layouts", "numpy_layouts", "bad_types")
@on_arrays
def scales_in_place(query, key, value, **options):
    if query.flags.writeable:
        query *= 0.999
    else:
        raise AssertionError
    return exact_attention(query, key, value, **options)


@fails("global_state", "repeatable")
@on_arrays
def draws_globally(query, key, value, **options):
    return exact_attention(query, key, value + np.random.standard_normal(), **options)  # noqa: NPY002


@fails("visible_nan")
@on_arrays
def lets_nan_through(*arrays, check_finite=True, **options):
    return exact_attention(*arrays, check_finite=False, **options)


@fails("nan_is_confined")
@on_arrays
def spreads_nan(query, key, value, **options):
    out = exact_attention(query, key, value, **options)
    return out + 0 * key.mean() + 0 * value.mean()


@fails("memory", backend="numpy-numba")
@on_arrays
def keeps_all_scores(query, key, value, is_causal=False, **options):
    scores = query @ key.swapaxes(-1, -2)
    return exact_attention(query, key, value, is_causal=is_causal, **options) + 0 * scores[..., :1]


@fails("gradients", "gradients_of_partials", backend="torch-cpu")
@on_arrays
def loses_the_gradient_of_keys(query, key, value, **options):
    return exact_attention(query, key.detach() + 0 * key, value, **options)


class Rounding(type(METHODS["streaming"].method())):
    """Rounds its budgets instead of refusing them."""

    def __post_init__(self):
        for name, least in (("window", 1), ("sinks", 0)):
            object.__setattr__(self, name, max(int(np.ravel(getattr(self, name) or 0)[0]), least))


class OneRow(type(METHODS["streaming"].method())):
    """Computes a row as if it stood at another place."""

    def apply(self, state, rows):
        moved = rows.query.shape[2] < 24
        return super().apply(state, replace(rows, position=rows.position - 1) if moved else rows)


class OneBlock(type(METHODS["multipole"].method())):
    """Computes the rows of blocks with another budget."""

    def apply_blocks(self, state, rows, numbers):
        return super().apply_blocks(state._replace(near=state.near - 8), rows, numbers)


FAILURES["bad_budgets"] = Rounding(), BACKENDS["numpy-generic"], run
FAILURES["probe"] = OneRow(), BACKENDS["numpy-generic"], run
FAILURES["block_probe"] = OneBlock(), BACKENDS["numpy-generic"], run


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_check_can_fail(check, monkeypatch):
    method, backend, function = FAILURES[check.name]
    assert check.applies(method, backend)
    monkeypatch.setattr(memory, "SIZES", (256, 512, 1024))
    if backend.unavailable():
        pytest.skip(backend.unavailable())
    with pytest.raises((AssertionError, ValueError, RuntimeWarning)):
        check(method, backend, function)


def test_device_is_kept():
    """A method that makes arrays on the default device fails on the one that is not."""
    xp = pytest.importorskip("array_api_strict")
    strict = BACKENDS["array-api-strict"]
    array = strict.array(np.ones((2, 3)))
    assert array.device == xp.Device("device1")
    with pytest.raises(ValueError, match="device"):
        array + xp.ones((2, 3), dtype=xp.float64)


@dataclass(frozen=True)
class Mine(nlattn.Method):
    """What the documentation of the suite shows: a method from outside the package."""

    record = nlattn.Record(
        name="mine",
        family="own",
        paper="none",
        principle="the mean of the last keys",
        cost=lambda n, last: n.L * last * n.Ev,
        causal=None,
        masks=None,
        budgets=(nlattn.Budget(name="last", ladder=(4, 8), unit="keys"),),
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=True,
        probe="rows",
    )

    last: int = 4

    def prepare(self, problem, rng):
        return None

    def apply(self, state, rows):
        last = max(0, rows.key.shape[2] - self.last)
        start = rows.xp.full_like(rows.start, last)
        return nlattn.interval_attention(replace(rows, scale=0.0, start=start)).out


@pytest.mark.parametrize("name", ["numpy-numba", "array-api-strict", "torch-generic"])
def test_a_method_of_ones_own(name):
    backend = BACKENDS[name]
    if backend.unavailable():
        pytest.skip(backend.unavailable())
    found = cases([Mine()], [backend])
    assert len(found) > 25
    unmet = {"scale"}  # the mean of the last keys does not look at scores
    for check, method, own in found:
        if check.name not in unmet and not check.slow and check.name != "memory":
            check(method, own)


def test_registered_methods_are_like_those_of_the_package():
    try:
        assert nlattn.register(Mine) is Mine
        assert nlattn.register(Mine) is Mine
        assert nlattn.METHODS["mine"].method is Mine
        assert any(method.record.name == "mine" for _, method, _ in cases())
    finally:
        registry._RECORDS.pop("mine", None)


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        (Mine(), TypeError, "must be a subclass of nlattn.Method"),
        (nlattn.Method, TypeError, "needs a record"),
        (type("Other", (Mine,), {"record": replace(Mine.record, name="exact")}), ValueError, "already"),
        (type("Blocks", (Mine,), {"record": replace(Mine.record, probe="query-blocks")}), ValueError, "BlockMethod"),
    ],
)
def test_what_cannot_be_registered(wrong, kind, words):
    with pytest.raises(kind, match=words):
        nlattn.register(wrong)
