"""attention(rtol=...) beside exact attention: what a search costs, and what it saves."""

import numpy as np
import pytest

import nlattn


@pytest.mark.parametrize("rtol", [0.3, 0.1, 0.03, 0.01])
@pytest.mark.parametrize("data", ["noise", "smollm2 15", "smollm2 25"])
@pytest.mark.benchmark(group="attention to a tolerance, causal, n = 8192, 3 heads, float32, d = 64")
def test_tolerance(race, real, rtol, data):
    """Noise always ends in exact attention; real heads do at the smaller tolerances."""
    if data == "noise":
        rng = np.random.default_rng(0)
        q, k, v = (rng.standard_normal((3, 8192, 64), dtype=np.float32) for _ in range(3))
    else:
        q, k, v = real(8192, int(data.split()[1]))
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
