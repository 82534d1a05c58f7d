"""exact_attention (numba) beside PyTorch's scaled_dot_product_attention and the generic NumPy version."""

import numpy as np
import pytest

import nlattn

CASES = [(512, 8, 8), (512, 9, 3), (1024, 8, 8), (1024, 9, 3), (2048, 8, 8), (2048, 9, 3), (4096, 4, 4), (4096, 9, 3)]
CASES += [(8192, 2, 2), (8192, 3, 1), (16384, 1, 1)]

#: Heads, queries, keys and features: wide heads, batches of short sequences, and one query over a cache.
SHAPES = [(8, 2048, 2048, 128), (96, 197, 197, 64), (384, 128, 128, 64), (768, 64, 64, 32)]
SHAPES += [(9, 1, 16384, 64), (32, 1, 4096, 128)]


def generic(*arguments, **options):
    with nlattn.use_backend("generic"):
        return nlattn.exact_attention(*arguments, **options)


def relative(actual, desired):
    return float(np.linalg.norm(np.asarray(actual, dtype=float) - desired) / np.linalg.norm(desired))


def rivals(q, k, v, is_causal):
    """The other implementations that are installed, by name."""
    found = {"generic": lambda: generic(q, k, v, is_causal=is_causal)}
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None:
        arrays = [torch.from_numpy(x) for x in (q, k, v)]
        sdpa = torch.nn.functional.scaled_dot_product_attention
        found["torch"] = lambda: sdpa(*arrays, is_causal=is_causal, enable_gqa=True)
    try:
        import cupy
    except ImportError:
        cupy = None
    if cupy is not None:
        device = [cupy.asarray(x) for x in (q, k, v)]

        def on_device():
            nlattn.exact_attention(*device, is_causal=is_causal)
            cupy.cuda.Device().synchronize()

        found["cupy"] = on_device
    return found


def compete(race, q, k, v, is_causal, rival):
    """Time nlattn beside one rival, since what another leaves behind in caches and the scheduler is not theirs."""
    others = rivals(q, k, v, is_causal)
    if rival not in others:
        pytest.skip(f"{rival} is not installed")
    other = others[rival]
    few = tuple(x[:, :1].astype(float) for x in (q, k, v))
    exact = nlattn.exact_attention(*few, is_causal=is_causal)
    outputs = {"nlattn": nlattn.exact_attention(q, k, v, is_causal=is_causal)}
    if rival != "cupy":
        outputs[rival] = other()
    errors = {name: relative(output[:, :1], exact) for name, output in outputs.items()}
    rounds = 15 if max(q.shape[2], k.shape[2]) < 4096 else 9
    race(lambda: nlattn.exact_attention(q, k, v, is_causal=is_causal), {rival: other}, errors, rounds)


@pytest.mark.parametrize("rival", ["torch", "generic", "cupy"])
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("n", "heads", "heads_kv"), CASES)
@pytest.mark.benchmark(group="exact attention, float32, d = 64")
def test_exact(race, n, heads, heads_kv, is_causal, rival):
    rng = np.random.default_rng(n)
    q = rng.standard_normal((1, heads, n, 64), dtype=np.float32)
    k, v = (rng.standard_normal((1, heads_kv, n, 64), dtype=np.float32) for _ in range(2))
    compete(race, q, k, v, is_causal, rival)


@pytest.mark.parametrize("rival", ["torch", "generic"])
@pytest.mark.parametrize(("heads", "length", "s", "d"), SHAPES)
@pytest.mark.benchmark(group="exact attention of other shapes, float32")
def test_shapes(race, heads, length, s, d, rival):
    rng = np.random.default_rng(s)
    q = rng.standard_normal((1, heads, length, d), dtype=np.float32)
    k, v = (rng.standard_normal((1, heads, s, d), dtype=np.float32) for _ in range(2))
    compete(race, q, k, v, False, rival)
