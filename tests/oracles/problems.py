"""Problems of standard normal arrays."""

import numpy as np

from nlattn.problem.arguments import checked_problem

__all__ = ["problem_of"]


def problem_of(xp_array, length, s, *, heads=2, heads_kv=2, batch=1, mask=None, is_causal=False, seed=0):
    """A problem whose arrays are made by `xp_array`."""
    rng = np.random.default_rng(seed)
    shapes = (batch, heads, length, 6), (batch, heads_kv, s, 6), (batch, heads_kv, s, 3)
    arrays = [xp_array(rng.standard_normal(shape)) for shape in shapes]
    return checked_problem("test", *arrays, attn_mask=None if mask is None else xp_array(mask), is_causal=is_causal)
