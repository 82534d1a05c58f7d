"""Check of memory: no temporary of L x S."""

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np

from nlattn.testing._suite import Subject, check

__all__ = ["check_memory"]


#: Lengths above all default budgets, from which on arrays of the length outweigh buffers of a fixed size.
SIZES = (2048, 4096, 8192)


def _peak(subject: Subject, arrays: list[Any], options: dict[str, Any]) -> int:
    tracemalloc.start()
    try:
        subject.call(*arrays, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@check(lambda record, backend: backend.name == "numpy-numba")
def check_memory(subject: Subject) -> None:
    """Peak extra memory grows with n to a power below 1.1, at the budgets' defaults."""
    defaults = subject.method.budgets
    causal = [False] if subject.record.causal is None else [False, True]
    for is_causal in causal:
        options = {"is_causal": is_causal, **defaults}
        inputs = [[x.astype(np.float32) for x in subject.draw(n, n, heads=1, e=64, ev=64)] for n in SIZES]
        subject.call(*inputs[0], **options)  # compiled code
        peaks = [2**60] * len(SIZES)
        for _ in range(2):
            # The largest first; where that makes buffers that stay, a second pass does without.
            new = [_peak(subject, arrays, options) for arrays in reversed(inputs)][::-1]
            peaks = [min(pair) for pair in zip(peaks, new, strict=True)]
            exponent = max(math.log2(b / a) for a, b in itertools.pairwise(peaks))
            if exponent < 1.1:
                break
        assert exponent < 1.1, f"causal {is_causal}: peaks of {peaks} bytes, exponent {exponent:.2f}"
