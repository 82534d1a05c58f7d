"""Which backend runs a kernel, and what happens where one is missing."""

import threading
import warnings
from typing import get_args

import numpy as np
import pytest

import nlattn
from nlattn import dispatch
from nlattn.errors import BackendUnavailable, PerformanceWarning

#: A finder that refuses some modules, for processes of their own.
BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in BLOCKED or name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
"""


def blocked(*names):
    return f"BLOCKED = {set(names)!r}\n{BLOCKER}"


@pytest.fixture
def calls(monkeypatch):
    """Counts the calls of a made-up kernel by version."""
    seen = []

    @dispatch.kernel
    def top_k(x, k):
        seen.append("generic")
        return x

    return seen, top_k


def test_arrays_choose(calls):
    pytest.importorskip("numba")
    seen, top_k = calls
    top_k(np.ones((3, 4)), 2)
    assert seen == []  # numba's took it
    top_k(np.ones((3, 4)), 0)
    assert seen == ["generic"]  # numba's returned NotImplemented
    with nlattn.use_backend("generic"):
        top_k(np.ones((3, 4)), 2)
    assert seen == ["generic"] * 2
    with nlattn.use_backend("numba_cpu"):
        top_k(np.ones((3, 4)), 2)
        top_k(np.ones((3, 4)), 0)  # what it cannot do better is generic here too
    assert seen == ["generic"] * 3

    class Mine(np.ndarray):
        pass

    assert dispatch.backend_name(Mine) == "numba_cpu"
    assert dispatch.backend_name(list) == "generic"


def test_kernel_without_a_compiled_version():
    @dispatch.kernel
    def no_such_kernel(x):
        """What it is."""
        return x + 1

    assert no_such_kernel(np.zeros(1))[0] == 1
    assert (no_such_kernel.__name__, no_such_kernel.__doc__) == ("no_such_kernel", "What it is.")


def test_blocks_nest_and_end():
    pytest.importorskip("numba")
    assert dispatch.backend_name(np.ndarray) == "numba_cpu"
    with nlattn.use_backend("generic"):
        assert dispatch.backend_name(np.ndarray) == "generic"
        with nlattn.use_backend("numba_cpu"):
            assert dispatch.backend_name(np.ndarray) == "numba_cpu"
        assert dispatch.backend_name(np.ndarray) == "generic"
        with pytest.raises(ZeroDivisionError), nlattn.use_backend("numba_cpu"):
            raise ZeroDivisionError
        assert dispatch.backend_name(np.ndarray) == "generic"
    assert dispatch.backend_name(np.ndarray) == "numba_cpu"


def test_blocks_are_local_to_a_thread():
    pytest.importorskip("numba")
    names = []
    with nlattn.use_backend("generic"):
        thread = threading.Thread(target=lambda: names.append(dispatch.backend_name(np.ndarray)))
        thread.start()
        thread.join()
    assert names == ["numba_cpu"]


def test_unknown_name():
    with (
        pytest.raises(ValueError, match="backend must be one of 'generic', 'numba_cpu', got 'tpu'"),
        nlattn.use_backend("tpu"),
    ):
        pass


def test_arrays_that_a_backend_does_not_serve():
    pytest.importorskip("numba")
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 4, requires_grad=True)  # others are lent to NumPy
    sentence = r"backend 'numba_cpu' works on numpy.ndarray, got torch.Tensor; convert the arrays yourself"
    with nlattn.use_backend("numba_cpu"), pytest.raises(BackendUnavailable, match=sentence):
        nlattn.exact_attention(x, x, x)


def test_missing_backend_that_was_asked_for(run_python):
    code = """
import nlattn
from nlattn.errors import BackendUnavailable
try:
    with nlattn.use_backend("numba_cpu"):
        pass
except BackendUnavailable as error:
    print(error, isinstance(error, ImportError))
"""
    assert run_python(blocked("numba") + code) == (
        "backend 'numba_cpu' cannot be used: No module named 'numba'; install 'numba' or use another backend True\n"
    )


def test_without_numba_one_warning(run_python):
    """Without numba, or with one that does not load, results are right, slower, and said so once."""
    code = """
import threading, warnings
import numpy as np, nlattn
x = np.random.default_rng(0).standard_normal((2, 30, 8))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    out = nlattn.exact_attention(x, x, x)
    nlattn.streaming_attention(x, x, x, 4), nlattn.nystrom_attention(x, x, x, 4)
    nlattn.attention(x, x, x)
    thread = threading.Thread(target=nlattn.exact_attention, args=(x, x, x))
    thread.start()
    thread.join()
scores = x @ x.swapaxes(1, 2) / 8**0.5
weights = np.exp(scores)
print(np.abs(out - weights @ x / weights.sum(-1, keepdims=True)).max() < 1e-12)
for warning in caught:
    print(warning.category.__name__, warning.message)
"""
    told = "PerformanceWarning backend 'numba_cpu' cannot be used ({}); the slower generic kernels run instead\n"
    assert run_python(blocked("numba") + code) == "True\n" + told.format("No module named 'numba'")
    broken = "import sys, types\nsys.modules['numba'] = None\n"
    assert run_python(broken + code).startswith("True\nPerformanceWarning backend 'numba_cpu' cannot be used (")
    assert issubclass(PerformanceWarning, UserWarning)


def test_missing_package_of_backends(run_python):
    code = """
import numpy as np, nlattn
from nlattn.errors import BackendUnavailable
x = np.ones((4, 8))
for name in (None, "numba_cpu"):
    try:
        if name is None:
            nlattn.exact_attention(x, x, x)
        else:
            nlattn.use_backend(name).__enter__()
    except BackendUnavailable as error:
        print(error)
with nlattn.use_backend("generic"):
    print(nlattn.exact_attention(x, x, x).shape)
"""
    *told, shape = run_python(blocked("nlattn.backends") + code).splitlines()
    assert len(set(told)) == 1
    assert len(told) == 2
    assert told[0].startswith(
        "nlattn.backends is missing: a clone in the working directory hides the installed package"
    )
    assert "pip install -e ." in told[0]
    assert shape == "(4, 8)"


def test_backends_say_how_many_threads_they_have(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setenv("NLATTN_NUM_THREADS", "3")
    assert dispatch.BACKENDS["numba_cpu"].threads() == 3
    assert {"generic", *dispatch.BACKENDS} == set(get_args(dispatch.BackendName))


def test_warnings_are_errors_here():
    """The suite would not notice a warning otherwise."""
    with pytest.raises(PerformanceWarning):
        warnings.warn("slow", PerformanceWarning, stacklevel=1)
