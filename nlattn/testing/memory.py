"""Check of memory: no temporary of L x S."""

import math
import tracemalloc

import numpy as np

from nlattn.testing.suite import Subject, check

__all__ = ["check_memory"]


@check(lambda method, backend: backend.name == "numpy-numba")
def check_memory(subject: Subject) -> None:
    """Peak extra memory grows with n to a power below 1.1, at the budgets' defaults."""
    defaults = {budget.name: budget.default for budget in subject.method.budgets}
    causal = [False] if subject.method.causal is None else [False, True]
    for is_causal in causal:
        peaks = []
        for n in (2048, 4096, 8192):
            arrays = [x.astype(np.float32) for x in subject.draw(n, n, heads=1, e=64, ev=64)]
            if n == 2048:  # compiled code and buffers that stay
                subject.call(*arrays, is_causal=is_causal, **defaults)
            tracemalloc.start()
            try:
                subject.call(*arrays, is_causal=is_causal, **defaults)
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        exponent = max(math.log2(b / a) for a, b in zip(peaks, peaks[1:], strict=False))
        assert exponent < 1.1, f"causal {is_causal}: peaks of {peaks} bytes, exponent {exponent:.2f}"
