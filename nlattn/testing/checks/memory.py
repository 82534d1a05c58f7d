"""A check of memory: there is no temporary array of L x S numbers."""

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np

from nlattn.testing._suite import Subject, check

__all__ = ["check_memory"]


#: Lengths at which arrays of the length outweigh buffers of a fixed size, and an array of L x S bytes would outweigh
#: both.
SIZES = (3072, 6144)


def _peak(subject: Subject, arrays: list[np.ndarray], options: dict[str, Any]) -> int:
    """The largest amount of memory that a call allocates, in bytes."""
    tracemalloc.start()
    try:
        subject.call(*arrays, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@check(lambda record, backend: backend.name == "numpy-numba")
def check_memory(subject: Subject) -> None:
    """The peak of the memory that a call allocates grows with the length n like a power below 1.1."""
    causal = [False] if subject.record.causal is None else [False, True]
    for is_causal in causal:
        options = {"is_causal": is_causal, **subject.budgets(most=128)}
        inputs = [[x.astype(np.float32) for x in subject.draw(n, n, heads=1, e=64, ev=64)] for n in (300, *SIZES)]
        subject.call(*inputs.pop(0), **options)  # loads compiled code
        peaks = [2**60] * len(SIZES)
        for _ in range(2):
            # The largest length comes first. If it makes buffers that stay, a second pass measures without these.
            new = [_peak(subject, arrays, options) for arrays in reversed(inputs)][::-1]
            peaks = [min(pair) for pair in zip(peaks, new, strict=True)]
            exponent = max(math.log2(b / a) for a, b in itertools.pairwise(peaks))
            if exponent < 1.1:
                break
        assert exponent < 1.1, f"causal {is_causal}: peaks of {peaks} bytes, exponent {exponent:.2f}"
