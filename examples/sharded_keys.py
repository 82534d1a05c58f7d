"""Exact attention over keys that lie with several workers.

Each worker sees its own keys only and returns an output with the log of its softmax mass; the parts merge exactly. Run
it with ``python examples/sharded_keys.py``.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

import nlattn


def main(workers: int = 4) -> None:
    sample = nlattn.datasets.load("whisper", np.float64)
    edges = np.linspace(0, sample.key.shape[1], workers + 1).astype(int).tolist()
    shards = [slice(*pair) for pair in pairwise(edges)]

    def work(shard: slice) -> nlattn.Partial:
        keys, values = sample.key[:, shard], sample.value[:, shard]
        return nlattn.exact_attention(sample.query, keys, values, scale=sample.scale, return_lse=True)

    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(work, shards))
    merged = nlattn.merge_partials(*parts)

    exact = nlattn.exact_attention(sample.query, sample.key, sample.value, scale=sample.scale)
    print(f"{workers} workers, {[shard.stop - shard.start for shard in shards]} keys each")
    print(f"difference to attention over all keys: {np.linalg.norm(merged.out - exact) / np.linalg.norm(exact):.1e}")
    masses = np.exp(np.stack([part.lse for part in parts]) - merged.lse).mean(-1)
    for head in range(masses.shape[1]):
        print(f"head {head}: softmax mass with each worker", np.round(masses[:, head], 3))


if __name__ == "__main__":
    main()
