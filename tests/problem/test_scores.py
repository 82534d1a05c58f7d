"""Methods that look at all scores keep no matrix of them: their tiles have a fixed size."""

import tracemalloc

import numpy as np
import pytest

from nlattn import METHODS, run

LENGTHS = (512, 1024)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "method",
    [METHODS["topk"].method(16), METHODS["loki"].method(16, 4), METHODS["loki"].method(16, 4, form="fused")],
    ids=["topk", "loki", "loki-fused"],
)
def test_memory_is_linear(method, is_causal, monkeypatch):
    monkeypatch.setattr("nlattn.problem.scores.TILE_NUMBERS", 1 << 15)
    peaks = []
    for n in LENGTHS:
        arrays = np.random.default_rng(0).standard_normal((3, n, 16), dtype=np.float32)
        run(method, *arrays, is_causal=is_causal)  # compiled code
        tracemalloc.start()
        run(method, *arrays, is_causal=is_causal)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2.2 * peaks[0]
    assert peaks[1] < LENGTHS[1] ** 2 * 2
