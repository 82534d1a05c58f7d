"""The search behind attention to a tolerance: probe, choose, check, replace."""

import math
from typing import Any, NamedTuple

import numpy as np

from nlattn.guarantees.candidates import Attempt, Candidate, count_scores, find_candidates
from nlattn.guarantees.certificate import Certificate, certificate, output_range
from nlattn.guarantees.sampling import RowErrors, draw_rows, exact_rows, squares, take_rows, uniform_rows
from nlattn.methods.exact import attend
from nlattn.methods.problem import Problem
from nlattn.rng import private

__all__ = ["Search"]

TOLERANCE = 0x746F6C65  # spawn key of the rows that are drawn here

# The looks at one batch element (or head), and the sizes that the sample of a look may have, share the failure
# probability.
CONFIDENCE, LOOKS = 0.99, 3
PROBE_ROWS = 96
# Rows of a check: a share of all that keeps two of them cheap, within limits; more where few rows carry the sum.
CHECK_SHARE, CHECK_LEAST, CHECK_MOST, CHECK_MORE = 1 / 24, 96, 256, 1 / 16
# A probe must come below this part of rtol, so that the check, of an upper limit, is likely to pass.
PROMISING = 0.65
ACCEPT = 0.8
# The first and last rows are computed exactly: their windows are cut off, and they are the likeliest outliers, too few
# for a sample to meet (measured: one row of 1500 carried 97 % of the squared error of a head).
EDGE = 16
# Approximations that save less of the whole than this do not pay for their check: the first look, and later ones.
SAVING, SAVING_LATER = 0.25, 0.5
# Below this many scores (some 60 ms on two cores) exact attention is not worth a search: that takes about 10 ms.
SMALL = 40_000_000


class Sample(NamedTuple):
    """Rows on which a choice was checked."""

    index: Any
    rows: Problem
    exact: Any
    error: Any
    """Squared row errors (B, H, m)."""


class Search:
    """State: the present choice of a candidate, or None for exact attention, for each batch element and head."""

    def __init__(
        self, problem: Problem, rtol: float, criterion: str, per_head: bool, lookahead: bool, rng: Any
    ) -> None:
        self.problem, self.rtol, self.criterion = problem, rtol, criterion
        self.per_head, self.lookahead = per_head, lookahead
        self.rng = private(rng, TOLERANCE)
        # Float32 rows are exact to about 1e-6, far below the tolerance that they are held against.
        self.double = rtol < 1e-3
        self.tried: list[Attempt] = []
        self.candidates: list[Candidate] = []
        self.states: dict[Candidate, Any] = {}
        b, h, _, length, _ = problem.shape
        self.least = int(np.clip(length * CHECK_SHARE, CHECK_LEAST, CHECK_MOST))
        self.most = min(max(self.least, int(length * CHECK_MORE)), length)
        self.sizes = 1 if criterion == "rows" else 1 + math.ceil(math.log2(max(1, self.most / self.least)))
        self.choice: list[list[Candidate | None]] = [[None] * h for _ in range(b)]

    @np.errstate(invalid="ignore", over="ignore")  # infinite errors, of a NaN that was let through
    def run(self) -> Certificate | None:
        """Set `output`, `choice` and `tried`; return the certificate, None where all heads are exact."""
        if count_scores(self.problem) < SMALL or self.problem.query.shape[2] < 8 * EDGE:
            self.tried.append(Attempt("exact", 0, None, "taken at once: too small for a search to pay"))
            return self._finish(None)
        self._choose()
        for look in range(1, LOOKS + 1):
            self._drop_small_savings(SAVING if look == 1 else SAVING_LATER)
            if self._all_exact():
                return self._finish(None)
            sample, failed, found = self._look()
            if not failed.any():
                return self._finish(sample)
            self._replace(failed, found, raise_budget=look == 1, everything=look == LOOKS)
        # In other batch elements a choice may have passed: what became exact since has no error.
        exact = np.array([[candidate is None for candidate in row] for row in self.choice])
        return self._finish(
            None if self._all_exact() else sample._replace(error=np.where(exact[..., None], 0.0, sample.error))
        )

    # -- choosing -------------------------------------------------------------------------------------------------

    def _choose(self) -> None:
        """Try the candidates on a few rows and give each head the cheapest promising one."""
        self.candidates, refused = find_candidates(self.problem, self.lookahead)
        self.tried.extend(refused)
        if not self.candidates:
            return
        problem = self.problem
        b, h, _, length, _ = problem.shape
        index = np.sort(EDGE + draw_rows(self.rng, b, h, length - 2 * EDGE, PROBE_ROWS), axis=-1)
        rows = take_rows(problem, index)
        exact = exact_rows(rows, double=self.double)
        norms = squares(problem.xp, None, exact)
        size = norms.mean(-1) if self.per_head else np.broadcast_to(norms.mean((-2, -1))[:, None], (b, h))
        unsettled = np.ones((b, h), dtype=bool)
        history: dict[str, list[Any]] = {}
        for candidate in self.candidates:
            name = candidate.record.name
            if not unsettled.any():
                break
            if self._hopeless(history.get(name, []), unsettled):
                self.tried.append(Attempt(name, candidate.budget, None, "skipped: smaller budgets are too far off"))
                continue
            error = squares(problem.xp, candidate.apply(self._state(candidate), rows), exact)
            measure = error.mean(-1) if self.criterion == "frobenius" else np.quantile(error, 0.95, axis=-1)
            error = np.sqrt(measure / np.where(size > 0, size, 1))
            error = np.where((size > 0) | (measure == 0), error, np.inf)
            history.setdefault(name, []).append(error)
            passed = unsettled & (error <= PROMISING * self.rtol)
            verdict = f"promising for {int(passed.sum())} of {b * h} heads"
            self.tried.append(Attempt(name, candidate.budget, problem.per_head(error), verdict))
            for i, j in zip(*np.nonzero(passed), strict=True):
                self.choice[i][j] = candidate
            unsettled &= ~passed

    def _hopeless(self, errors: list[Any], unsettled: Any) -> bool:
        """Whether the next budget will miss for all unsettled heads, going by how the error fell so far."""
        if not errors:
            return False
        last = errors[-1][unsettled]
        if len(errors) == 1:
            return bool(np.all(last > 8 * self.rtol))
        fall = np.clip(last / np.where(errors[-2][unsettled] > 0, errors[-2][unsettled], 1), 0.05, 1.0)
        return bool(np.all(last * fall**2 > self.rtol))

    def _state(self, candidate: Candidate) -> Any:
        if candidate not in self.states:
            self.states[candidate] = candidate.prepare(self.problem)
        return self.states[candidate]

    # -- checking -------------------------------------------------------------------------------------------------

    def _look(self) -> tuple[Sample, Any, Certificate]:
        """Check the present choice on fresh rows: the rows, the heads that failed, and the certificate.

        What passes is looked at again with twice the rows while few of them carry the sum.
        """
        b, h, _, length, _ = self.problem.shape
        least, most = self.least, self.most
        order = draw_rows(self.rng, b, h, length, most)
        sample = self._rows(order[..., :least])
        while True:
            found = self._certificate(sample, None)
            failed = self._failed(sample, found)
            m = sample.index.shape[-1]
            if failed.any() or m >= most or self.criterion == "rows" or not self._concentrated(sample.error):
                return sample, failed, found
            more = self._rows(order[..., m : 2 * m])
            index = np.concatenate([sample.index, more.index], axis=-1)
            exact = self.problem.xp.concat([sample.exact, more.exact], axis=2)
            error = np.concatenate([sample.error, more.error], axis=-1)
            sample = Sample(index, take_rows(self.problem, index), exact, error)

    def _rows(self, index: Any) -> Sample:
        index = np.sort(index, axis=-1)
        problem = self.problem
        rows = take_rows(problem, index)
        exact = exact_rows(rows, double=self.double)
        error = np.zeros(index.shape)
        edge = (index < EDGE) | (index >= problem.query.shape[2] - EDGE)
        for candidate in self._chosen():
            mine = np.array([[c == candidate for c in row] for row in self.choice])
            found = squares(problem.xp, candidate.apply(self._state(candidate), rows), exact)
            error = np.where(mine[..., None] & ~edge, found, error)
        return Sample(index, rows, exact, error)

    def _concentrated(self, error: Any) -> bool:
        """Whether in some batch element the largest 1 % of the squared row errors make more than half of their sum."""
        flat = np.sort(error.reshape(error.shape[0], -1), axis=-1)
        few = max(1, flat.shape[-1] // 100)
        return bool(np.any(flat[:, -few:].sum(-1) > 0.5 * flat.sum(-1)))

    def _certificate(self, sample: Sample, output: Any) -> Certificate:
        """Of a sample; with the output also its range and the uniform baseline."""
        xp = self.problem.xp
        exact = squares(xp, None, sample.exact)
        b, h, *_ = self.problem.shape
        if output is None:
            baseline, largest = np.zeros_like(exact), np.full((b, h), np.inf)
        else:
            baseline = squares(xp, uniform_rows(sample.rows), sample.exact)
            largest = output_range(self.problem, output)
        confidence = 1 - (1 - CONFIDENCE) / (LOOKS * self.sizes)
        return certificate(self.problem, RowErrors(sample.error, exact, baseline), largest, confidence)

    def _failed(self, sample: Sample, found: Certificate) -> Any:
        """The heads (B, H) that keep the criterion from being met."""
        b, h, *_ = self.problem.shape
        scope = self.scope(found)
        if self.criterion == "frobenius":
            failed = ~(scope.upper <= ACCEPT * self.rtol)
        else:
            failed = ~(scope.quantile(0.95) <= self.rtol * scope.norm)
        approximate = np.array([[candidate is not None for candidate in row] for row in self.choice])
        if self.per_head:
            return failed.reshape(b, h) & approximate
        # Over all heads: those above half of their share, and the worst.
        part = sample.error.sum(-1)
        whole = squares(self.problem.xp, None, sample.exact).sum(-1).mean(-1, keepdims=True)
        above = part > (0.5 * self.rtol) ** 2 * whole
        blamed = (above | (part == part.max(-1, keepdims=True))) & approximate
        blamed = np.where(blamed.any(-1, keepdims=True), blamed, approximate)
        return failed.reshape(b, 1) & blamed

    def scope(self, found: Certificate) -> Certificate:
        """The certificate of what the tolerance is for: each head, or all heads of a batch element."""
        return found if self.per_head or found.pooled is None else found.pooled

    def _replace(self, failed: Any, found: Certificate, *, raise_budget: bool, everything: bool) -> None:
        """Give failed heads the next budget of their method, or exact attention."""
        upper = found.upper.reshape(failed.shape)
        for i, row in enumerate(self.choice):
            for j, candidate in enumerate(row):
                drop_all = everything and not self.per_head and failed[i].any()
                if candidate is None or not (failed[i, j] or drop_all):
                    continue
                larger = [c for c in self.candidates if c.record is candidate.record and c.budget > candidate.budget]
                # A miss by far is not mended by one more step.
                row[j] = larger[0] if raise_budget and larger and upper[i, j] < 1.25 * self.rtol else None
                instead = f"budget {row[j].budget}" if row[j] else "exact attention"  # type: ignore[union-attr]
                verdict = f"failed on fresh rows for head {j} of batch element {i}: {instead} instead"
                self.tried.append(Attempt(candidate.record.name, candidate.budget, None, verdict))

    def _drop_small_savings(self, least: float) -> None:
        """Exact attention everywhere where what is left to approximate saves less than it costs to check."""
        costs = [1.0 if candidate is None else candidate.cost for row in self.choice for candidate in row]
        if self._all_exact() or 1 - sum(costs) / len(costs) >= least:
            return
        self.choice = [[None] * len(row) for row in self.choice]
        verdict = "taken for all heads: too few can be approximated for it to pay"
        self.tried.append(Attempt("exact", 0, None, verdict))

    def _chosen(self) -> set[Candidate]:
        return {candidate for row in self.choice for candidate in row if candidate is not None}

    def _all_exact(self) -> bool:
        return not self._chosen()

    # -- computing and reporting ----------------------------------------------------------------------------------

    def _compute(self) -> Any:
        """All rows, each head by its choice."""
        problem = self.problem
        b, h, g, *_ = problem.shape
        kinds = {candidate for row in self.choice for candidate in row}
        if len(kinds) <= 1:
            return self._full(problem, next(iter(kinds), None))
        heads: list[Any] = [None] * (b * h)
        masked = any(x is not None and x.shape[1] > 1 for x in (problem.mask, problem.bias))
        for i in range(b):
            for group in range(g):
                members = range(group * (h // g), (group + 1) * (h // g))
                for kind in {self.choice[i][j] for j in members}:
                    mine = [j for j in members if self.choice[i][j] == kind]
                    # What is prepared for a group depends on the masks of all its heads.
                    run = list(members) if masked else mine
                    part = self._full(problem.heads(i, run), kind)
                    for j in mine:
                        heads[i * h + j] = part[0, run.index(j), ...]
        return problem.xp.reshape(problem.xp.stack(heads), (b, h, *heads[0].shape))

    def _full(self, problem: Problem, candidate: Candidate | None) -> Any:
        if candidate is None:
            return attend(problem).out
        whole = problem is self.problem
        out = candidate.apply(self._state(candidate) if whole else candidate.prepare(problem), problem)
        length = out.shape[2]
        edges = np.r_[:EDGE, length - EDGE : length]
        exact = attend(take_rows(problem, np.broadcast_to(edges, (*out.shape[:2], 2 * EDGE)))).out
        parts = [exact[:, :, :EDGE, :], out[:, :, EDGE : length - EDGE, :], exact[:, :, EDGE:, :]]
        return problem.xp.concat(parts, axis=2)

    def _finish(self, sample: Sample | None) -> Certificate | None:
        self.output = self._compute()
        return None if sample is None else self._certificate(sample, self.output)
