"""The pool of threads that all compiled kernels share."""

import itertools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nlattn


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
    for length, s in ((100, 100), (513, 77), (1100, 1300)):
        q = rng.standard_normal((4, length, 32)).astype(dtype)
        k, v = (rng.standard_normal((2, s, e)).astype(dtype) for e in (32, 24))
        yield nlattn.exact_attention(q, k, v)
        yield nlattn.exact_attention(q, k, v, is_causal=True)
        yield nlattn.streaming_attention(q, k, v, window=40)
        yield nlattn.streaming_attention(q, k, v, window=300, is_causal=True)
        yield nlattn.exact_attention(q, k, v, rng.standard_normal((length, s)).astype(dtype))
        yield nlattn.multipole_attention(q, k, v, 64)
        yield nlattn.topk_attention(q, k, v, 20)
        for selection in ("segments", "random", "kmeans"):
            yield nlattn.nystrom_attention(q, k, v, 16 if length > 1000 else 32, selection=selection, rng=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_threads_gives_the_same_bits(resize, dtype):
    everything = []
    for threads in (1, 2, 5):
        resize(threads)
        everything.append([x.tobytes() for x in results(dtype)])
    for threads, other in zip((2, 5), everything[1:], strict=True):
        differ = [i for i, (a, b) in enumerate(zip(everything[0], other, strict=True)) if a != b]
        assert not differ, f"{threads} threads and 1 differ in calls {differ}"


@pytest.mark.parametrize("wrong", ["0", "-1", "two", ""])
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
