"""Small q, k and v, as files for the command line hold them."""

import numpy as np

__all__ = ["arrays"]


def arrays(*lead, heads=4, heads_kv=2, length=80, s=None, features=8, width=None, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (
        (*lead, heads, length, features),
        (*lead, heads_kv, s or length, features),
        (*lead, heads_kv, s or length, width or features),
    )
    return dict(zip("qkv", (rng.standard_normal(shape).astype(dtype) for shape in shapes), strict=True))
