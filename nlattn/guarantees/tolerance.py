"""Attention to a tolerance: the cheapest method whose error, checked on sampled rows, is small enough."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from nlattn.guarantees.certificate import Certificate, certificate, output_range
from nlattn.guarantees.sampling import RowErrors, draw_rows, exact_rows, squares, take_rows, uniform_rows
from nlattn.methods.arguments import Problem, prepare
from nlattn.methods.exact import attend
from nlattn.methods.registry import METHODS, Method
from nlattn.rng import private

__all__ = ["Attempt", "AttentionResult", "attention"]

TOLERANCE = 0x746F6C65  # spawn key of the rows that are drawn here

CONFIDENCE = 0.99
PROBE_ROWS = 96
# Rows of a check: a share of all that keeps two of them cheap, within limits; more where few rows carry the sum.
CHECK_SHARE, CHECK_LEAST, CHECK_MOST, CHECK_MORE = 1 / 24, 96, 256, 1 / 16
# A probe must come below this part of rtol, so that the check, of an upper limit, is likely to pass.
PROMISING = 0.65
ACCEPT = 0.8
# The first and last rows are computed exactly: their windows are cut off, and they are the likeliest outliers, too few
# for a sample to meet (measured: one row of 1500 carried 97 % of the squared error of a head).
EDGE = 16
# Below this many scores, exact attention costs less than finding out whether something else would do.
SMALL = 1 << 24
# A candidate must cost less than this part of exact attention.
WORTH = 0.5


class Attempt(NamedTuple):
    """One method and budget that was considered."""

    method: str
    budget: int
    error: Any
    """Relative Frobenius error on the probed rows, shape (..., heads); None where it was not computed."""
    verdict: str


@dataclass(frozen=True, kw_only=True)
class AttentionResult:
    """An output, the error that it was accepted with, and how it was found.

    Attributes
    ----------
    output : array, shape (..., heads, L, Ev)
    error : NumPy array, shape (...), or (..., heads) with `per_head`
        What was held against `rtol`: the estimated relative Frobenius error, or for "rows" the 95 % quantile bound of
        the row errors over the rms row norm. 0 where everything is exact.
    method : NumPy array of str, shape (..., heads)
    budget : NumPy array of int, shape (..., heads)
        Of the method's first budget argument; 0 for exact attention.
    certificate : Certificate or None
        From rows that played no part in the choice; None where every head is exact.
    tried : tuple of Attempt
    """

    output: Any = field(repr=False)
    error: Any
    method: Any
    budget: Any
    certificate: Certificate | None
    tried: tuple[Attempt, ...]


def attention(
    query: Any,
    key: Any,
    value: Any,
    rtol: float = 1e-2,
    *,
    criterion: Literal["frobenius", "rows"] = "frobenius",
    per_head: bool = False,
    lookahead: bool = True,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: Any = None,
    check_finite: bool = True,
) -> AttentionResult:
    """Attention with a relative error of at most `rtol`, by the cheapest method that is found to reach it.

    A few rows are computed exactly and candidates are tried on them. For each head the cheapest that passes is checked
    on fresh rows; what fails there is replaced by a larger budget, and then by exact attention.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    rtol : float, default 1e-2
        At least 8 eps of the dtype.
    criterion : {"frobenius", "rows"}, default "frobenius"
        "frobenius": \\|output - exact\\| <= rtol \\|exact\\|, accepted where the upper limit of the estimate is below
        0.8 rtol. "rows": at least 95 % of the rows within rtol of the root mean square row norm, by a rigorous bound
        of the quantile.
    per_head : bool, default False
        Whether `rtol` holds for each head, or for each batch element over all its heads.
    lookahead : bool, default True
        With `is_causal`: whether methods may be used whose selection looks at future keys. Their output is checked
        against exact causal attention like any other.
    attn_mask, is_causal, scale, check_finite
        As for `exact_attention`.
    rng : None, int, SeedSequence or Generator, default None

    Returns
    -------
    AttentionResult

    Raises
    ------
    ValueError
        For an `rtol` below 8 eps of the dtype, and as `exact_attention`.

    Notes
    -----
    The Frobenius criterion rests on an estimate: over real heads it holds in more than 99 % of the calls, but rare bad
    rows can hide from any sample. The checks of one call share a failure probability of 1 %.

    Examples
    --------
    >>> import nlattn
    >>> q, k, v = nlattn.datasets.load("smollm2")[:3]
    >>> result = nlattn.attention(q, k, v, rtol=0.3, is_causal=True, rng=0)
    >>> bool(result.error <= 0.3)
    True
    """
    problem = prepare(
        "attention",
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        check_finite=check_finite,
    )
    least = 8 * float(problem.xp.finfo(problem.query.dtype).eps)
    if not rtol >= least:
        raise ValueError(f"rtol must be at least {least:.1e} for {problem.query.dtype}, got {rtol!r}")
    if criterion not in ("frobenius", "rows"):
        raise ValueError(f"criterion must be 'frobenius' or 'rows', got {criterion!r}")
    return _Search(problem, float(rtol), criterion, per_head, lookahead, rng).run()


@dataclass(frozen=True)
class _Candidate:
    record: Method
    budget: int
    cost: float

    def prepare(self, problem: Problem) -> Any:
        return self.record.module()._prepare(problem, self.budget, *(b.default for b in self.record.budgets[1:]))

    def apply(self, state: Any, rows: Problem) -> Any:
        return self.record.module()._apply(state, rows).out


class _Sample(NamedTuple):
    """Rows on which a choice was checked."""

    index: Any
    rows: Problem
    exact: Any
    error: Any
    """Squared row errors (B, H, m)."""


class _Search:
    def __init__(
        self, problem: Problem, rtol: float, criterion: str, per_head: bool, lookahead: bool, rng: Any
    ) -> None:
        self.problem, self.rtol, self.criterion = problem, rtol, criterion
        self.per_head, self.lookahead = per_head, lookahead
        self.rng = private(rng, TOLERANCE)
        # Float32 rows are exact to about 1e-6, far below the tolerance that they are held against.
        self.double = rtol < 1e-3
        self.tried: list[Attempt] = []
        self.candidates: list[_Candidate] = []
        self.states: dict[_Candidate, Any] = {}
        b, h, *_ = problem.shape
        self.choice: list[list[_Candidate | None]] = [[None] * h for _ in range(b)]

    def run(self) -> AttentionResult:
        if self._scores() < SMALL or self.problem.query.shape[2] < 8 * EDGE:
            self.tried.append(Attempt("exact", 0, None, "taken at once: too small for a search to pay"))
            return self._result(None)
        self._choose()
        # Two looks share the failure probability; a third follows only where heads became exact since.
        for look in (1, 2, 3):
            if self._all_exact():
                return self._result(None)
            sample = self._sample()
            found = self._certificate(sample, None)
            failed = self._failed(found)
            if not failed.any():
                return self._result(sample)
            self._replace(failed, found, raise_budget=look == 1, everything=look == 3)
        return self._result(None)

    # -- choosing -------------------------------------------------------------------------------------------------

    def _scores(self) -> float:
        """The number of scores of exact attention."""
        problem = self.problem
        b, h, _, length, s = problem.shape
        if b * h * length * s == 0:
            return 0.0
        return b * h * float(problem.xp.sum(problem.stop[0, 0, :] - problem.start[0, 0, :]))

    def _find_candidates(self) -> list[_Candidate]:
        """Methods and budgets that the arguments allow and that cost less than exact attention, cheapest first."""
        problem = self.problem
        length, s = problem.query.shape[2], problem.key.shape[2]
        sizes = {"L": length, "S": s, "E": problem.query.shape[3], "Ev": problem.value.shape[3]}
        share = self._scores() / (problem.shape[0] * problem.shape[1] * length * s)
        dear = WORTH * share * METHODS["exact"].operations(**sizes)
        candidates = []
        for record in METHODS.values():
            if not record.budgets or record.probe != "rows" or not record.deterministic:
                continue
            reason = self._refusal(record)
            if reason is not None:
                self.tried.append(Attempt(record.name, 0, None, reason))
                continue
            budget = record.budgets[0]
            for amount in budget.ladder:
                cost = record.operations(**sizes, **{budget.name: amount})
                if cost < dear:
                    candidates.append(_Candidate(record, amount, cost))
        return sorted(candidates, key=lambda candidate: candidate.cost)

    def _refusal(self, record: Method) -> str | None:
        problem = self.problem
        masks = [x for x in (problem.mask, problem.bias) if x is not None]
        if problem.is_causal and record.causal is None:
            return "refused: no causal form"
        if problem.is_causal and not self.lookahead and record.causal == "weights":
            return "refused: its selection looks ahead"
        if masks and (record.masks is None or (record.masks == "keys" and masks[0].shape[2] > 1)):
            return "refused: does not honour this mask"
        return None

    def _choose(self) -> None:
        """Try the candidates on a few rows and give each head the cheapest promising one."""
        self.candidates = self._find_candidates()
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
            self.tried.append(Attempt(name, candidate.budget, self._shaped(error), verdict))
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

    def _state(self, candidate: _Candidate) -> Any:
        if candidate not in self.states:
            self.states[candidate] = candidate.prepare(self.problem)
        return self.states[candidate]

    # -- checking -------------------------------------------------------------------------------------------------

    def _sample(self) -> _Sample:
        """Errors of the present choice on fresh rows; more of them where few carry the sum."""
        b, h, _, length, _ = self.problem.shape
        least = int(np.clip(length * CHECK_SHARE, CHECK_LEAST, CHECK_MOST))
        most = max(least, int(length * CHECK_MORE))
        order = draw_rows(self.rng, b, h, length, most)
        sample = self._rows(order[..., :least])
        while (m := sample.index.shape[-1]) < min(most, length) and self._concentrated(sample.error):
            more = self._rows(order[..., m : 2 * m])
            index = np.concatenate([sample.index, more.index], axis=-1)
            xp = self.problem.xp
            exact = xp.concat([sample.exact, more.exact], axis=2)
            error = np.concatenate([sample.error, more.error], axis=-1)
            sample = _Sample(index, take_rows(self.problem, index), exact, error)
        return sample

    def _rows(self, index: Any) -> _Sample:
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
        return _Sample(index, rows, exact, error)

    def _concentrated(self, error: Any) -> bool:
        """Whether in some batch element the largest 1 % of the squared row errors make more than half of their sum."""
        flat = np.sort(error.reshape(error.shape[0], -1), axis=-1)
        few = max(1, flat.shape[-1] // 100)
        return bool(np.any(flat[:, -few:].sum(-1) > 0.5 * flat.sum(-1)))

    def _certificate(self, sample: _Sample, output: Any) -> Certificate:
        """Of a sample; with the output also its range and the uniform baseline."""
        xp = self.problem.xp
        exact = squares(xp, None, sample.exact)
        b, h, *_ = self.problem.shape
        if output is None:
            baseline, largest = np.zeros_like(exact), np.full((b, h), np.inf)
        else:
            baseline = squares(xp, uniform_rows(sample.rows), sample.exact)
            largest = output_range(self.problem, output)
        return certificate(self.problem, RowErrors(sample.error, exact, baseline), largest, 1 - (1 - CONFIDENCE) / 2)

    def _failed(self, found: Certificate) -> Any:
        """The heads (B, H) that keep the criterion from being met."""
        b, h, *_ = self.problem.shape
        scope = found if self.per_head else found.pooled
        assert scope is not None
        if self.criterion == "frobenius":
            failed = ~(scope.upper <= ACCEPT * self.rtol)
        else:
            failed = ~(scope.quantile(0.95) <= self.rtol * scope.norm)
        approximate = np.array([[candidate is not None for candidate in row] for row in self.choice])
        if self.per_head:
            return failed.reshape(b, h) & approximate
        # Over all heads: those above half of their share, and the worst.
        norm = found.norm.reshape(b, h) ** 2
        part = found.error.reshape(b, h) ** 2 * norm
        above = part > (0.5 * self.rtol) ** 2 * norm.mean(-1, keepdims=True)
        return failed.reshape(b, 1) & (above | (part == part.max(-1, keepdims=True))) & approximate

    def _replace(self, failed: Any, found: Certificate, *, raise_budget: bool, everything: bool) -> None:
        """Give failed heads the next budget of their method, or exact attention."""
        upper = found.upper.reshape(failed.shape)
        for i, row in enumerate(self.choice):
            for j, candidate in enumerate(row):
                if candidate is None or not (failed[i, j] or (everything and failed[i].any())):
                    continue
                larger = [c for c in self.candidates if c.record is candidate.record and c.budget > candidate.budget]
                # A miss by far is not mended by one more step.
                row[j] = larger[0] if raise_budget and larger and upper[i, j] < 2 * self.rtol else None
                instead = f"budget {row[j].budget}" if row[j] else "exact attention"  # type: ignore[union-attr]
                verdict = f"failed on fresh rows for head {j} of batch element {i}: {instead} instead"
                self.tried.append(Attempt(candidate.record.name, candidate.budget, None, verdict))

    def _chosen(self) -> set[_Candidate]:
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
        for i in range(b):
            for group in range(g):
                members = range(group * (h // g), (group + 1) * (h // g))
                for kind in {self.choice[i][j] for j in members}:
                    mine = [j for j in members if self.choice[i][j] == kind]
                    part = self._full(problem.heads(i, mine), kind)
                    for position, j in enumerate(mine):
                        heads[i * h + j] = part[0, position]
        return problem.xp.reshape(problem.xp.stack(heads), (b, h, *heads[0].shape))

    def _full(self, problem: Problem, candidate: _Candidate | None) -> Any:
        if candidate is None:
            return attend(problem).out
        whole = problem is self.problem
        out = candidate.apply(self._state(candidate) if whole else candidate.prepare(problem), problem)
        length = out.shape[2]
        edges = np.r_[:EDGE, length - EDGE : length]
        exact = attend(take_rows(problem, np.broadcast_to(edges, (*out.shape[:2], 2 * EDGE)))).out
        parts = [exact[:, :, :EDGE, :], out[:, :, EDGE : length - EDGE, :], exact[:, :, EDGE:, :]]
        return problem.xp.concat(parts, axis=2)

    def _shaped(self, statistic: Any) -> Any:
        problem = self.problem
        return statistic.reshape((*problem.batch, statistic.shape[1]) if problem.has_heads else ())

    def _result(self, sample: _Sample | None) -> AttentionResult:
        b, h, *_ = self.problem.shape
        output = self._compute()
        method = np.array([[c.record.name if c else "exact" for c in row] for row in self.choice], dtype=str)
        budget = np.array([[c.budget if c else 0 for c in row] for row in self.choice], dtype=np.int64)
        found = None if sample is None else self._certificate(sample, output)
        if found is None:
            error = np.zeros((b, h)) if self.per_head else np.zeros(self.problem.batch)
            error = self._shaped(error) if self.per_head else error
        else:
            scope = found if self.per_head else found.pooled
            assert scope is not None
            error = scope.error
            if self.criterion == "rows":
                error = scope.quantile(0.95) / np.where(scope.norm > 0, scope.norm, 1)
        return AttentionResult(
            output=self.problem.output(output),
            error=error,
            method=self._shaped(method.reshape(b, h)),
            budget=self._shaped(budget.reshape(b, h)),
            certificate=found,
            tried=tuple(self.tried),
        )
