"""multipole_attention, and attention to a tolerance that uses it, beside exact attention on real heads."""

import numpy as np
import pytest

import nlattn

FILES = [(8192, 15), (8192, 25), (32768, 15), (32768, 25)]


def relative(x, exact):
    return float(np.linalg.norm(np.asarray(x, float) - exact) / np.linalg.norm(exact))


def peers(q, k, v):
    """Exact causal attention, also of PyTorch where it is installed."""
    rivals = {"exact": lambda: nlattn.exact_attention(q, k, v, is_causal=True)}
    try:
        import torch
    except ImportError:
        return rivals
    arrays = [torch.from_numpy(x)[None] for x in (q, k, v)]

    def theirs():
        with torch.no_grad():
            return torch.nn.functional.scaled_dot_product_attention(*arrays, is_causal=True, enable_gqa=True)

    return rivals | {"torch": theirs}


def uniform(v, heads):
    """The mean of the values that each row may see."""
    means = np.cumsum(v, axis=1, dtype=float) / np.arange(1, v.shape[1] + 1)[:, None]
    return np.repeat(means, heads // len(v), axis=0)


@pytest.mark.parametrize("near", [256, 1024])
@pytest.mark.parametrize(("n", "layer"), FILES)
@pytest.mark.benchmark(group="multipole attention, SmolLM2, causal, 3 heads on 1, float32, d = 64")
def test_multipole(race, real, n, layer, near):
    q, k, v = real(n, layer)
    exact = nlattn.exact_attention(q, k, v, is_causal=True).astype(float)

    def ours():
        return nlattn.multipole_attention(q, k, v, near, is_causal=True)

    errors = {"nlattn": relative(ours(), exact), "uniform": relative(uniform(v, len(q)), exact)}
    race(ours, peers(q, k, v), errors, rounds=3)


@pytest.mark.parametrize(("n", "layer"), FILES)
@pytest.mark.benchmark(group="attention to 5 %, SmolLM2, causal, 3 heads on 1, float32, d = 64")
def test_attention_to_a_tolerance(race, real, n, layer):
    """Scheme and budget are found in each call."""
    q, k, v = real(n, layer)
    exact = nlattn.exact_attention(q, k, v, is_causal=True).astype(float)

    def ours():
        return nlattn.attention(q, k, v, rtol=0.05, is_causal=True, rng=0).output

    errors = {"nlattn": relative(ours(), exact), "uniform": relative(uniform(v, len(q)), exact)}
    race(ours, peers(q, k, v), errors, rounds=3)


@pytest.mark.parametrize("clusters", ["kmeans", "blocks"])
@pytest.mark.benchmark(group="growth of multipole attention, near = 1024, one head, causal, d = 64")
def test_growth(growth, clusters):
    rng = np.random.default_rng(0)
    inputs = {
        n: [rng.standard_normal((1, n, 64), dtype=np.float32) for _ in range(3)]
        for n in (4096, 8192, 16384, 32768, 65536)
    }

    def call(n):
        return nlattn.multipole_attention(*inputs[n], 1024, clusters=clusters, is_causal=True)

    growth(call, tuple(inputs), 1.15, rounds=2)
