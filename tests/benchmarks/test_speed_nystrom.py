"""nystrom_attention beside PyTorch's exact attention and the `nystrom-attention` package, where they are installed."""

import numpy as np
import pytest

import nlattn


def peer(q, k, v, landmarks):
    """The attention of the `nystrom-attention` package for given q, k, v: its landmarks and its pseudo-inverse."""
    einops = pytest.importorskip("einops")
    package = pytest.importorskip("nystrom_attention.nystrom_attention")
    q = q * q.shape[-1] ** -0.5
    qm, km = (einops.reduce(x, "... (m l) d -> ... m d", "mean", m=landmarks) for x in (q, k))
    left, core, right = ((a @ b.mT).softmax(-1) for a, b in ((q, km), (qm, km), (qm, k)))
    return (left @ package.moore_penrose_iter_pinv(core, 6)) @ (right @ v)


@pytest.mark.parametrize("data", ["noise", "smollm2"])
@pytest.mark.benchmark(group="nystrom attention, n = 8192, 256 landmarks, 3 heads, float32, d = 64")
def test_nystrom(race, real, data):
    """Not causal: the real heads are used as if each query could see all keys."""
    if data == "noise":
        rng = np.random.default_rng(0)
        q, k, v = (rng.standard_normal((1, 3, 8192, 64), dtype=np.float32) for _ in range(3))
    else:
        q, k, v = (np.repeat(x, 3 // len(x), axis=0)[None] for x in real(8192, 15))
    exact = nlattn.exact_attention(q, k, v)
    others, errors = {"exact": lambda: nlattn.exact_attention(q, k, v)}, {}
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None:
        arrays = [torch.from_numpy(x) for x in (q, k, v)]
        others["torch exact"] = lambda: torch.nn.functional.scaled_dot_product_attention(*arrays)
        try:
            peer(*arrays, 256)
            others["nystrom-attention"] = lambda: peer(*arrays, 256)
            errors["nystrom-attention"] = peer(*arrays, 256).numpy()
        except pytest.skip.Exception:
            pass
    errors["nlattn"] = nlattn.nystrom_attention(q, k, v, 256)
    errors["uniform"] = np.broadcast_to(v.mean(-2, keepdims=True), v.shape)
    errors = {name: float(np.linalg.norm(x - exact) / np.linalg.norm(exact)) for name, x in errors.items()}
    race(lambda: nlattn.nystrom_attention(q, k, v, 256), others, errors)
