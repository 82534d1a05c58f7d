"""Methods that hash and sort, beside exact attention and the `reformer-pytorch` package, where they are installed."""

import numpy as np
import pytest

import nlattn

METHODS = {
    "reformer": lambda q, k, v, **o: nlattn.reformer_attention(q, k, v, 64, 4, rng=0, **o),
    "smyrf": lambda q, k, v, **o: nlattn.smyrf_attention(q, k, v, 128, 4, rng=0, **o),
    "hyper": lambda q, k, v, **o: nlattn.hyper_attention(q, k, v, 256, 256, rng=0, **o),
    "kdeformer": lambda q, k, v, **o: nlattn.kdeformer_attention(q, k, v, 64, 256, rng=0, **o),
}


def noise(n, heads=1):
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((heads, n, 64), dtype=np.float32) for _ in range(3))


def relative(x, exact):
    return float(np.linalg.norm(x - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("multiplicity", ["unique", "sum"])
@pytest.mark.parametrize("n", [4096, 8192, 16384])
@pytest.mark.benchmark(group="Reformer, shared queries and keys, buckets of 64, 8 rounds, 1 head, float32, d = 64")
def test_reformer_beside_its_peer(race, n, multiplicity):
    """Errors from full attention over unit keys, without the own one."""
    torch = pytest.importorskip("torch")
    package = pytest.importorskip("reformer_pytorch")
    rng = np.random.default_rng(0)
    # Neighbours to be found: 64 directions with values of their own, and noise.
    label = rng.integers(0, 64, n)
    q, v = (
        (12 * rng.standard_normal((64, 64))[label] + 3 * rng.standard_normal((n, 64))).astype(np.float32)[None]
        for _ in range(2)
    )
    peer = package.LSHAttention(bucket_size=64, n_hashes=8)
    torch.manual_seed(0)
    arrays = [torch.from_numpy(x) for x in (q, v)]

    def theirs():
        with torch.no_grad():
            return peer(*arrays)[0].numpy()

    def ours():
        return nlattn.reformer_attention(q, q, v, 64, 8, multiplicity=multiplicity, shared_qk=True, rng=0)

    exact = nlattn.reformer_attention(q, q, v, n, shared_qk=True)
    errors = {"nlattn": relative(ours(), exact), "reformer-pytorch": relative(theirs(), exact)}
    race(ours, {"reformer-pytorch": theirs}, errors)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.benchmark(group="hashing methods at their defaults, n = 8192, real heads (3 on 1), float32, d = 64")
def test_hashing_methods_beside_exact(race, real, method, is_causal):
    q, k, v = real(8192, 15)
    exact = nlattn.exact_attention(q, k, v, is_causal=is_causal)

    def ours():
        return METHODS[method](q, k, v, is_causal=is_causal)

    errors = {"nlattn": relative(ours(), exact)}
    race(ours, {"exact": lambda: nlattn.exact_attention(q, k, v, is_causal=is_causal)}, errors)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.benchmark(group="growth of hashing methods, n = 4096 to 65536")
def test_growth(growth, method):
    arrays = {n: noise(n) for n in (4096, 16384, 65536)}
    growth(lambda n: METHODS[method](*arrays[n]), tuple(arrays), 1.0)
