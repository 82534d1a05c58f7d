"""The choice behind attention to a tolerance: probe, choose, check, replace."""

import math
from typing import Literal

import numpy as np

from nlattn.arrays.random import private
from nlattn.arrays.rows import take_rows
from nlattn.arrays.typing import Array, RngLike
from nlattn.guarantees.certificate import Certificate, certificate, output_range
from nlattn.guarantees.sampling import RowErrors, draw_rows, exact_rows, squares, uniform_rows
from nlattn.guarantees.search.candidates import Attempt, Candidate, count_scores, find_candidates
from nlattn.guarantees.search.outputs import Choice, Outputs
from nlattn.guarantees.search.policy import POLICY
from nlattn.guarantees.search.sample import Probe, Sample
from nlattn.methods.method import BlockMethod
from nlattn.problem.problem import Problem

__all__ = ["Criterion", "Search"]

Criterion = Literal["frobenius", "rows"]


class Search:
    """One search: it keeps the present candidate of each batch element and head, which is None for exact attention."""

    def __init__(
        self, problem: Problem, rtol: float, criterion: Criterion, per_head: bool, lookahead: bool, rng: RngLike
    ) -> None:
        self.problem, self.rtol, self.criterion = problem, rtol, criterion
        self.per_head, self.lookahead = per_head, lookahead
        self.rng = private(rng, POLICY.tolerance)
        self.seed = np.random.SeedSequence(int(self.rng.integers(2**63)))
        # Rows in float32 are exact to about 1e-6, far below the tolerances that they are compared with.
        self.double = rtol < 1e-3
        self.tried: list[Attempt] = []
        self.candidates: list[Candidate] = []
        b, h, _, length, _ = problem.shape
        self.least = int(np.clip(length * POLICY.check_share, POLICY.check_least, POLICY.check_most))
        self.most = min(max(self.least, min(int(length * POLICY.check_more), POLICY.check_long)), length)
        self.sizes = 1 if criterion == "rows" else 1 + math.ceil(math.log2(max(1, self.most / self.least)))
        self.choice: Choice = [[None] * h for _ in range(b)]
        self.outputs = Outputs(problem)

    @np.errstate(invalid="ignore", over="ignore")  # errors are infinite where a NaN was let through
    def run(self) -> Certificate | None:
        """Set `outputs`, `choice` and `tried`, and return the certificate, or None where all heads are exact."""
        if count_scores(self.problem) < POLICY.small or self.problem.query.shape[2] < 8 * POLICY.edge:
            self.tried.append(Attempt("exact", 0, None, "taken at once: too small for a search to pay"))
            return self._finish(None)
        self._choose()
        for look in range(1, POLICY.looks + 1):
            self._drop_small_savings(POLICY.saving if look == 1 else POLICY.saving_later)
            if self._all_exact():
                return self._finish(None)
            self.outputs.compute(self.choice)
            sample, failed, found = self._look()
            while look == POLICY.looks and failed.any():
                # Heads that become exact have no error any more.
                self._replace(failed, found, last=True)
                exact = np.array([[candidate is None for candidate in row] for row in self.choice])
                sample = sample._replace(error=np.where(exact[..., None], 0.0, sample.error))
                found = self._certificate(sample, None)
                failed = self._failed(sample, found)
            if not failed.any():
                return self._finish(None if self._all_exact() else sample)
            self._replace(failed, found, last=False)
        raise AssertionError

    # -- choosing -------------------------------------------------------------------------------------------------

    def _choose(self) -> None:
        """Try the candidates on a few rows, and give each head the cheapest promising one."""
        self.candidates, refused = find_candidates(self.problem, self.lookahead, self.seed)
        self.tried.extend(refused)
        b, h, _, _, _ = self.problem.shape
        unsettled = np.ones((b, h), dtype=bool)
        history: dict[str, tuple[int, np.ndarray]] = {}
        probes: dict[bool, Probe] = {}
        size: np.ndarray | None = None
        settled = np.zeros((b, h))
        for candidate in self.candidates:
            name = candidate.name
            if not unsettled.any():
                break
            if self._hopeless(history.get(name), candidate.budget, unsettled):
                self.tried.append(Attempt(name, candidate.budget, None, "skipped: smaller budgets are too far off"))
                continue
            probe = self._probe(candidate, probes)
            norms = squares(None, probe.exact)
            if size is None:
                size = norms.mean(-1) if self.per_head else np.broadcast_to(norms.mean((-2, -1))[:, None], (b, h))
            output = self._on(candidate, probe, unsettled)
            error, expected = self._expected(squares(output[:, :, :: probe.stride, :], probe.exact), size)
            history[name] = candidate.budget, error
            passed = unsettled & (expected <= POLICY.promising * self.rtol)
            if not self.per_head:
                # The other heads may use what the settled ones leave of the tolerance.
                square = np.where(unsettled, expected, settled) ** 2
                passed = unsettled & (passed | (square.mean(-1, keepdims=True) <= (POLICY.promising * self.rtol) ** 2))
            settled = np.where(passed, expected, settled)
            verdict = f"promising for {int(passed.sum())} of {b * h} heads"
            shown = self.problem.per_head(np.where(unsettled, error, np.nan))
            self.tried.append(Attempt(name, candidate.budget, shown, verdict))
            for i, j in zip(*np.nonzero(passed), strict=True):
                self.choice[i][j] = candidate
            unsettled &= ~passed

    def _expected(self, squares: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The relative error of each head, and about what its upper limit in a check will be.

        The limit is larger where few of the squared row errors (B, H, m) carry their sum. `size` (B, H) is the mean
        squared row norm that errors are relative to.
        """
        if self.criterion == "rows":
            measure = margin = np.quantile(squares, 0.95, axis=-1)
        else:
            measure = squares.mean(-1)
            rows = self.least * (1 if self.per_head else squares.shape[1])
            margin = measure + POLICY.tail * squares.std(-1) / math.sqrt(rows)
        known = (size > 0) | (measure == 0)
        error, expected = (np.sqrt(x / np.where(size > 0, size, 1)) for x in (measure, margin))
        return np.where(known, error, np.inf), np.where(known, expected, np.inf)

    def _probe(self, candidate: Candidate, probes: dict[bool, Probe]) -> Probe:
        """Random rows, or random blocks of rows if some candidate needs blocks; these serve all others too."""
        blocks = next((c for c in self.candidates if c.by_blocks), None)
        if not probes:
            problem = self.problem
            b, h, _, length, _ = problem.shape
            if blocks is not None:
                method, state = blocks.method, self.outputs.state(blocks)
                assert isinstance(method, BlockMethod)
                full = np.asarray(method.blocks(state))
                numbers = np.sort(self.rng.permutation(full)[: POLICY.probe_blocks])
                index = method.block_rows(state, problem, numbers)
                few = problem.rows(index[..., :: POLICY.probe_stride])
                exact = exact_rows(few, double=self.double)
                probes[True] = Probe(problem.rows(index), numbers, POLICY.probe_stride, exact)
            else:
                inner = length - 2 * POLICY.edge
                drawn = np.sort(POLICY.edge + draw_rows(self.rng, b, h, inner, POLICY.probe_rows), axis=-1)
                few = problem.rows(drawn)
                exact = exact_rows(few, double=self.double)
            probes[False] = Probe(few, None, 1, exact)
        return probes[candidate.by_blocks]

    def _on(self, candidate: Candidate, probe: Probe, heads: np.ndarray) -> Array:
        """The output of a candidate on the rows of a probe, right at least for the heads that are True (B, H)."""
        if not candidate.by_blocks:
            return candidate.apply(self.outputs.state(candidate), probe.rows)
        budgets = np.full(heads.shape, candidate.budget)
        return self.outputs.on_blocks(candidate, budgets, heads, probe.rows, probe.numbers)

    def _hopeless(self, last: tuple[int, np.ndarray] | None, budget: int, unsettled: np.ndarray) -> bool:
        """Whether this budget would fail for all unsettled heads, going by the last smaller one and its errors."""
        if last is None:
            return False
        fall = (budget / last[0]) ** POLICY.fastest
        return bool(np.all(last[1][unsettled] > fall * POLICY.promising * self.rtol))

    # -- checking -------------------------------------------------------------------------------------------------

    def _look(self) -> tuple[Sample, np.ndarray, Certificate]:
        """Check the output on fresh rows. Returns the rows, the heads that failed, and the certificate.

        The output is looked at again with twice the rows where few of them carry the sum of an output that passes, or
        where an estimate is well below the limit that its upper limit exceeds: more rows are cheaper than another
        output.
        """
        b, h, _, length, _ = self.problem.shape
        least, most = self.least, self.most
        order = draw_rows(self.rng, b, h, length, most)
        sample = self._rows(order[..., :least])
        while True:
            found = self._certificate(sample, None)
            failed = self._failed(sample, found)
            m = sample.drawn.shape[-1]
            if m >= most or self.criterion == "rows" or not self._undecided(sample, failed, found):
                return sample, failed, found
            more = self._rows(order[..., m : 2 * m])
            drawn = np.concatenate([sample.drawn, more.drawn], axis=-1)
            exact = self.problem.xp.concat([sample.exact, more.exact], axis=2)
            error = np.concatenate([sample.error, more.error], axis=-1)
            sample = Sample(drawn, self.problem.rows(drawn), exact, error)

    def _rows(self, index: np.ndarray) -> Sample:
        """The exact output and the errors of some rows (B, H, m)."""
        index = np.sort(index, axis=-1)
        problem, xp = self.problem, self.problem.xp
        rows = problem.rows(index)
        exact = exact_rows(rows, double=self.double)
        taken = xp.asarray(index, device=problem.start.device)
        found = squares(take_rows(self.outputs.output, taken), exact)
        approximate = np.array([[candidate is not None for candidate in row] for row in self.choice])
        return Sample(index, rows, exact, np.where(approximate[..., None], found, 0.0))

    def _undecided(self, sample: Sample, failed: np.ndarray, found: Certificate) -> bool:
        """Whether more rows might change the verdict."""
        if not failed.any():
            return self._concentrated(sample.error)
        scope = self.scope(found)
        return not np.any(scope.error > POLICY.near * POLICY.accept * self.rtol)

    def _concentrated(self, error: np.ndarray) -> bool:
        """Whether in some batch element the largest 1 % of the squared row errors make more than half of their sum."""
        flat = np.sort(error.reshape(error.shape[0], -1), axis=-1)
        few = max(1, flat.shape[-1] // 100)
        return bool(np.any(flat[:, -few:].sum(-1) > 0.5 * flat.sum(-1)))

    def _certificate(self, sample: Sample, output: Array | None) -> Certificate:
        """The certificate of a sample; only with the output its range and baseline are right too."""
        exact = squares(None, sample.exact)
        b, h, *_ = self.problem.shape
        if output is None:
            baseline, largest = np.zeros_like(exact), np.full((b, h), np.inf)
        else:
            baseline = squares(uniform_rows(sample.rows), sample.exact)
            convex = all(candidate.record.convex for candidate in self._chosen())
            largest = output_range(self.problem, None if convex else output)
        confidence = 1 - (1 - POLICY.confidence) / ((POLICY.looks + 1) * self.sizes)
        return certificate(self.problem, RowErrors(sample.error, exact, baseline), largest, confidence)

    def _failed(self, sample: Sample, found: Certificate) -> np.ndarray:
        """True for the heads (B, H) because of which the criterion is not met."""
        b, h, *_ = self.problem.shape
        scope = self.scope(found)
        if self.criterion == "frobenius":
            failed = ~(scope.upper <= POLICY.accept * self.rtol)
        else:
            failed = ~(scope.quantile(0.95) <= self.rtol * scope.norm)
        approximate = np.array([[candidate is not None for candidate in row] for row in self.choice])
        if self.per_head:
            return failed.reshape(b, h) & approximate
        # If the criterion is for all heads together, those above half of their share have failed, and the worst one.
        part = sample.error.sum(-1)
        whole = squares(None, sample.exact).sum(-1).mean(-1, keepdims=True)
        above = part > (0.5 * self.rtol) ** 2 * whole
        blamed = (above | (part == part.max(-1, keepdims=True))) & approximate
        blamed = np.where(blamed.any(-1, keepdims=True), blamed, approximate)
        return failed.reshape(b, 1) & blamed

    def scope(self, found: Certificate) -> Certificate:
        """The certificate at the level at which the tolerance holds: of each head, or of each batch element."""
        return found if self.per_head else found.pooled

    def _replace(self, failed: np.ndarray, found: Certificate, *, last: bool) -> None:
        """Give failed heads a larger budget of their method, or exact attention; after the last look always that."""
        b, h = failed.shape
        scope = self.scope(found)
        miss = np.broadcast_to(scope.upper[..., None] if scope is not found else scope.upper, found.upper.shape)
        growth = np.maximum(miss / (POLICY.accept * self.rtol), 1).reshape(b, h) ** (1 / POLICY.usual)
        for i, row in enumerate(self.choice):
            for j, candidate in enumerate(row):
                if candidate is None or not failed[i, j]:
                    continue
                least = candidate.budget * min(growth[i, j], POLICY.most_growth)
                own = [c for c in self.candidates if c.name == candidate.name and c.budget > candidate.budget]
                # Where its method has no larger budget, a method that chooses keys for blocks of rows may help.
                others = [c for c in self.candidates if c.by_blocks and c.name != candidate.name]
                larger = [c for c in own or others if c.budget >= least]
                row[j] = larger[0] if larger and not last else None
                new = row[j]
                instead = f"{new.name} {new.budget}" if new else "exact attention"
                verdict = f"failed on fresh rows for head {j} of batch element {i}: {instead} instead"
                self.tried.append(Attempt(candidate.name, candidate.budget, None, verdict))

    def _drop_small_savings(self, least: float) -> None:
        """Give all heads exact attention if approximations would save less than this part, which a check costs."""
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

    def _finish(self, sample: Sample | None) -> Certificate | None:
        """Compute the output of the final choice, and its certificate from the last sample."""
        self.outputs.compute(self.choice)
        return None if sample is None else self._certificate(sample, self.outputs.output)
