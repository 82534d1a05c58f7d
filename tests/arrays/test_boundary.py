"""The boundary for PyTorch: what is lent to NumPy, what is not, and the way back."""

import contextlib
import dataclasses
import sys
from typing import NamedTuple

import numpy as np
import pytest

from nlattn.arrays.boundary import carrier, keep_tensors, lend, on_numpy
from nlattn.cluster import hyperplane_collision_probability, kmeans
from nlattn.linalg import (
    gaussian_kernel,
    leverage_scores,
    randomized_svd,
    sampled_product,
)
from nlattn.sketch import trigonometric_features

torch = pytest.importorskip("torch")


def tensor(*shape, **options):
    return torch.tensor(np.random.default_rng(0).standard_normal(shape), **options)


class Seen:
    """A function under `on_numpy` that remembers its arguments and returns what it is told."""

    def __init__(self, returned=None, **options):
        self.given = None

        def function(*args, **kwargs):
            self.given = (*args, *kwargs.values())
            return args[0] if returned is None else returned

        self.call = on_numpy(**options)(function) if options else on_numpy(function)


def is_lent(*values):
    return lend(*values) is not None


# -- what is lent -----------------------------------------------------------------------------------------------------


DTYPES = ["bool", "uint8", "uint16", "int8", "int64", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_of_the_same_memory(dtype):
    x = torch.ones(3, 4).to(getattr(torch, dtype))
    seen = Seen()
    back = seen.call(x)
    (array,) = seen.given
    assert isinstance(array, np.ndarray)
    assert array.dtype == dtype
    assert array.ctypes.data == x.data_ptr() == back.data_ptr()
    assert back.dtype == x.dtype
    assert torch.equal(back, x)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[:, ::2],
        lambda x: x[:, :1].expand(4, 5),
        lambda x: x[:0],
        lambda x: x[0, 0],
        lambda x: x.detach(),
        lambda x: torch.nn.Parameter(x, requires_grad=False),
    ],
)
def test_views_keep_their_strides(view):
    x = view(tensor(4, 6))
    seen = Seen()
    back = seen.call(x)
    assert seen.given[0].shape == tuple(x.shape) == tuple(back.shape)
    if x.numel() > 1:
        assert [s // 8 for s in seen.given[0].strides] == list(x.stride())
    assert torch.equal(back, x)


def test_lazy_conjugates_and_negatives_are_resolved():
    z = torch.tensor([1 + 2j, 3 - 1j])
    for x in (z.conj(), z.conj().imag, z.conj().conj()):
        seen = Seen()
        seen.call(x)
        np.testing.assert_array_equal(seen.given[0], x.resolve_conj().resolve_neg().numpy())


def test_tensors_at_any_depth():
    x = tensor(2)
    seen = Seen()
    found = seen.call((x, [x, {"a": x}]), b={"c": None, "d": (1, "e")})
    (_, (_, inner)), options = seen.given
    assert isinstance(inner["a"], np.ndarray)
    assert options == {"c": None, "d": (1, "e")}
    assert torch.equal(found[1][1]["a"], x)


def test_plain_values_do_not_matter():
    x = tensor(2)
    generator, seed = np.random.default_rng(0), np.random.SeedSequence(0)
    assert is_lent(x, None, True, 2, 2.5, 1j, "a", np.float64(1.0), np.int64(1), generator, seed, [], {}, ())
    assert not is_lent(1, None)
    assert not is_lent(np.ones(2))


# -- what is not ------------------------------------------------------------------------------------------------------


class Subclass(torch.Tensor):
    pass


# PyTorch warns that some of these kinds are on their way out.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.requires_grad_(),
        lambda x: x.requires_grad_() * 2,
        lambda x: x.as_subclass(Subclass),
        lambda x: x.to("meta"),
        lambda x: x.to_sparse(),
        lambda x: x.to(torch.float8_e4m3fn),
        lambda x: torch.nested.nested_tensor([x, x[:1]]),
        lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8),
        lambda x: torch._efficientzerotensor((2, 3)),
    ],
)
def test_tensors_that_stay(make):
    x = make(tensor(2, 3))
    assert not is_lent(x)
    assert not is_lent(tensor(2), x)
    seen = Seen()
    assert seen.call(x) is x


@pytest.mark.parametrize(
    "other",
    [
        np.ones(2),
        np.ma.ones(2),
        lambda x: x,
        object(),
        iter([1]),
        np.random.RandomState(0),
        torch.Generator(),
        range(3),
        {1, 2},
    ],
    ids=lambda other: type(other).__name__,
)
def test_calls_with_what_may_hold_an_array_are_not_lent(other):
    assert not is_lent(tensor(2), other)
    assert not is_lent(tensor(2), [{"a": other}])


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_gradients_that_are_not_recorded_are_not_wanted(context):
    x = tensor(3, 4, requires_grad=True)
    with context():
        found = randomized_svd(x, 2, rng=0)
    assert not found.U.requires_grad
    assert torch.equal(found.U, randomized_svd(x.detach(), 2, rng=0).U)


@contextlib.contextmanager
def dual(x):
    with torch.autograd.forward_ad.dual_level():
        yield torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))


@contextlib.contextmanager
def recorded(x):
    class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Recorder():
        yield x


@contextlib.contextmanager
def fake(x):
    with torch._subclasses.FakeTensorMode() as mode:
        yield mode.from_tensor(x)


# Fake tensors and make_fx, which record operations, take seconds to be imported.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("context", [dual, recorded, pytest.param(fake, marks=pytest.mark.slow)])
def test_tensors_of_contexts(context):
    with context(tensor(3)) as x:
        assert not is_lent(x)


def make_fx(function):
    from torch.fx.experimental import proxy_tensor

    return proxy_tensor.make_fx(function)


@pytest.mark.parametrize(
    "transform",
    [
        torch.func.vmap,
        lambda f: torch.func.grad(lambda x: f(x).sum()),
        lambda f: lambda x: torch.func.jvp(f, (x,), (x,)),
        torch.func.functionalize,
        pytest.param(lambda f: make_fx(f), marks=pytest.mark.slow),
        lambda f: lambda x: torch.jit.trace(f, (x,), check_trace=False),
    ],
    ids=["vmap", "grad", "jvp", "functionalize", "make_fx", "trace"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_transformed_and_recorded_tensors(transform):
    lent = []

    def function(x):
        lent.append(is_lent(x))
        return x * 2

    transform(function)(tensor(3, 4))
    assert lent
    assert not any(lent)


def test_transformations_of_the_core():
    """Where tensors stay, the core runs on them: traced values and tangents are not lost."""
    x, projection = tensor(5, 4, 3), tensor(6, 3)
    whole = trigonometric_features(x, projection)
    each = torch.func.vmap(lambda part: trigonometric_features(part, projection))(x)
    torch.testing.assert_close(each, whole)
    tangent = torch.func.jvp(lambda part: trigonometric_features(part, projection), (x,), (torch.ones_like(x),))[1]
    step = 1e-6
    difference = (trigonometric_features(x + step, projection) - whole) / step
    torch.testing.assert_close(tangent, difference, atol=1e-4, rtol=1e-4)


def test_meta_tensors_have_shapes():
    x = torch.empty(5, 3, device="meta", dtype=torch.float64)
    assert trigonometric_features(x, torch.empty(6, 3, device="meta", dtype=torch.float64)).shape == (5, 12)


def test_compiled_functions_see_tensors(monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not is_lent(tensor(2))


def test_kept_tensors():
    with keep_tensors():
        assert not is_lent(tensor(2))
        with keep_tensors():
            pass
        assert not is_lent(tensor(2))
    assert is_lent(tensor(2))


def test_nothing_is_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    assert not is_lent(np.ones(2))
    assert randomized_svd(np.eye(3), 1, rng=0).S.shape == (1,)
    assert "torch" not in sys.modules


# -- the way back -----------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: object
    second: object


@carrier("held")
@dataclasses.dataclass(frozen=True, slots=True)
class Carrier:
    held: object
    note: object = None


def test_results_become_tensors_at_any_depth():
    array = np.arange(6.0).reshape(2, 3)
    returned = Pair([array], {"a": (Carrier(array, array), 1.5, "b", None)})
    found = Seen(returned).call(tensor(1))
    assert isinstance(found, Pair)
    assert found.first[0].data_ptr() == array.ctypes.data
    kept, number, text, nothing = found.second["a"]
    assert isinstance(kept, Carrier)
    assert torch.equal(kept.held, torch.from_numpy(array))
    assert kept.note is array
    assert (number, text, nothing) == (1.5, "b", None)
    assert returned.first[0] is array


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3)[::-1],
        np.broadcast_to(1.0, (2, 3)),
        np.zeros((0, 3))[:, ::-1],
        np.asarray(2.0),
        np.float32(2.0),
        np.int64(3),
        np.bool(True),
        np.arange(6).reshape(2, 3).T,
        np.array([1 + 1j, 2]).real,
        np.frombuffer(b"12345678", np.uint8),
    ],
    ids=str,
)
def test_results_of_any_layout(array):
    found = Seen(array).call(tensor(1))
    assert found.numpy().dtype == array.dtype
    np.testing.assert_array_equal(found.numpy(), array)


def test_carriers_cross_in_both_directions():
    x = tensor(2)
    given = Carrier(x, "note")
    seen = Seen()
    found = seen.call(given)
    assert isinstance(seen.given[0].held, np.ndarray)
    assert seen.given[0].note == "note"
    assert given.held is x
    assert torch.equal(found.held, x)

    class Mine(Carrier):
        pass

    assert not is_lent(x, Mine(x))


def test_bfloat16_goes_through_float32():
    x = tensor(8, 3).bfloat16()
    seen = Seen()
    assert seen.call(x).dtype == torch.float32
    assert seen.given[0].dtype == np.float32
    same = Seen(same_dtype=True)
    assert same.call(x).dtype == torch.bfloat16
    assert same.call(x, tensor(2)).dtype == torch.float32
    assert same.call(x, x > 0).dtype == torch.bfloat16
    assert Seen((np.ones(2), np.arange(2), np.ones(2, complex)), same_dtype=True).call(x)[1].dtype == torch.int64
    assert leverage_scores(x).dtype == torch.float32
    assert gaussian_kernel()(x, x).dtype == torch.bfloat16
    assert hyperplane_collision_probability(torch.abs(x)).dtype == torch.bfloat16


def test_errors_are_those_of_arrays():
    x = tensor(3, 3)
    with pytest.raises(ValueError, match=r"rank must be at most 3 \(the smaller dimension\), got 4"):
        randomized_svd(x, 4)
    with pytest.raises(TypeError, match="a and b must come from one array library, got a torch, b numpy"):
        sampled_product(x, x.numpy(), 2)
    with pytest.raises(TypeError, match="x and centres must come from one array library"):
        kmeans(x, x.numpy())
    with pytest.raises(TypeError, match="rng must be None, an integer, a SeedSequence or a Generator, got Generator"):
        randomized_svd(x, 1, rng=torch.Generator())
