"""One pool of threads for all kernels, and the BLAS under it limited to one thread while the pool is at work.

numba's own parallel layers are not used: the workqueue layer aborts the process when two Python threads enter it, and
the omp layer kills forked children.
"""

import contextlib
import contextvars
import ctypes
import itertools
import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  (loads the BLAS that _one_blas_thread limits)
import threadpoolctl
from numpy.typing import NDArray

__all__ = ["run", "scratch", "scratch_arrays", "share", "threads"]

# Bytes of a cache line.
LINE = 64

_state = threading.local()
_pool: ThreadPoolExecutor | None = None
_blas: Any = None
_blas_limit: Any = None
_blas_users = 0
_lock = threading.Lock()
_helpers: list[int] = []
_placed: Any = None
_current_cpu: Any = getattr(ctypes.CDLL(None), "sched_getcpu", None) if os.name == "posix" else None


def threads() -> int:
    """Number of threads that share the work: NLATTN_NUM_THREADS, or the CPUs that this process may use."""
    setting = os.environ.get("NLATTN_NUM_THREADS")
    if setting is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not setting.isdecimal() or int(setting) < 1:
        raise ValueError(f"NLATTN_NUM_THREADS must be a positive integer, got {setting!r}")
    return int(setting)


def run(task: Callable[..., None], tasks: Sequence[tuple[Any, ...]], *, blas: bool = True) -> None:
    """Call ``task(*arguments)`` for each element of `tasks`, in any order, on the pool and the calling thread.

    `task` must release the GIL to gain from it, and must not call `run`: such a nested call runs in its own thread.
    Where no task calls the BLAS, ``blas=False`` saves the time to limit its threads, a twentieth of a millisecond.
    """
    helpers = min(threads(), len(tasks)) - 1
    if getattr(_state, "inside", False):
        helpers = 0
    counter, stop = itertools.count(), threading.Event()

    def work() -> None:
        outer = getattr(_state, "inside", False)
        _state.inside = True
        try:
            while not stop.is_set() and (i := next(counter)) < len(tasks):
                task(*tasks[i])
        except BaseException:
            stop.set()
            raise
        finally:
            _state.inside = outer

    # A helper that is cancelled stays in the queue until a thread comes by: it must not hold on to the arrays.
    box = [work]
    futures = []
    if blas:
        _limit_blas()
    try:
        if helpers:
            executor = _executor()
            _spread()
            # The helpers see the caller's context variables, such as the backend and the floating-point error state.
            futures = [executor.submit(contextvars.copy_context().run, lambda: box[0]()) for _ in range(helpers)]
        work()
        for future in futures:
            # A helper that has not begun is not needed: the tasks are all taken.
            if not future.cancel():
                future.result()
    finally:
        for future in futures:
            if not future.cancel():
                future.exception()
        box.clear()
        if blas:
            _release_blas()


def share(compute: Callable[[NDArray[np.int64]], None], count: int) -> None:
    """Let each thread call a compiled function that takes numbers from 0 to `count` - 1 from a counter (`take`).

    Tasks of some microseconds would lose as much on their way through Python.
    """
    counter = np.zeros(1, np.int64)
    run(compute, [(counter,)] * min(threads(), count), blas=False)


def scratch(size: int, dtype: Any) -> Any:
    """An uninitialised buffer that this thread keeps, so that small calls do not pay for fresh pages."""
    buffers: dict[Any, Any] = _state.__dict__.setdefault("buffers", {})
    buffer = buffers.get(dtype)
    if buffer is None or buffer.size < size:
        # Wide loads from the middle of a cache line take longer: a Walsh-Hadamard transform took a sixth more time.
        loose = np.empty(size + LINE // dtype.itemsize, dtype)
        skip = -loose.ctypes.data % LINE // dtype.itemsize
        buffer = buffers[dtype] = loose[skip : skip + size]
    return buffer


def scratch_arrays(dtype: Any, *shapes: tuple[int, ...]) -> list[Any]:
    """Uninitialised arrays of these shapes, side by side in the buffer of `scratch`."""
    ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
    buffer = scratch(ends[-1], dtype)
    starts = [0, *ends[:-1]]
    return [buffer[i:j].reshape(shape) for i, j, shape in zip(starts, ends, shapes, strict=True)]


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _helpers.clear()
            _pool = ThreadPoolExecutor(
                max(1, threads() - 1), "nlattn", initializer=lambda: _helpers.append(threading.get_native_id())
            )
        return _pool


def _spread() -> None:
    """Keep the pool's threads off the CPU of the calling thread.

    Some schedulers wake them there after a pause, and balance only milliseconds later: a call on 512 keys then took 8
    instead of 5 ms on a virtual machine with two CPUs.
    """
    global _placed
    if _current_cpu is None or not hasattr(os, "sched_setaffinity"):
        return
    others = frozenset(os.sched_getaffinity(0)) - {_current_cpu()}
    place = (others, len(_helpers))
    if others and place != _placed:
        _placed = place
        for thread in tuple(_helpers):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, others)


def _limit_blas() -> None:
    global _blas, _blas_limit, _blas_users
    with _lock:
        if _blas_users == 0:
            if _blas is None:
                _blas = threadpoolctl.ThreadpoolController()
            _blas_limit = _blas.limit(limits=1, user_api="blas")
        _blas_users += 1


def _release_blas() -> None:
    global _blas_limit, _blas_users
    with _lock:
        _blas_users -= 1
        if _blas_users == 0:
            _blas_limit.restore_original_limits()
            _blas_limit = None


def _after_fork() -> None:
    global _pool, _lock, _blas_users, _blas_limit, _placed
    _pool, _lock, _state.inside = None, threading.Lock(), False
    _placed = None
    _helpers.clear()
    if _blas_limit is not None:
        _blas_limit.restore_original_limits()
    _blas_users, _blas_limit = 0, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
