"""Weights of blocks and samples by plain loops, for one head: what HyperAttention and KDEformer are compared with."""

import itertools

import numpy as np
from hashed_pairs import paired


def draw(length, s, seed=0, e=6):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((length, e)), rng.standard_normal((s, e)), rng.standard_normal((s, 3))


def gray_sequence(bits):
    """The codes in their order, by reflection."""
    return [0] if bits == 0 else (half := gray_sequence(bits - 1)) + [c + 2 ** (bits - 1) for c in reversed(half)]


def estimated_weights(q, k, v, size, samples, seed, *, bits=7, variant="nlattn", probability=None, valid=None):
    """Weights (L, S): 1 in the block of a row, and elsewhere how often a key was drawn / (samples p)."""
    valid = np.ones(len(k), bool) if valid is None else valid
    if variant == "nlattn":
        q, k = q - q.mean(0), k - k[valid].mean(0)
    generator = np.random.default_rng(seed).spawn(1)[0]
    planes = generator.standard_normal((1, 1, bits, q.shape[1]))[0, 0]
    uniform = generator.random((1, samples))[0]
    order = gray_sequence(bits)
    place = {code: i for i, code in enumerate(order)}
    assert all((a ^ b).bit_count() == 1 for a, b in itertools.pairwise(order))
    ours, theirs = (
        [place[int(sum(int(b) << t for t, b in enumerate(row)))] for row in (x @ planes.T > 0)] for x in (q, k)
    )
    keys = [c if m else None for c, m in zip(theirs, valid, strict=True)]
    block = paired(ours, keys, size, False, "rank" if variant == "paper" else "codes")
    ranked = sorted(np.nonzero(valid)[0], key=lambda j: (theirs[j], j))
    p = np.where(valid, 1.0 if probability is None else probability(v, valid), 0.0)
    p = p / p.sum()
    ends = np.cumsum(p[ranked])
    weights = np.zeros(block.shape)
    for u in uniform:
        j = ranked[int(np.sum(ends <= u * ends[-1]))]
        weights[:, j] += 1 / (samples * p[j])
    return np.where(block, 1.0, weights)
