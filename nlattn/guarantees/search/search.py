"""The search behind attention to a tolerance: probe, choose, check, replace."""

import math
from typing import Any, NamedTuple

import numpy as np

from nlattn.arrays.random import private
from nlattn.attend.intervals import attend
from nlattn.guarantees.certificate import Certificate, certificate, output_range
from nlattn.guarantees.sampling import RowErrors, draw_rows, exact_rows, sampled_problem, squares, uniform_rows
from nlattn.guarantees.search.candidates import Attempt, Candidate, count_scores, find_candidates
from nlattn.problem.problem import Problem

__all__ = ["Search"]

TOLERANCE = 0x746F6C65  # spawn key of the rows that are drawn here

# The looks at one batch element (or head), with one more for what is left when heads become exact at the last, and the
# sizes that the sample of a look may have, share the failure probability.
CONFIDENCE, LOOKS = 0.99, 3
PROBE_ROWS = 96
# Rows of a check: a share of all that keeps two of them cheap, within limits; more where few rows carry the sum.
CHECK_SHARE, CHECK_LEAST, CHECK_MOST, CHECK_MORE = 1 / 24, 96, 256, 1 / 16
# Of long inputs, where another output is cheap beside so many rows, no more than these.
CHECK_LONG = 1024
# Where rows come in blocks: so many blocks, and every which row of them.
PROBE_BLOCKS, PROBE_EVERY = 8, 5
# A probe must come below this part of rtol with so many standard deviations of the check, of an upper limit, on top.
PROMISING, TAIL = 0.6, 3.0
# Errors fall with the budget like such powers of it, at best and as a rule: what is too small at best is not tried.
FASTEST, USUAL = 0.8, 0.7
# An upper limit that misses by far may be the chance of one row: a budget grows by this factor at most.
MOST_GROWTH = 2.0
ACCEPT = 0.8
# An estimate below this part of what is accepted deserves a larger sample.
NEAR = 0.75
# The first and last rows are computed exactly: their windows are cut off, and they are the likeliest outliers, too few
# for a sample to meet (measured: one row of 1500 carried 97 % of the squared error of a head).
EDGE = 16
# Approximations that save less of the whole than this do not pay for their check: the first look, and later ones.
SAVING, SAVING_LATER = 0.25, 0.5
# Below this many scores (some 60 ms on two cores) exact attention is not worth a search: that takes about 10 ms.
SMALL = 40_000_000


class Sample(NamedTuple):
    """Rows on which an output was checked."""

    index: Any
    rows: Problem
    exact: Any
    error: Any
    """Squared row errors (B, H, m)."""


class Probe(NamedTuple):
    """Rows on which candidates are tried."""

    rows: Problem
    """What is computed."""
    numbers: Any
    """The blocks that the rows make up, or None."""
    every: int
    """Of these rows every which is compared."""
    exact: Any


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
        self.states: dict[Any, Any] = {}
        b, h, _, length, _ = problem.shape
        self.least = int(np.clip(length * CHECK_SHARE, CHECK_LEAST, CHECK_MOST))
        self.most = min(max(self.least, min(int(length * CHECK_MORE), CHECK_LONG)), length)
        self.sizes = 1 if criterion == "rows" else 1 + math.ceil(math.log2(max(1, self.most / self.least)))
        self.choice: list[list[Candidate | None]] = [[None] * h for _ in range(b)]
        self.output: Any = None
        self.computed: list[list[Any]] = [[False] * h for _ in range(b)]

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
            self._compute()
            sample, failed, found = self._look()
            while look == LOOKS and failed.any():
                # What becomes exact has no error any more.
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
        """Try the candidates on a few rows and give each head the cheapest promising one."""
        self.candidates, refused = find_candidates(self.problem, self.lookahead)
        self.tried.extend(refused)
        b, h, _, _, _ = self.problem.shape
        unsettled = np.ones((b, h), dtype=bool)
        history: dict[str, tuple[int, Any]] = {}
        probes: dict[bool, Probe] = {}
        size: Any = None
        settled = np.zeros((b, h))
        for candidate in self.candidates:
            name = candidate.record.name
            if not unsettled.any():
                break
            if self._hopeless(history.get(name), candidate.budget, unsettled):
                self.tried.append(Attempt(name, candidate.budget, None, "skipped: smaller budgets are too far off"))
                continue
            probe = self._probe(candidate, probes)
            norms = squares(self.problem.xp, None, probe.exact)
            if size is None:
                size = norms.mean(-1) if self.per_head else np.broadcast_to(norms.mean((-2, -1))[:, None], (b, h))
            output = self._on(candidate, probe, unsettled)
            error = squares(self.problem.xp, output[:, :, :: probe.every, :], probe.exact)
            error, expected = self._expected(error, size)
            history[name] = candidate.budget, error
            passed = unsettled & (expected <= PROMISING * self.rtol)
            if not self.per_head:
                # What the settled heads leave of the tolerance is for the others.
                square = np.where(unsettled, expected, settled) ** 2
                passed = unsettled & (passed | (square.mean(-1, keepdims=True) <= (PROMISING * self.rtol) ** 2))
            settled = np.where(passed, expected, settled)
            verdict = f"promising for {int(passed.sum())} of {b * h} heads"
            shown = self.problem.per_head(np.where(unsettled, error, np.nan))
            self.tried.append(Attempt(name, candidate.budget, shown, verdict))
            for i, j in zip(*np.nonzero(passed), strict=True):
                self.choice[i][j] = candidate
            unsettled &= ~passed

    def _expected(self, squares: Any, size: Any) -> tuple[Any, Any]:
        """From squared row errors (B, H, m): the relative error of each head, and what its upper limit may come to.

        That is larger where few rows carry the sum.
        """
        if self.criterion == "rows":
            measure = margin = np.quantile(squares, 0.95, axis=-1)
        else:
            measure = squares.mean(-1)
            rows = self.least * (1 if self.per_head else squares.shape[1])
            margin = measure + TAIL * squares.std(-1) / math.sqrt(rows)
        known = (size > 0) | (measure == 0)
        error, expected = (np.sqrt(x / np.where(size > 0, size, 1)) for x in (measure, margin))
        return np.where(known, error, np.inf), np.where(known, expected, np.inf)

    def _probe(self, candidate: Candidate, probes: dict[bool, Probe]) -> Probe:
        """Random rows, or random blocks of rows where a candidate needs those: these serve the others too."""
        blocks = next((c for c in self.candidates if c.by_blocks), None)
        if not probes:
            problem = self.problem
            b, h, _, length, _ = problem.shape
            if blocks is not None:
                state, module = self._state(blocks), blocks.record.module()
                full = np.asarray(module._block_numbers(state))
                numbers = np.sort(self.rng.permutation(full)[:PROBE_BLOCKS])
                index = module._block_rows(state, problem, numbers)
                few = problem.rows(index[..., ::PROBE_EVERY])
                exact = exact_rows(few, double=self.double)
                probes[True] = Probe(problem.rows(index), numbers, PROBE_EVERY, exact)
            else:
                drawn = np.sort(EDGE + draw_rows(self.rng, b, h, length - 2 * EDGE, PROBE_ROWS), axis=-1)
                few = problem.rows(problem.xp.asarray(drawn, device=problem.start.device))
                exact = exact_rows(few, double=self.double)
            probes[False] = Probe(few, None, 1, exact)
        return probes[candidate.by_blocks]

    def _on(self, candidate: Candidate, probe: Probe, heads: Any) -> Any:
        """The output of a candidate on the rows of a probe, at least for some heads (B, H)."""
        state = self._state(candidate)
        if not candidate.by_blocks:
            return candidate.apply(state, probe.rows)
        module = candidate.record.module()
        state = module._rebudget(state, np.where(heads, candidate.budget, -1))
        return module._apply(state, probe.rows, probe.numbers).out

    def _hopeless(self, last: tuple[int, Any] | None, budget: int, unsettled: Any) -> bool:
        """Whether this budget will miss for all unsettled heads, going by the error at a smaller one."""
        if last is None:
            return False
        fall = (budget / last[0]) ** FASTEST
        return bool(np.all(last[1][unsettled] > fall * PROMISING * self.rtol))

    def _state(self, candidate: Candidate) -> Any:
        key = candidate.record.name if candidate.by_blocks else candidate
        if key not in self.states:
            self.states[key] = candidate.prepare(self.problem)
        return self.states[key]

    # -- checking -------------------------------------------------------------------------------------------------

    def _look(self) -> tuple[Sample, Any, Certificate]:
        """Check the output on fresh rows: the rows, the heads that failed, and the certificate.

        It is looked at again with twice the rows where few of them carry the sum of what passes, or where the estimate
        is well below what its upper limit fails to reach: more rows are cheaper than another output.
        """
        b, h, _, length, _ = self.problem.shape
        least, most = self.least, self.most
        order = draw_rows(self.rng, b, h, length, most)
        sample = self._rows(order[..., :least])
        while True:
            found = self._certificate(sample, None)
            failed = self._failed(sample, found)
            m = sample.index.shape[-1]
            if m >= most or self.criterion == "rows" or not self._undecided(sample, failed, found):
                return sample, failed, found
            more = self._rows(order[..., m : 2 * m])
            index = np.concatenate([sample.index, more.index], axis=-1)
            exact = self.problem.xp.concat([sample.exact, more.exact], axis=2)
            error = np.concatenate([sample.error, more.error], axis=-1)
            sample = Sample(index, sampled_problem(self.problem, index), exact, error)

    def _rows(self, index: Any) -> Sample:
        index = np.sort(index, axis=-1)
        problem, xp = self.problem, self.problem.xp
        rows = sampled_problem(problem, index)
        exact = exact_rows(rows, double=self.double)
        places = xp.asarray(index, device=problem.start.device)
        found = squares(xp, sampled_problem(self.output, places), exact)
        approximate = np.array([[candidate is not None for candidate in row] for row in self.choice])
        return Sample(index, rows, exact, np.where(approximate[..., None], found, 0.0))

    def _undecided(self, sample: Sample, failed: Any, found: Certificate) -> bool:
        if not failed.any():
            return self._concentrated(sample.error)
        scope = self.scope(found)
        return not np.any(scope.error > NEAR * ACCEPT * self.rtol)

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
            convex = all(candidate.record.convex for candidate in self._chosen())
            largest = output_range(self.problem, None if convex else output)
        confidence = 1 - (1 - CONFIDENCE) / ((LOOKS + 1) * self.sizes)
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

    def _replace(self, failed: Any, found: Certificate, *, last: bool) -> None:
        """Give failed heads a larger budget of their method, or exact attention; at the last look exact attention."""
        b, h = failed.shape
        scope = self.scope(found)
        miss = np.broadcast_to(scope.upper[..., None] if scope is not found else scope.upper, found.upper.shape)
        growth = np.maximum(miss / (ACCEPT * self.rtol), 1).reshape(b, h) ** (1 / USUAL)
        for i, row in enumerate(self.choice):
            for j, candidate in enumerate(row):
                if candidate is None or not failed[i, j]:
                    continue
                least = candidate.budget * min(growth[i, j], MOST_GROWTH)
                own = [c for c in self.candidates if c.record is candidate.record and c.budget > candidate.budget]
                # Where its method has no more to offer, one that chooses its keys may.
                others = [c for c in self.candidates if c.by_blocks and c.record is not candidate.record]
                larger = [c for c in own or others if c.budget >= least]
                row[j] = larger[0] if larger and not last else None
                new = row[j]
                instead = f"{new.record.name} {new.budget}" if new else "exact attention"
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

    def _compute(self) -> None:
        """All rows of the heads whose choice has changed."""
        problem, xp = self.problem, self.problem.xp
        b, h, *_ = problem.shape
        new = [(i, j) for i in range(b) for j in range(h) if self.choice[i][j] != self.computed[i][j]]
        self.computed = [list(row) for row in self.choice]
        heads: dict[tuple[int, int], Any] = {}
        for whole, mine in self._calls(new):
            candidate = self.choice[mine[0][0]][mine[0][1]]
            if whole:
                output = self._by_blocks(mine) if candidate and candidate.by_blocks else self._full(problem, candidate)
                if len(mine) == b * h:
                    self.output = output
                    return
                heads |= {(i, j): output[i, j, ...] for i, j in mine}
                continue
            run = self._together(mine)
            part = self._full(problem.heads(mine[0][0], run), candidate)
            heads |= {(i, j): part[0, run.index(j), ...] for i, j in mine}
        if heads:
            every = [heads[i, j] if (i, j) in heads else self.output[i, j, ...] for i in range(b) for j in range(h)]
            self.output = xp.reshape(xp.stack(every), (b, h, *every[0].shape))

    def _calls(self, heads: list[tuple[int, int]]) -> list[tuple[bool, list[tuple[int, int]]]]:
        """Heads that are computed together: by one call on the whole problem, or as a part of a group."""
        b, h, g, *_ = self.problem.shape
        calls: dict[Any, list[tuple[int, int]]] = {}
        for i, j in heads:
            candidate = self.choice[i][j]
            by_blocks = candidate is not None and candidate.by_blocks
            key = candidate.record.name if by_blocks else (candidate, i, j // (h // g))  # type: ignore[union-attr]
            calls.setdefault(key, []).append((i, j))
        if len({self.choice[i][j] for i, j in heads}) == 1 and len(heads) == b * h:
            return [(True, heads)]
        return [(isinstance(key, str), mine) for key, mine in calls.items()]

    def _together(self, heads: list[tuple[int, int]]) -> list[int]:
        """These heads of one group, or all of it where what is prepared depends on the masks of all."""
        _, h, g, *_ = self.problem.shape
        if not any(x is not None and x.shape[1] > 1 for x in (self.problem.mask, self.problem.bias)):
            return [j for _, j in heads]
        group = heads[0][1] // (h // g)
        return list(range(group * (h // g), (group + 1) * (h // g)))

    def _by_blocks(self, heads: list[tuple[int, int]]) -> Any:
        """The output with one preparation for all heads, of which only some are computed."""
        budgets = np.full(self.problem.shape[:2], -1)
        for i, j in heads:
            budgets[i, j] = self.choice[i][j].budget  # type: ignore[union-attr]
        candidate = self.choice[heads[0][0]][heads[0][1]]
        assert candidate is not None
        module = candidate.record.module()
        return module._apply(module._rebudget(self._state(candidate), budgets), self.problem).out

    def _full(self, problem: Problem, candidate: Candidate | None) -> Any:
        if candidate is None:
            return attend(problem).out
        whole = problem is self.problem
        state = self._state(candidate) if whole else candidate.prepare(problem)
        out = candidate.apply(state, problem)
        length = out.shape[2]
        edges = np.r_[:EDGE, length - EDGE : length]
        exact = attend(sampled_problem(problem, np.broadcast_to(edges, (*out.shape[:2], 2 * EDGE)))).out
        parts = [exact[:, :, :EDGE, :], out[:, :, EDGE : length - EDGE, :], exact[:, :, EDGE:, :]]
        return problem.xp.concat(parts, axis=2)

    def _finish(self, sample: Sample | None) -> Certificate | None:
        self._compute()
        return None if sample is None else self._certificate(sample, self.output)
