"""routing_attention beside routing-transformer, at equal windows and centres, and how its time grows."""

import numpy as np
import pytest

import nlattn


def draw(n, heads=4, e=64):
    rng = np.random.default_rng(0)
    return [rng.standard_normal((1, heads, n, e), dtype=np.float32) for _ in range(3)]


@pytest.mark.parametrize("data", ["noise", "smollm2"])
@pytest.mark.parametrize("variant", ["paper", "nlattn"])
@pytest.mark.benchmark(group="routing attention, n = 8192, window 256, 32 centres, 3 heads, float32, d = 64")
def test_routing(race, real, data, variant):
    """ "paper" computes what the peer does; "nlattn" one softmax for each query, and rows that the peer leaves at 0."""
    torch = pytest.importorskip("torch")
    package = pytest.importorskip("routing_transformer.routing_transformer")
    if data == "noise":
        q, k, v = draw(8192, 3)
    else:
        q, k, v = (np.repeat(x, 3 // len(x), axis=0)[None] for x in real(8192, 15))
    centres = np.random.default_rng(1).standard_normal((3, 32, 64)).astype(np.float32)
    centres /= np.linalg.norm(centres, axis=-1, keepdims=True)
    peer = package.KmeansAttention(32, 256, 3, 64).eval()
    peer.kmeans.means.copy_(torch.from_numpy(centres))
    peer.kmeans.initted.fill_(True)
    arrays = [torch.from_numpy(x) for x in (q, k, v)]
    options = {"centres": centres, "variant": variant, "fallback": "zero" if variant == "paper" else "nearest"}

    def ours():
        return nlattn.routing_attention(q, k, v, 256, **options)

    def theirs():
        with torch.no_grad():
            return peer(*arrays)[0]

    exact = nlattn.exact_attention(q, k, v)
    outs = {"nlattn": ours(), "routing-transformer": theirs().numpy()}
    outs["uniform"] = np.broadcast_to(v.mean(-2, keepdims=True), v.shape)
    errors = {name: float(np.linalg.norm(x - exact) / np.linalg.norm(exact)) for name, x in outs.items()}
    race(ours, {"routing-transformer": theirs, "exact": lambda: nlattn.exact_attention(q, k, v)}, errors)


CALLS = {
    "heavy_hitter": lambda q, k, v: nlattn.heavy_hitter_attention(q, k, v, is_causal=True, rng=0),
    "prescored": lambda q, k, v: nlattn.prescored_attention(q, k, v, is_causal=True, rng=0),
    "routing": lambda q, k, v: nlattn.routing_attention(q, k, v, is_causal=True, rng=0),
    "routing, 32 clusters": lambda q, k, v: nlattn.routing_attention(q, k, v, clusters=32, is_causal=True, rng=0),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.benchmark(group="growth of key selection, budgets fixed, one head, d = 64")
def test_growth(growth, name):
    inputs = {n: draw(n, 1) for n in (4096, 8192, 16384, 32768)}
    growth(lambda n: CALLS[name](*inputs[n]), tuple(inputs), 1.0, rounds=3)
