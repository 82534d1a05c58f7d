"""What attention functions refuse and how, and the layout into which they bring the rest."""

import itertools

import numpy as np
import pytest

import nlattn
from nlattn.arrays.arguments import check_integer
from nlattn.attend.intervals import interval_attention
from nlattn.problem.arguments import checked_problem
from nlattn.problem.masks import visible_keys
from nlattn.testing import BACKENDS, assert_close, dense_attention, to_numpy

FUNCTIONS = [nlattn.exact_attention, nlattn.streaming_attention, nlattn.nystrom_attention]


def draw(heads=2, length=6, s=9, batch=()):
    rng = np.random.default_rng(0)
    return {
        "query": rng.standard_normal((*batch, heads, length, 4)),
        "key": rng.standard_normal((*batch, heads, s, 4)),
        "value": rng.standard_normal((*batch, heads, s, 3)),
    }


def nan_at(x, *index):
    x = x.copy()
    x[index] = np.nan
    return x


Q, K, V = draw().values()
TYPES = {
    "a list": ({"query": Q.tolist()}, "query must be an array, got list; convert it, e.g. with numpy.asarray"),
    "None": ({"key": None}, "key must be an array, got NoneType"),
    "a number": ({"value": 1.0}, "value must be an array, got float"),
    "a masked array": ({"key": np.ma.array(K, mask=K > 0)}, "key is a masked array, whose mask would be lost"),
    "integers": ({"value": V.astype(int)}, "value must have a real floating dtype, got int64; convert it first"),
    "complex": ({"query": Q + 1j}, "query must have a real floating dtype, got complex128"),
    "objects": ({"key": K.astype(object)}, "key must have a real floating dtype, got object"),
    "mixed": ({"key": K.astype(np.float32)}, "must share one dtype, got query float64, key float32, value float64"),
    "extended": (
        {"query": Q.astype(np.longdouble), "key": K.astype(np.longdouble), "value": V.astype(np.longdouble)},
        "convert it to float64",
    ),
    "a list as mask": ({"attn_mask": [True] * 9}, "attn_mask must be an array or None, got list"),
    "integers as mask": (
        {"attn_mask": np.ones((1, 9), int)},
        r"attn_mask must be boolean \(True: attend\) or floating",
    ),
    "complex mask": ({"attn_mask": np.ones((1, 9), complex)}, "attn_mask must be boolean"),
    "scale as text": ({"scale": "0.5"}, "scale must be a number or None, got '0.5'"),
    "scale true": ({"scale": True}, "scale must be a number or None, got True"),
    "scale complex": ({"scale": 1j}, "scale must be a number or None, got 1j"),
    "scale an array": ({"scale": np.array([0.1, 0.2])}, "scale must be a number or None"),
}
VALUES = {
    "one axis": ({"query": Q[0, 0]}, r"query must have at least 2 axes \(..., length, features\), got shape \(4,\)"),
    "no heads here": ({"query": Q[0]}, "must all have a heads axis or none"),
    "features": ({"key": K[..., :3]}, r"same last axis, got shapes \(2, 6, 4\) and \(2, 9, 3\)"),
    "no features": ({"query": Q[..., :0], "key": K[..., :0]}, "need at least one feature"),
    "lengths": (
        {"value": V[:, :8]},
        r"key and value must have the same length, got shapes \(2, 9, 4\) and \(2, 8, 3\)",
    ),
    "heads of values": ({"value": V[:1]}, "key and value must have the same heads"),
    "group": ({"query": np.repeat(Q, 2, 0)[:3]}, "heads of query must be a multiple of those of key, got 3 and 2"),
    "more keys": ({"query": Q[:1]}, "must be a multiple of those of key, got 1 and 2"),
    "no head": ({"query": Q[:0], "key": K[:0], "value": V[:0]}, "need at least one head"),
    "batch": (
        {"query": np.stack([Q] * 2), "key": np.stack([K] * 3)},
        "leading axes of query, key and value must match",
    ),
    "mask length": (
        {"attn_mask": np.ones((1, 8), bool)},
        r"attn_mask must broadcast to \(2, 6, 9\), got shape \(1, 8\)",
    ),
    "mask axes": ({"attn_mask": np.ones((2, 2, 1, 9), bool)}, r"attn_mask must broadcast to \(2, 6, 9\)"),
    "mask NaN": ({"attn_mask": np.array([[np.nan] * 9])}, r"attn_mask contains NaN or \+inf"),
    "mask inf": ({"attn_mask": np.array([[np.inf] * 9])}, r"attn_mask contains NaN or \+inf"),
    "scale NaN": ({"scale": np.nan}, r"scale must be finite, got nan; None means E \*\* -0.5"),
    "scale inf": ({"scale": -np.inf}, "scale must be finite, got -inf"),
    "NaN in query": ({"query": nan_at(Q, 1, 5, 0)}, "query contains NaN or inf; clean it, or pass check_finite=False"),
    "NaN in key": ({"key": nan_at(K, 0, 8)}, "key contains NaN or inf at a position that some query may attend to"),
    "NaN in value": ({"value": nan_at(V, 0, 0, 0)}, "value contains NaN or inf at a position"),
    "inf": ({"value": np.where(V > 1, np.inf, V)}, "value contains NaN or inf at a position"),
}


def refuse(function, change, error, sentence):
    arguments = {**draw(), **change}
    before = {name: x.copy() for name, x in arguments.items() if isinstance(x, np.ndarray)}
    with pytest.raises(error, match=sentence) as caught:
        function(**arguments)
    assert "\n" not in str(caught.value)
    for name, x in before.items():
        np.testing.assert_array_equal(arguments[name], x)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("case", TYPES)
def test_types(function, case):
    if case == "extended" and np.finfo(np.longdouble).bits == 64:
        pytest.skip("no extended precision here")
    refuse(function, TYPES[case][0], TypeError, TYPES[case][1])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("case", VALUES)
def test_values(function, case):
    refuse(function, VALUES[case][0], ValueError, VALUES[case][1])


def test_what_exact_attention_refuses_alone():
    refuse(nlattn.exact_attention, {"dropout_p": 0.1}, ValueError, "dropout_p must be 0, got 0.1")
    one = {"key": K[:1], "value": V[:1]}
    refuse(nlattn.exact_attention, one | {"enable_gqa": False}, ValueError, "pass enable_gqa=True or repeat the keys")


@pytest.mark.parametrize(
    ("function", "change", "error", "sentence"),
    [
        (nlattn.streaming_attention, {"window": 0}, ValueError, "window must be at least 1, got 0"),
        (nlattn.streaming_attention, {"sinks": -1}, ValueError, "sinks must be at least 0, got -1"),
        (nlattn.streaming_attention, {"window": 2.5}, TypeError, "window must be an integer, got 2.5 of type float"),
        (nlattn.streaming_attention, {"sinks": "4"}, TypeError, "sinks must be an integer, got '4' of type str"),
        (nlattn.nystrom_attention, {"landmarks": 0}, ValueError, "landmarks must be at least 1, got 0"),
        (
            nlattn.nystrom_attention,
            {"landmarks": True},
            TypeError,
            "landmarks must be an integer, got True of type bool",
        ),
        (
            nlattn.nystrom_attention,
            {"landmarks": "64"},
            TypeError,
            "landmarks must be an integer, got '64' of type str",
        ),
        (
            nlattn.nystrom_attention,
            {"is_causal": True},
            NotImplementedError,
            "nystrom_attention has no causal form: .*; use",
        ),
        (
            nlattn.nystrom_attention,
            {"attn_mask": np.ones((6, 9), bool)},
            NotImplementedError,
            r"nystrom_attention honours key masks only, .* got shape \(6, 9\); use exact_attention",
        ),
    ],
)
def test_budgets_and_refusals(function, change, error, sentence):
    refuse(function, change, error, sentence)


@pytest.mark.parametrize("wrong", [2.5, "3", None, True, np.True_, np.float64(3), np.array([1, 2]), np.array(2.5), 3j])
def test_budget_must_be_an_integer(wrong):
    with pytest.raises(TypeError, match="rank must be an integer, got"):
        check_integer("rank", wrong)


def test_budget_may_be_any_integer():
    for right in (3, np.int8(3), np.uint64(3), np.array(3)):
        budget = check_integer("rank", right)
        assert (budget, type(budget)) == (3, int)


def test_libraries_and_devices_do_not_mix():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"must come from one array library, got query numpy, key torch, value numpy"):
        nlattn.exact_attention(Q, torch.tensor(K), V)
    with pytest.raises(TypeError, match="attn_mask must come from the library of query, got torch"):
        nlattn.exact_attention(Q, K, V, torch.ones(1, 9, dtype=torch.bool))
    with pytest.raises(ValueError, match="must be on one device, got query on cpu, key on meta"):
        nlattn.exact_attention(torch.tensor(Q), torch.tensor(K, device="meta"), torch.tensor(V))


def test_devices_do_not_mix():
    xp = pytest.importorskip("array_api_strict")
    q, k, v = (xp.asarray(x) for x in (Q, K, V))
    there = xp.Device("device1")
    with pytest.raises(ValueError, match=r"must be on one device, got query on .*, key on .*device1"):
        nlattn.exact_attention(q, xp.asarray(K, device=there), v)
    with pytest.raises(ValueError, match=r"attn_mask must be on the device of query, got .*device1.*; move it first"):
        nlattn.exact_attention(q, k, v, xp.ones((1, 9), dtype=xp.bool, device=there))


def test_unknown_library():
    class Array:
        dtype, shape, ndim = np.dtype(float), (2, 2), 2

        def __array_namespace__(self, api_version=None):
            return type("Namespace", (), {"__name__": "somelib"})()

    with pytest.raises(TypeError, match="somelib"):
        nlattn.exact_attention(Array(), Array(), Array())


def layouts(backend):
    """Problems with all sorts of masks, as (problem, allowed (B, H, L, S)) on a backend."""
    rng = np.random.default_rng(3)
    b, h, g, length, s = 2, 4, 2, 7, 9
    q, k, v = (rng.standard_normal((b, n, m, 4)) for n, m in ((h, length), (g, s), (g, s)))
    for is_causal, axes in itertools.product((False, True), ((), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2), (3,))):
        shape = [1 if axis in axes else n for axis, n in enumerate((b, h, length, s))]
        mask = rng.random(shape) < 0.4
        order = np.arange(s) <= np.arange(length)[:, None] + (s - length if is_causal else s)
        allowed = np.broadcast_to(mask & order, (b, h, length, s))
        for m in (mask, np.where(mask, 0.25, -np.inf)):
            arrays = [backend.array(x) for x in (q, k, v, m)]
            yield (
                checked_problem("test", *arrays[:3], attn_mask=arrays[3], is_causal=is_causal),
                allowed,
                (q, k, v, m, is_causal),
            )


def test_visible_keys(backend):
    for problem, allowed, _ in layouts(backend):
        wanted = allowed.reshape(2, 2, 2, 7, 9).any((2, 3))
        assert np.array_equal(to_numpy(visible_keys(problem)), wanted)


def test_rows(backend):
    """A problem of some rows has the outputs of those rows, also where one is asked for twice."""
    index = np.sort(np.random.default_rng(1).integers(0, 7, (2, 4, 5)), axis=-1)
    for problem, _, (q, k, v, mask, is_causal) in layouts(backend):
        wanted = np.take_along_axis(dense_attention(q, k, v, mask, is_causal).out, index[..., None], axis=2)
        assert_close(
            to_numpy(interval_attention(problem.rows(backend.array(index))).out), wanted, rtol=1e-12, atol=1e-14
        )


@pytest.mark.parametrize(("batch", "heads"), [(0, [0]), (1, [1]), (0, [0, 1]), (1, [2, 3]), (1, [3])])
def test_heads(backend, batch, heads):
    """A problem of some heads of a group has their outputs."""
    for problem, _, (q, k, v, mask, is_causal) in layouts(backend):
        wanted = dense_attention(q, k, v, mask, is_causal).out[batch : batch + 1][:, heads]
        assert_close(to_numpy(interval_attention(problem.heads(batch, heads)).out), wanted, rtol=1e-12, atol=1e-14)


def test_heads_that_are_not_neighbours(backend):
    rng = np.random.default_rng(4)
    q, k, v, mask = (rng.standard_normal((1, h, 6, 4)) for h in (6, 2, 2, 6))
    mask = mask[..., :1] * np.ones(6)
    problem = checked_problem("test", *(backend.array(x) for x in (q, k, v)), attn_mask=backend.array(mask))
    wanted = dense_attention(q, k, v, mask).out[:, [3, 5]]
    assert_close(to_numpy(interval_attention(problem.heads(0, [3, 5])).out), wanted, rtol=1e-12)


def test_nothing_is_copied():
    """Contiguous arrays reach the kernels as they are, keys that a batch shares too."""
    q, k, v = draw(batch=(3,)).values()
    problem = checked_problem("test", q, k, v)
    assert all(
        np.shares_memory(a, b) for a, b in zip((q, k, v), (problem.query, problem.key, problem.value), strict=True)
    )
    problem = checked_problem("test", q, k[:1], v[0])
    assert np.shares_memory(problem.key, k)
    assert np.shares_memory(problem.value, v)
    assert problem.start.strides[:2] == (0, 0)


def test_numpy_scalars_as_scale():
    out = nlattn.exact_attention(Q, K, V, scale=0.25)
    for scale in (np.float32(0.25), np.float64(0.25), np.array(0.25)):
        assert np.array_equal(nlattn.exact_attention(Q, K, V, scale=scale), out)
    assert np.array_equal(nlattn.exact_attention(Q, K, V, scale=1), nlattn.exact_attention(Q, K, V, scale=1.0))


def test_every_backend_is_a_library_of_the_registry():
    assert {backend.library for backend in BACKENDS.values()} == set(nlattn.arrays.namespaces.NAMESPACES)
