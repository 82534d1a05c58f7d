"""A method of one's own: strided attention (arXiv 1904.10509), written in thirty lines and registered.

Run it with ``python examples/own_method.py``; beside the methods of the package in a table with
``nlattn compare --load examples/own_method.py``.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import nlattn
from nlattn.testing import BACKENDS, cases


@nlattn.register
@dataclass(frozen=True)
class Strided(nlattn.Method[Any]):
    """Each query meets its `window` newest keys, and of the earlier ones every `stride`-th."""

    record = nlattn.Record(
        name="strided",
        family="own",
        paper="1904.10509",
        principle="a sliding window and every n-th key before it",
        cost=lambda n, window, stride: n.L * (window + n.S / stride) * (n.E + n.Ev),
        exact_at=lambda n, window, stride: window >= n.S,
        causal="strict",
        masks=None,
        budgets=(
            nlattn.Budget(name="window", ladder=(64, 128, 256, 512), unit="keys"),
            nlattn.Budget(name="stride", ladder=(32, 16, 8), unit="keys between two"),
        ),
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=True,
        probe="rows",
        searched=True,
    )

    window: int = 128
    stride: int = 16

    def prepare(self, problem, rng):
        """Every n-th key and value."""
        return [array[:, :, :: self.stride, :] for array in (problem.key, problem.value)]

    def apply(self, state, rows):
        """The window and the strided keys before it are disjoint: their partials merge to one softmax."""
        xp, (key, value) = rows.xp, state
        start = xp.minimum(xp.clip(rows.position - (self.window - 1), 0, rows.key.shape[2]), rows.stop)
        before = (start + self.stride - 1) // self.stride  # so many strided keys stand before the window
        near = nlattn.interval_attention(replace(rows, start=start))
        far = replace(rows, key=key, value=value, start=xp.zeros_like(start), stop=before)
        return nlattn.merge_partials(near, nlattn.interval_attention(far))


def main() -> None:
    sample = nlattn.datasets.load("smollm2")
    qkv = sample.query, sample.key, sample.value
    options = {"is_causal": sample.is_causal, "scale": sample.scale}

    print("window   stride   error   uniform baseline")
    for window, stride in ((64, 32), (128, 16), (256, 8)):
        out = nlattn.run(Strided(window, stride), *qkv, **options)
        found = nlattn.certify(out, *qkv, rng=0, **options).pooled
        print(f"{window:6d} {stride:8d} {found.error:7.3f} {found.baseline:18.3f}")

    # The conformance suite follows the record: what it promises is tested, what it denies is shown to fail.
    checks = [case for case in cases([Strided()], [BACKENDS["numpy-generic"]]) if not case[0].slow]
    for check, method, backend in checks:
        check(method, backend)
    print(f"\n{len(checks)} checks of the conformance suite pass")

    # Attention to a tolerance tries it like any other, as its record says so.
    many = [np.repeat(x[None], 8, axis=0) for x in qkv]
    tried = {attempt.method for attempt in nlattn.attention(*many, rtol=0.3, rng=0, **options).tried}
    print(f"attention(rtol=0.3) tried {', '.join(sorted(tried))}")


if __name__ == "__main__":
    main()
