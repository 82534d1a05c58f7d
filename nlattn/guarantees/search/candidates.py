"""The candidates from which attention to a tolerance chooses."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nlattn.arrays.typing import Array
from nlattn.dispatch import backend_name
from nlattn.guarantees.search.policy import POLICY
from nlattn.methods.method import BlockMethod, Method
from nlattn.methods.record import Record, Sizes
from nlattn.methods.registry import METHODS
from nlattn.problem.partials import normalised
from nlattn.problem.problem import Problem

__all__ = ["Attempt", "Candidate", "count_scores", "find_candidates"]

#: Causal forms in which what a method selects may depend on future keys.
AHEAD = ("mask", "weights")


class Attempt(NamedTuple):
    """One method and budget that was considered."""

    method: str
    budget: int
    error: np.ndarray | None
    """The relative Frobenius error on the probed rows, of shape (..., heads), or None if it was not computed."""
    verdict: str


@dataclass(frozen=True)
class Candidate:
    """A method with given budgets, and what it costs."""

    method: Method[Any]
    cost: float
    """Its multiplications, divided by those of exact attention."""
    seed: np.random.SeedSequence | None = None
    """The seed of its draws, which are the same for probed rows and for the whole output."""

    @property
    def record(self) -> Record:
        """What the method claims with its options."""
        return self.method.claims

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def budget(self) -> int:
        """The first budget."""
        return next(iter(self.method.budgets.values()), 0)

    @property
    def by_blocks(self) -> bool:
        """Whether its rows are computed in whole blocks, and one preparation serves all budgets and heads."""
        return isinstance(self.method, BlockMethod)

    def prepare(self, problem: Problem, group: int = 0) -> Any:
        """Prepare all that does not depend on single query rows.

        The problem is the whole one, or consists of heads of one `group`, whose draws are those of the whole problem.
        """
        seed = self.seed
        if seed is not None:
            seed = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, n_children_spawned=group)
        return self.method.prepare(problem, np.random.default_rng(seed))

    def apply(self, state: Any, rows: Problem) -> Array:
        """The output (B, H, m, Ev) of some or all rows of the problem that was prepared."""
        return normalised(self.method.apply(state, rows))


def count_scores(problem: Problem) -> float:
    """The number of scores of exact attention."""
    b, h, _, length, s = problem.shape
    if b * length * s == 0:
        return 0.0
    return b * h * float(problem.xp.sum(problem.stop[0, 0, :] - problem.start[0, 0, :]))


def find_candidates(
    problem: Problem, lookahead: bool, seed: np.random.SeedSequence | None = None
) -> tuple[list[Candidate], list[Attempt]]:
    """The candidates that are allowed and cost less than exact attention, cheapest first, and what was refused."""
    b, h, _, length, s = problem.shape
    sizes = Sizes.of(problem)
    share = count_scores(problem) / (b * h * length * s)
    exact = share * METHODS["exact"].cost(sizes)
    candidates, refused = [], []
    for record in METHODS.values():
        if not record.searched:
            continue
        reason = _refusal(problem, record, lookahead)
        if reason is not None:
            refused.append(Attempt(record.name, 0, None, reason))
            continue
        blind = problem.is_causal and not lookahead and record.causal in AHEAD
        method = record.method(**dict(record.without_lookahead) if blind else {})
        for step in method.ladder():
            cost = step.cost(sizes) / exact
            if cost < POLICY.worth and not step.is_exact(sizes):
                candidates.append(Candidate(step, cost, None if step.claims.deterministic else seed))
    there = {candidate.name for candidate in candidates}
    candidates = [candidate for candidate in candidates if candidate.record.included_in not in there]
    return sorted(candidates, key=lambda candidate: candidate.cost), refused


def _refusal(problem: Problem, record: Record, lookahead: bool) -> str | None:
    """Why a method cannot be tried, or None if it can."""
    masks = [x for x in (problem.mask, problem.bias) if x is not None]
    if problem.is_causal and record.causal is None:
        return "refused: no causal form"
    if problem.is_causal and not lookahead and record.causal in AHEAD and not record.without_lookahead:
        return "refused: its selection looks ahead"
    if masks and (record.masks is None or (record.masks == "keys" and masks[0].shape[2] > 1)):
        return "refused: does not honour this mask"
    if record.compiled and backend_name(type(problem.query)) == "generic":
        return "refused: no faster than exact attention without compiled kernels"
    if record.probe == "full":
        return "refused: its rows cannot be had one by one"
    return None
