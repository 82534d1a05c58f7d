"""Heavy hitters: the keys that receive the most attention, and a sliding window."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from nlattn.arrays.random import children
from nlattn.arrays.typing import Array, RngLike
from nlattn.attend.chosen_keys import ChosenKeys, attend_to_chosen, choose_keys
from nlattn.attend.intervals import interval_attention
from nlattn.attend.newest_key import with_newest_key
from nlattn.methods.method import Method, run
from nlattn.methods.record import Budget, Record
from nlattn.problem.intervals import window_around
from nlattn.problem.partials import Partial, merge_partials
from nlattn.problem.problem import Problem
from nlattn.select.column_sums import column_sums

__all__ = ["HeavyHitter", "heavy_hitter_attention"]

Variant = Literal["nlattn", "paper"]


def heavy_hitter_attention(
    query: Array,
    key: Array,
    value: Array,
    heavy: int = 128,
    window: int = 128,
    rows: int = 256,
    *,
    variant: Variant = "nlattn",
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: RngLike = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention over a sliding window and the keys that the queries of a head attend to most.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    heavy : int, default 128
        Keys that all queries of a head see as far as they may, at least 1. With S or more it is exact attention.
    window : int, default 128
        As in `streaming_attention`. A heavy key inside the window of a query counts once.
    rows : int, default 256
        Query rows whose attention to each key is summed up. They are drawn without replacement; with L or more all
        rows are taken, and nothing is random.
    variant : {"nlattn", "paper"}, default "nlattn"
        Which keys are heavy. "nlattn": those with the most attention from queries whose windows do not hold them.
        "paper": those with the most attention from all queries.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis.
    is_causal, scale, check_finite
        As for `exact_attention`. The choice of heavy keys looks ahead: past outputs depend on future queries and keys,
        though not on future values.
    rng : None, int, SeedSequence or Generator, default None
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp over the keys that were met.

    Returns
    -------
    out : array, shape (..., heads, L, Ev)

    Notes
    -----
    Source: arXiv 2306.14048, which evicts keys from a cache one by one while it generates; here the sums are those of
    its prefill, over all queries. With `rows` >= L the default holds the most softmax mass, summed over the rows, that
    a window and `heavy` keys common to all rows can hold. On real layers its error was between 3 % above and 19 % below
    that of "paper", and sums divided by the number of queries that may see a key were worse than either.

    A query to which masks or causality leave no such key attends to the newest key that it may see. Gradients take the
    choice as constant. The choice costs rows S E multiplications. Bounds: ``kept_columns``,
    ``dropped_mass_identity``.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> q, k, v, scale, causal = nlattn.datasets.load("smollm2")[:5]
    >>> exact = nlattn.exact_attention(q, k, v, is_causal=causal, scale=scale)
    >>> out = nlattn.heavy_hitter_attention(q, k, v, is_causal=causal, scale=scale, rng=0)
    >>> bool(np.linalg.norm(out - exact) < 0.3 * np.linalg.norm(exact))
    True
    """

    return run(
        HeavyHitter(heavy, window, rows, variant=variant),
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        rng=rng,
        return_lse=return_lse,
        check_finite=check_finite,
    )


@dataclass(frozen=True)
class HeavyHitter(Method[ChosenKeys]):
    """See `heavy_hitter_attention`."""

    record = Record(
        name="heavy_hitter",
        family="sparse",
        paper="2306.14048",
        principle="the keys that queries attend to most, and a sliding window",
        cost=lambda n, heavy, window, rows: n.L * (window + heavy) * (n.E + n.Ev) + rows * n.S * n.E,
        exact_at=lambda n, heavy, window, rows: heavy >= n.S,
        causal="weights",
        masks="keys",
        budgets=(
            Budget(name="heavy", ladder=(32, 64, 128, 256, 512), unit="keys"),
            Budget(name="window", ladder=(32, 64, 128, 256, 512), unit="keys"),
            Budget(name="rows", ladder=(16, 64, 256), unit="queries"),
        ),
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=False,
        probe="rows",
        bounds=("kept_columns", "dropped_mass_identity"),
    )

    heavy: int = 128
    window: int = 128
    rows: int = 256
    variant: Variant = "nlattn"

    def prepare(self, problem: Problem, rng: np.random.Generator) -> ChosenKeys:
        """Sum the attention of drawn rows to each key, and choose the heaviest keys."""
        xp = problem.xp
        b, h, g, length, _ = problem.shape
        sample = problem
        if self.rows < length:
            draws = [
                [own.choice(length, self.rows, replace=False, shuffle=False) for _ in range(h // g)]
                for own in children(rng, b * g)
            ]
            index = np.asarray(draws, dtype=np.int64).reshape(b, h, self.rows)
            sample = problem.rows(np.sort(index, axis=-1))
        sums = column_sums(sample, None if self.variant == "paper" else self.window)
        seen = problem.key_mask()
        if seen is not None:
            sums = xp.where(seen, sums, -xp.inf)
        return choose_keys(problem, sums, self.heavy)

    def apply(self, state: ChosenKeys, rows: Problem) -> Partial:
        """The window of each row, and the heavy keys on both sides of it."""
        start, stop = window_around(rows, self.window)
        parts = [
            interval_attention(replace(rows, start=start, stop=stop)),
            attend_to_chosen(state, rows, rows.start, rows.xp.minimum(start, rows.stop)),
        ]
        if not rows.is_causal:
            parts.append(attend_to_chosen(state, rows, stop, rows.stop))
        return with_newest_key(merge_partials(*parts), rows)
