"""Prescored attention: a few keys, chosen before any query is looked at."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from nlattn.arrays.typing import Array, RngLike
from nlattn.attend.chosen_keys import ChosenKeys, attend_to_chosen, choose_keys
from nlattn.attend.newest_key import with_newest_key
from nlattn.methods.method import Method, run
from nlattn.methods.record import Budget, Record
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.key_scores import distance_scores, leverage_key_scores
from nlattn.select.usable_keys import seen_keys

__all__ = ["Prescored", "prescored_attention"]

Score = Literal["kmeans", "leverage"]


def prescored_attention(
    query: Array,
    key: Array,
    value: Array,
    keep: int = 256,
    *,
    score: Score = "kmeans",
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: RngLike = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention over a few keys that stand out among the keys, chosen without a look at the queries.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    keep : int, default 256
        Keys of each key head that all queries see as far as they may, at least 1. With S or more it is exact attention.
    score : {"kmeans", "leverage"}, default "kmeans"
        Which keys are kept. "kmeans": those whose distance from the centre of their k-means cluster is the largest
        share of the sum of such distances in it, which are outliers and members of small clusters; there are ``keep //
        4`` clusters, at most 256. "leverage": those with the largest leverage scores.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis.
    is_causal, scale, check_finite
        As for `exact_attention`. The choice looks ahead: past outputs depend on future keys.
    rng : None, int, SeedSequence or Generator, default None
        Only for "kmeans".
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp over the kept keys.

    Returns
    -------
    out : array, shape (..., heads, L, Ev)

    Notes
    -----
    Source: arXiv 2505.11040, and for "leverage" arXiv 2410.05462. Departures: attention to the kept keys is exact,
    where the paper approximates it by HyperAttention; each key head has clusters of its own; keys that are not kept
    have no weight at all, where the official code leaves zero vectors in their place; the only key of a cluster is
    kept. A query that may see no kept key attends to the newest key that it may see.

    Queries have no part in the choice, and what is dropped is not replaced. On real heads that is often worse than the
    mean of the values: with 512 keys relative errors were 0.7 to 2.2 on layers of SmolLM2, and 0.15 to 0.66 on layers
    of DINOv2 and Whisper, so certify the output. Gradients take the choice as constant. The choice costs S keep E
    multiplications in each of 10 steps of k-means, or S E^2 for "leverage". Bounds: ``dropped_mass``,
    ``dropped_mass_identity``.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> rng = np.random.default_rng(0)
    >>> key = 0.1 * rng.standard_normal((300, 8))
    >>> key[::15] += 9 * np.sign(rng.standard_normal((20, 8)))  # twenty keys that matter
    >>> query, value = rng.standard_normal((40, 8)), rng.standard_normal((300, 4))
    >>> exact = nlattn.exact_attention(query, key, value)
    >>> out = nlattn.prescored_attention(query, key, value, 30, rng=0)
    >>> bool(np.linalg.norm(out - exact) < 0.2 * np.linalg.norm(exact))
    True
    """

    return run(
        Prescored(keep, score=score),
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
class Prescored(Method[ChosenKeys]):
    """See `prescored_attention`."""

    record = Record(
        name="prescored",
        family="sparse",
        paper="2505.11040",
        principle="keys that stand out among the keys",
        cost=lambda n, keep: n.L * keep * (n.E + n.Ev) + 3 * n.S * keep * n.E,
        exact_at=lambda n, keep: keep >= n.S,
        causal="weights",
        masks="keys",
        budgets=(Budget(name="keep", ladder=(64, 128, 256, 512, 1024), unit="keys"),),
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=False,
        probe="rows",
        bounds=("dropped_mass", "dropped_mass_identity"),
    )

    keep: int = 256
    score: Score = "kmeans"

    @property
    def claims(self) -> Record:
        """Leverage scores draw nothing, do not depend on the order of the keys, and have no gradient of their own."""
        if self.score == "kmeans":
            return self.record
        return replace(self.record, deterministic=True, key_permutation=True, differentiable=False)

    def prepare(self, problem: Problem, rng: np.random.Generator) -> ChosenKeys:
        """Score the keys, and choose those that are kept."""
        xp = problem.xp
        scores = distance_scores(problem, self.keep, rng) if self.score == "kmeans" else leverage_key_scores(problem)
        seen = seen_keys(problem)
        return choose_keys(problem, scores if seen is None else xp.where(seen, scores, -xp.inf), self.keep)

    def apply(self, state: ChosenKeys, rows: Problem) -> Partial:
        """Attention over the kept keys that each row may see, or the newest key where there is none."""
        return with_newest_key(attend_to_chosen(state, rows, rows.start, rows.stop), rows)
