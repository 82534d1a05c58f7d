"""attention(rtol=...) beside exact attention: what a search costs, and what it saves."""

import numpy as np
import pytest

import nlattn


@pytest.mark.parametrize("rtol", [0.3, 0.1, 0.03, 0.01])
@pytest.mark.parametrize("n", [8192, 16384])
@pytest.mark.parametrize("data", ["noise", "smollm2"])
@pytest.mark.benchmark(group="attention to a tolerance, causal, 3 heads, float32, d = 64")
def test_tolerance(race, n, rtol, data):
    """Noise always ends in exact attention; the tiled sample repeats itself, so it flatters no window."""
    if data == "noise":
        rng = np.random.default_rng(0)
        q, k, v = (rng.standard_normal((3, n, 64), dtype=np.float32) for _ in range(3))
    else:
        q, k, v = (np.tile(x, (1, n // 2048, 1)) for x in nlattn.datasets.load("smollm2")[:3])
    exact = nlattn.exact_attention(q, k, v, is_causal=True)
    result = nlattn.attention(q, k, v, rtol, is_causal=True, rng=0)
    errors = {
        "true": float(np.linalg.norm(result.output - exact) / np.linalg.norm(exact)),
        "estimated": float(result.error),
    }
    race(
        lambda: nlattn.attention(q, k, v, rtol, is_causal=True, rng=0),
        {"exact": lambda: nlattn.exact_attention(q, k, v, is_causal=True)},
        errors,
    )
