"""The output that belongs to a choice of candidates; heads are computed again when their choice has changed."""

from typing import Any

import numpy as np

from nlattn.arrays.typing import Array
from nlattn.attend.intervals import interval_attention
from nlattn.guarantees.search.candidates import Candidate
from nlattn.guarantees.search.policy import POLICY
from nlattn.methods.method import BlockMethod
from nlattn.problem.problem import Problem

__all__ = ["Choice", "Outputs"]

#: The candidate of each batch element and head, or None for exact attention.
Choice = list[list[Candidate | None]]


class Outputs:
    """The present output of all heads, and the states that were prepared for it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        b, h, *_ = problem.shape
        self.output: Any = None
        self._computed: list[list[Any]] = [[False] * h for _ in range(b)]
        self._states: dict[Any, Any] = {}

    def state(self, candidate: Candidate) -> Any:
        """What a candidate prepares for all heads, made once. For methods in blocks one state serves all budgets."""
        key = candidate.name if candidate.by_blocks else candidate.method
        if key not in self._states:
            self._states[key] = candidate.prepare(self.problem)
        return self._states[key]

    def on_blocks(self, candidate: Candidate, budgets: Any, heads: Any, rows: Problem, numbers: Any = None) -> Array:
        """The output of some blocks, or of all rows, at a budget for each head; 0 for heads that are left out."""
        method = candidate.method
        assert isinstance(method, BlockMethod)
        state = method.with_budgets(self.state(candidate), budgets, heads)
        part = method.apply(state, rows) if numbers is None else method.apply_blocks(state, rows, numbers)
        return part.out  # type: ignore[union-attr]

    def compute(self, choice: Choice) -> None:
        """Compute all rows of the heads whose choice has changed."""
        problem, xp = self.problem, self.problem.xp
        b, h, g, *_ = problem.shape
        new = [(i, j) for i in range(b) for j in range(h) if choice[i][j] != self._computed[i][j]]
        self._computed = [list(row) for row in choice]
        heads: dict[tuple[int, int], Any] = {}
        for whole, mine in self._calls(choice, new):
            i, j = mine[0]
            candidate = choice[i][j]
            if whole:
                if candidate is not None and candidate.by_blocks:
                    output = self._by_blocks(choice, candidate, mine)
                else:
                    output = self._full(problem, candidate, None)
                if len(mine) == b * h:
                    self.output = output
                    return
                heads |= {(i, j): output[i, j, ...] for i, j in mine}
                continue
            run = self._together(mine)
            part = self._full(problem.heads(i, run), candidate, i * g + j // (h // g))
            heads |= {(i, j): part[0, run.index(j), ...] for i, j in mine}
        if heads:
            every = [heads[i, j] if (i, j) in heads else self.output[i, j, ...] for i in range(b) for j in range(h)]
            self.output = xp.reshape(xp.stack(every), (b, h, *every[0].shape))

    def _calls(self, choice: Choice, heads: list[tuple[int, int]]) -> list[tuple[bool, list[tuple[int, int]]]]:
        """Which heads are computed together, and whether by a call on the whole problem or on a part of one group."""
        b, h, g, *_ = self.problem.shape
        calls: dict[Any, list[tuple[int, int]]] = {}
        for i, j in heads:
            candidate = choice[i][j]
            by_blocks = candidate is not None and candidate.by_blocks
            key = candidate.name if candidate is not None and by_blocks else (candidate, i, j // (h // g))
            calls.setdefault(key, []).append((i, j))
        if len({choice[i][j] for i, j in heads}) == 1 and len(heads) == b * h:
            return [(True, heads)]
        return [(isinstance(key, str), mine) for key, mine in calls.items()]

    def _together(self, heads: list[tuple[int, int]]) -> list[int]:
        """These heads of one group, or all of its heads where what is prepared depends on all their masks."""
        _, h, g, *_ = self.problem.shape
        if not any(x is not None and x.shape[1] > 1 for x in (self.problem.mask, self.problem.bias)):
            return [j for _, j in heads]
        group = heads[0][1] // (h // g)
        return list(range(group * (h // g), (group + 1) * (h // g)))

    def _by_blocks(self, choice: Choice, candidate: Candidate, heads: list[tuple[int, int]]) -> Array:
        """The output from one preparation for all heads, of which only some are computed."""
        budgets = np.zeros(self.problem.shape[:2], dtype=np.int64)
        mine = np.zeros(self.problem.shape[:2], dtype=bool)
        for i, j in heads:
            own = choice[i][j]
            assert own is not None
            budgets[i, j], mine[i, j] = own.budget, True
        return self.on_blocks(candidate, budgets, mine, self.problem)

    def _full(self, problem: Problem, candidate: Candidate | None, group: int | None) -> Array:
        """The output of all heads, or of some heads of one `group`. The first and last rows are computed exactly."""
        if candidate is None:
            return interval_attention(problem).out
        state = self.state(candidate) if group is None else candidate.prepare(problem, group)
        out = candidate.apply(state, problem)
        edge, length = POLICY.edge, out.shape[2]
        edges = np.r_[:edge, length - edge : length]
        exact = interval_attention(problem.rows(np.broadcast_to(edges, (*out.shape[:2], 2 * edge)))).out
        parts = [exact[:, :, :edge, :], out[:, :, edge : length - edge, :], exact[:, :, edge:, :]]
        return problem.xp.concat(parts, axis=2)
