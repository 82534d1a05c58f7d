"""What attention to a tolerance may choose from."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from nlattn.methods.problem import Problem
from nlattn.methods.registry import METHODS, Method

__all__ = ["Attempt", "Candidate", "count_scores", "find_candidates"]

# A candidate must cost less than this part of exact attention.
WORTH = 0.5


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

    def prepare(self, problem: Problem) -> Any:
        """All that does not depend on single query rows."""
        return self.record.module()._prepare(problem, self.budget, *(b.default for b in self.record.budgets[1:]))

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
        if not record.budgets or record.probe != "rows" or not record.deterministic:
            continue
        reason = _refusal(problem, record, lookahead)
        if reason is not None:
            refused.append(Attempt(record.name, 0, None, reason))
            continue
        budget = record.budgets[0]
        for amount in budget.ladder:
            cost = record.operations(**sizes, **{budget.name: amount}) / exact
            if cost < WORTH:
                candidates.append(Candidate(record, amount, cost))
    return sorted(candidates, key=lambda candidate: candidate.cost), refused


def _refusal(problem: Problem, record: Method, lookahead: bool) -> str | None:
    masks = [x for x in (problem.mask, problem.bias) if x is not None]
    if problem.is_causal and record.causal is None:
        return "refused: no causal form"
    if problem.is_causal and not lookahead and record.causal == "weights":
        return "refused: its selection looks ahead"
    if masks and (record.masks is None or (record.masks == "keys" and masks[0].shape[2] > 1)):
        return "refused: does not honour this mask"
    return None
