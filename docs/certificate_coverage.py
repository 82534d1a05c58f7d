"""How often the limits of a certificate hold: prints the table of docs/certificates.md.

Run it with ``python docs/certificate_coverage.py [trials]``. A limit at 99 % should hold in 0.99 of the trials; for
heavy tails no limit from a sample does, and the table says by how much each misses.
"""

import sys

import numpy as np

import nlattn
from nlattn.guarantees.statistics import mean_bound, order_statistic, ratio_upper

POPULATION, ROWS, DELTA = 8192, 256, 0.01


def populations(rng: np.random.Generator) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Squared row errors and squared row norms, by name."""
    ones = np.ones(POPULATION)
    bad = np.full(POPULATION, 1e-4)
    bad[: POPULATION // 1000] = 1.0
    made = {
        "chi-square, 8 degrees": (rng.chisquare(8, POPULATION), rng.chisquare(64, POPULATION)),
        "exponential": (rng.exponential(size=POPULATION), ones),
        "lognormal, sigma 1": (rng.lognormal(0, 1, POPULATION), ones),
        "lognormal, sigma 2": (rng.lognormal(0, 2, POPULATION), ones),
        "0.1 % bad rows": (bad, ones),
        "constant": (0.01 * ones, ones),
    }
    for name in nlattn.datasets.NAMES:
        q, k, v, scale, is_causal = nlattn.datasets.load(name)[:5]
        exact = nlattn.exact_attention(q, k, v, is_causal=is_causal, scale=scale)
        outputs = {"streaming": nlattn.streaming_attention(q, k, v, 128, is_causal=is_causal, scale=scale)}
        if not is_causal:
            outputs["nystrom"] = nlattn.nystrom_attention(q, k, v, scale=scale)
        for method, output in outputs.items():
            worst = np.argmax(((output - exact) ** 2).max(-1).max(-1))
            error = ((output[worst] - exact[worst]).astype(float) ** 2).sum(-1)
            made[f"{name} head {worst}, {method}"] = (error, (exact[worst].astype(float) ** 2).sum(-1))
    return made


def coverage(error: np.ndarray, norm: np.ndarray, trials: int, rng: np.random.Generator) -> tuple[float, ...]:
    """Share of the trials in which each limit held, and the median of upper / true."""
    n = len(error)
    truth, quantile, mean = error.sum() / norm.sum(), np.quantile(np.sqrt(error), 0.95), np.sqrt(error).mean()
    at = order_statistic(ROWS, 0.95, DELTA)
    held = np.zeros(4)
    ratios = []
    for _ in range(trials):
        rows = rng.choice(n, ROWS, replace=False)
        e, r = error[rows], norm[rows]
        upper = ratio_upper(e[None], r[None], n, DELTA)
        d = e - e.sum() / r.sum() * r
        plain = e.sum() / r.sum() + 2.326 * d.std(ddof=1) / np.sqrt(ROWS) * np.sqrt(1 - ROWS / n) / r.mean()
        ratios.append(np.sqrt(upper / truth))
        bound = mean_bound(np.sqrt(e), np.sqrt(error.max()), n, DELTA)
        tests = (
            plain >= truth,
            upper >= truth,
            np.sort(np.sqrt(e))[ROWS - at] >= quantile - 1e-12,
            bound >= mean - 1e-12,
        )
        held += tests
    return (*held / trials, float(np.median(ratios)))


def main(trials: int = 2000) -> None:
    rng = np.random.default_rng(0)
    print("| squared row errors | studentised | `upper` | `upper` / true | `quantile(0.95)` | `mean_bound` |")
    print("|---|---|---|---|---|---|")
    for name, (error, norm) in populations(rng).items():
        plain, upper, quantile, mean, ratio = coverage(error, norm, trials, rng)
        print(f"| {name} | {plain:.3f} | {upper:.3f} | {ratio:.2f} | {quantile:.3f} | {mean:.3f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
