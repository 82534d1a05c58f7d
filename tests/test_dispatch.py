"""Which backend runs a kernel, and what happens where one is missing."""

import ast
import itertools
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import nlattn
from nlattn import dispatch
from nlattn.errors import BackendUnavailable, PerformanceWarning

PACKAGE = Path(nlattn.__file__).parent

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
    x = torch.ones(2, 4)
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


def test_import_is_light(run_python):
    code = "import sys, nlattn; nlattn.METHODS, nlattn.errors, nlattn.use_backend; print(sorted(sys.modules))"
    loaded = ast.literal_eval(run_python(code))
    assert not {"numba", "torch", "cupy", "scipy", "array_api_strict", "pytest"} & set(loaded)


def test_backend_refuses_another_name(run_python):
    code = f"""
import sys
sys.path.insert(0, {str(PACKAGE.parent)!r})
try:
    import backends
except ImportError as error:
    print(error)
"""
    assert run_python(code) == "this package is installed and imported as nlattn.backends, not as backends\n"


#: The floors of the house, from the ground up: what stands on one imports from it and from those below.
LEVELS = [
    {"errors"},
    {"arrays"},
    {"dispatch"},
    {"problem"},
    {"kernels"},
    {"linalg", "sketch", "cluster", "decomp", "datasets"},
    {"select"},
    {"attend"},
    {"methods", "models"},
    {"guarantees", "bounds"},
    {"testing"},
    {"cli", "__main__", "__init__"},
]
LEVEL = {name: i for i, names in enumerate(LEVELS) for name in names}


def imports(path):
    """The modules of nlattn that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            if node.module == "nlattn":
                yield from (f"nlattn.{alias.name}" for alias in node.names)
            elif (node.module or "").startswith("nlattn."):
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "nlattn")


def test_dependencies_point_downwards():
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 20
    wrong = []
    for path in files:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        for module in imports(path):
            if module.startswith("nlattn.backends"):
                wrong.append(f"{'/'.join(parts)} imports {module}")
            elif parts[0] != "__init__" and module != "nlattn":
                target = module.split(".")[1]
                if LEVEL.get(target, LEVEL["methods"]) > LEVEL[parts[0]]:
                    wrong.append(f"{'/'.join(parts)} imports {module}")
    assert wrong == []


def test_backends_import_kernels_at_most():
    folder = Path(next(iter(__import__("nlattn.backends", fromlist=["x"]).__path__)))
    for path in sorted(folder.rglob("*.py")):
        own = f"nlattn.backends.{path.relative_to(folder).parts[0]}"
        for module in imports(path):
            assert module.startswith((own, "nlattn.arrays", "nlattn.kernels", "nlattn.dispatch", "nlattn.errors")), (
                f"{path}: {module}"
            )


def test_warnings_are_errors_here():
    """The suite would not notice a warning otherwise."""
    with pytest.raises(PerformanceWarning):
        warnings.warn("slow", PerformanceWarning, stacklevel=1)


# -- the pool of threads ----------------------------------------------------------------------------------------------


@pytest.fixture
def pool():
    pytest.importorskip("numba")
    from nlattn.backends.numba_cpu.runtime import pool

    return pool


@pytest.fixture
def resize(pool, monkeypatch):
    """Sets the number of threads, for a pool that is made anew."""

    def to(threads):
        monkeypatch.setenv("NLATTN_NUM_THREADS", str(threads))
        monkeypatch.setattr(pool, "_pool", None)

    return to


def results(dtype):
    """Bytes of outputs at sizes where blocks of rows, tiles of keys and segments are cut differently."""
    rng = np.random.default_rng(0)
    for length, s in ((100, 100), (513, 77), (700, 700), (1000, 1300), (2100, 600)):
        q = rng.standard_normal((4, length, 32)).astype(dtype)
        k, v = (rng.standard_normal((2, s, e)).astype(dtype) for e in (32, 24))
        few = 16 if length > 1000 else 32
        yield nlattn.exact_attention(q, k, v)
        yield nlattn.exact_attention(q, k, v, is_causal=True)
        yield nlattn.streaming_attention(q, k, v, window=40)
        yield nlattn.streaming_attention(q, k, v, window=300, is_causal=True)
        yield nlattn.exact_attention(q, k, v, rng.standard_normal((length, s)).astype(dtype))
        for selection in ("segments", "random", "kmeans"):
            yield nlattn.nystrom_attention(q, k, v, few, selection=selection, rng=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_threads_gives_the_same_bits(resize, dtype):
    everything = []
    for threads in (1, 2, 3, 8):
        resize(threads)
        everything.append([x.tobytes() for x in results(dtype)])
    for number, other in zip((2, 3, 8), everything[1:], strict=True):
        differ = [i for i, (a, b) in enumerate(zip(everything[0], other, strict=True)) if a != b]
        assert not differ, f"{number} threads and 1 differ in calls {differ}"


@pytest.mark.parametrize("wrong", ["0", "-1", "two", "1.5", ""])
def test_bad_number_of_threads(pool, monkeypatch, wrong):
    monkeypatch.setenv("NLATTN_NUM_THREADS", wrong)
    x = np.ones((4, 8))
    with pytest.raises(ValueError, match=f"NLATTN_NUM_THREADS must be a positive integer, got '{wrong}'"):
        nlattn.exact_attention(x, x, x)


def test_python_threads_may_call_at_once(resize):
    """Calls from several threads, of several dtypes, do not mix up their buffers."""
    rng = np.random.default_rng(1)
    jobs = []
    for i, dtype in itertools.product(range(6), (np.float32, np.float64)):
        arrays = [rng.standard_normal((2, 200 + 60 * i, 16)).astype(dtype) for _ in range(3)]
        jobs.append((arrays, nlattn.exact_attention(*arrays, is_causal=i % 2 == 0).tobytes(), i % 2 == 0))
    resize(3)
    barrier = threading.Barrier(6)

    def work(number):
        barrier.wait()
        return [
            nlattn.exact_attention(*arrays, is_causal=causal).tobytes() == wanted
            for arrays, wanted, causal in jobs[number:] + jobs[:number]
        ]

    with ThreadPoolExecutor(6) as threads:
        assert all(itertools.chain(*threads.map(work, range(6))))


def blas_threads():
    """The numbers of threads of the BLAS libraries in this process."""
    import threadpoolctl

    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS has one thread")
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_is_limited_while_the_pool_works(pool, resize):
    resize(3)
    during = []

    def outer(i):
        during.append(blas_threads())
        pool.run(lambda j: during.append(blas_threads()), [(j,) for j in range(2)])
        during.append(blas_threads())

    pool.run(outer, [(i,) for i in range(5)])
    assert during == [{1}] * 20
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("threads", [1, 3])
def test_exceptions_in_tasks_reach_the_caller(pool, resize, threads):
    """From the calling thread and from the helpers; the pool and the BLAS are as before."""
    resize(threads)
    for bad in range(6):

        def task(i, bad=bad):
            time.sleep(0.002)
            if i == bad:
                raise KeyError(f"task {i}")

        with pytest.raises(KeyError, match=f"task {bad}"):
            pool.run(task, [(i,) for i in range(6)])
        assert blas_threads() == {2}
    done = []
    pool.run(done.append, [(i,) for i in range(50)])
    assert sorted(done) == list(range(50))


def test_nested_calls_run_in_their_own_thread(pool, resize):
    resize(4)
    seen = []

    def inner(outer, i):
        time.sleep(0.001)  # time for an idle helper to take a task that is not its own
        seen.append((outer, i))
        assert threading.get_ident() == owners[outer]

    owners = {}

    def task(outer):
        owners[outer] = threading.get_ident()
        pool.run(inner, [(outer, i) for i in range(4)])

    pool.run(task, [(i,) for i in range(2)])
    assert sorted(seen) == [(i, j) for i in range(2) for j in range(4)]


def test_no_tasks(pool):
    pool.run(lambda: None, [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_forked_children_compute(run_python):
    """With helpers of their own, also where another thread works or holds the lock, and in a child of a child."""
    pytest.importorskip("numba")
    code = """
import os, threading
import numpy as np, nlattn
from nlattn.backends.numba_cpu.runtime import pool
rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((2, 700, 16)) for _ in range(3))
wanted = nlattn.exact_attention(q, k, v)
stop = threading.Event()
def busy():
    while not stop.is_set():
        nlattn.exact_attention(q, k, v)
thread = threading.Thread(target=busy)
def child(depth):
    pid = os.fork()
    if pid == 0:
        same = np.array_equal(nlattn.exact_attention(q, k, v), wanted)
        same = same and any(thread.name.startswith("nlattn") for thread in threading.enumerate())
        if depth:
            same = same and child(depth - 1) == 0
        os._exit(0 if same else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
codes = [child(1)]
with pool._lock:
    codes += [child(0)]
thread.start()
codes += [child(0) for _ in range(5)]
stop.set()
thread.join()
print(codes, np.array_equal(nlattn.exact_attention(q, k, v), wanted))
"""
    told = run_python(code, options=("-W", "ignore::DeprecationWarning"), NLATTN_NUM_THREADS="3")
    assert told == "[0, 0, 0, 0, 0, 0, 0] True\n"
