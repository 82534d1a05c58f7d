"""Attention with an error bar, on a head of a real language model.

Run it with ``python examples/error_bar.py``.
"""

import nlattn


def main() -> None:
    sample = nlattn.datasets.load("smollm2")
    qkv = sample.query, sample.key, sample.value
    options = {"is_causal": sample.is_causal, "scale": sample.scale}
    print(f"{sample.about['model']}, layer {sample.layer}, {sample.query.shape[1]} tokens\n")

    # Any output, from any method, can be certified: 256 of 2048 rows are recomputed exactly.
    print("window   error   at most   95 % of the rows within   uniform baseline")
    for window in (64, 256, 1024):
        output = nlattn.streaming_attention(*qkv, window, **options)
        found = nlattn.certify(output, *qkv, rng=0, **options).pooled
        print(
            f"{window:6d} {found.error:7.3f} {found.upper:9.3f} {found.quantile(0.95) / found.norm:17.3f}"
            f" {found.baseline:26.3f}"
        )

    # The other way round: a tolerance, and the cheapest method that is found to reach it, for each head. Eight copies
    # of the sample make the search worth its price; a single one is computed exactly at once.
    many = [x[None].repeat(8, axis=0) for x in qkv]
    result = nlattn.attention(*many, rtol=0.3, rng=0, **options)
    print("\nattention(rtol=0.3), first copy: error", f"{result.error[0]:.3f}")
    for head, (method, budget) in enumerate(zip(result.method[0], result.budget[0], strict=True)):
        print(f"  head {head}: {method}", f"with budget {budget}" if budget else "")


if __name__ == "__main__":
    main()
