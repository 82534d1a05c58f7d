"""What attention to a tolerance may choose from."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from nlattn.dispatch import backend_name
from nlattn.methods.registry import METHODS, Method
from nlattn.problem.problem import Problem

__all__ = ["Attempt", "Candidate", "count_scores", "find_candidates"]

# A candidate must cost less than this part of exact attention.
WORTH = 0.5
# What the selection of a method with such a causal form may depend on lies in the future.
AHEAD = ("mask", "weights")


class Attempt(NamedTuple):
    """One method and budget that was considered."""

    method: str
    budget: int
    error: Any
    """Relative Frobenius error on the probed rows, shape (..., heads); None where it was not computed."""
    verdict: str


@dataclass(frozen=True)
class Candidate:
    """A method with a value of its first budget argument."""

    record: Method
    budget: int
    cost: float
    """Multiplications over those of exact attention."""
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def by_blocks(self) -> bool:
        """Whether rows come in whole blocks, and what is prepared serves all budgets and heads."""
        return self.record.probe == "query-blocks"

    def prepare(self, problem: Problem) -> Any:
        """All that does not depend on single query rows."""
        others = (budget.default for budget in self.record.budgets[1:])
        return self.record.module()._prepare(problem, self.budget, *others, **dict(self.options))

    def apply(self, state: Any, rows: Problem) -> Any:
        """The output (B, H, m, Ev) of some or all rows of the problem that was prepared."""
        return self.record.module()._apply(state, rows).out


def count_scores(problem: Problem) -> float:
    """The number of scores of exact attention."""
    b, h, _, length, s = problem.shape
    if b * length * s == 0:
        return 0.0
    return b * h * float(problem.xp.sum(problem.stop[0, 0, :] - problem.start[0, 0, :]))


def find_candidates(problem: Problem, lookahead: bool) -> tuple[list[Candidate], list[Attempt]]:
    """Methods and budgets that the arguments allow and that cost less than exact attention, cheapest first."""
    b, h, _, length, s = problem.shape
    sizes = {"L": length, "S": s, "E": problem.query.shape[3], "Ev": problem.value.shape[3]}
    share = count_scores(problem) / (b * h * length * s)
    exact = share * METHODS["exact"].operations(**sizes)
    candidates, refused = [], []
    for record in METHODS.values():
        if not record.searched:
            continue
        reason = _refusal(problem, record, lookahead)
        if reason is not None:
            refused.append(Attempt(record.name, 0, None, reason))
            continue
        blind = problem.is_causal and not lookahead and record.causal in AHEAD
        budget, options = record.budgets[0], record.without_lookahead if blind else ()
        for amount in budget.ladder:
            cost = record.operations(**sizes, **{budget.name: amount}) / exact
            if cost < WORTH:
                candidates.append(Candidate(record, amount, cost, options))
    there = {candidate.record.name for candidate in candidates}
    candidates = [candidate for candidate in candidates if candidate.record.included_in not in there]
    return sorted(candidates, key=lambda candidate: candidate.cost), refused


def _refusal(problem: Problem, record: Method, lookahead: bool) -> str | None:
    masks = [x for x in (problem.mask, problem.bias) if x is not None]
    if problem.is_causal and record.causal is None:
        return "refused: no causal form"
    if problem.is_causal and not lookahead and record.causal in AHEAD and not record.without_lookahead:
        return "refused: its selection looks ahead"
    if masks and (record.masks is None or (record.masks == "keys" and masks[0].shape[2] > 1)):
        return "refused: does not honour this mask"
    if record.compiled and backend_name(type(problem.query)) == "generic":
        return "refused: no faster than exact attention without compiled kernels"
    return None
