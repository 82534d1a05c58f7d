"""Which pairs meet, and what they weigh, by plain loops and dense arrays: what hashing methods are compared with."""

import numpy as np


def paired(rows, keys, size, look_back, by):
    """For one head: the key block of each query, the block of each valid key (-1: masked), by loops over rows."""
    order = sorted(range(len(rows)), key=lambda i: (rows[i], i))
    sorted_keys = sorted((j for j in range(len(keys)) if keys[j] is not None), key=lambda j: (keys[j], j))
    blocks = max(1, -(-len(sorted_keys) // size))
    block_of = {j: place // size for place, j in enumerate(sorted_keys)}
    step = min(size, max(1, -(-len(rows) * size // len(keys))))
    number = -(-len(rows) // step)
    meets = {}
    for t in range(number):
        some = order[t * step : (t + 1) * step]
        if by == "rank":
            block = t * blocks // number
        else:
            middle = (t * step + min((t + 1) * step, len(rows))) // 2
            code = rows[order[middle]]
            before = sum(1 for j in sorted_keys if keys[j] < code)
            same = sum(1 for j in sorted_keys if keys[j] == code)
            ours = [place for place, i in enumerate(order) if rows[i] == code]
            inside = int((middle - ours[0] + 0.5) / len(ours) * same)
            block = min((before + inside) // size, blocks - 1)
        for i in some:
            meets[i] = {block, (block - 1) % blocks} if look_back else {block}
    return np.array([[block_of.get(j, -1) in meets[i] for j in range(len(keys))] for i in range(len(rows))])


def weighted_attention(q, k, v, weights, scale=None):
    """Rows of softmax attention with weights (L, S) on the exponentials of the scores, and the log of their sums."""
    scores = (q @ k.T) * (q.shape[-1] ** -0.5 if scale is None else scale)
    top = np.where(weights > 0, scores, -np.inf).max(-1, keepdims=True)
    top = np.where(top == -np.inf, 0.0, top)
    masses = weights * np.exp(np.where(weights > 0, scores - top, 0.0))
    total = masses.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return masses @ v / np.where(total == 0, 1.0, total), (top + np.log(total))[:, 0]


def dropped_mass(q, k, v, kept, scale=None):
    """The output that the identity out = exact + m (kept - dropped) gives, m the softmax mass outside of `kept`."""
    exact, lse = weighted_attention(q, k, v, np.ones(kept.shape), scale)
    inside, lse_inside = weighted_attention(q, k, v, kept, scale)
    outside, lse_outside = weighted_attention(q, k, v, ~kept, scale)
    return exact + np.exp(lse_outside - lse)[:, None] * (inside - outside), np.exp(lse_inside - lse)
