"""Attention to a tolerance: the cheapest method whose error, checked on sampled rows, is small enough."""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import array_api_compat
import numpy as np

from nlattn.guarantees.certificate import Certificate, certificate, output_range
from nlattn.guarantees.sampling import RowErrors, draw_rows, exact_rows, row_errors, to_host
from nlattn.methods.arguments import Problem, prepare
from nlattn.methods.exact import attend
from nlattn.methods.registry import METHODS, Method
from nlattn.rng import children, private

__all__ = ["Attempt", "AttentionResult", "attention"]

TOLERANCE = 0x746F6C65  # spawn key of the rows that are drawn here

PROBE_ROWS = 96
CHECK_ROWS = 256
CONFIDENCE = 0.99
# A probe must come below this part of rtol, so that the check, at 0.8 with an upper limit, is likely to pass.
PROMISING = 0.65
ACCEPT = 0.8
# Below this many scores a head, exact attention costs less than finding out whether something else would do.
SMALL = 1 << 20
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

    output: Any
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

    A few rows are computed exactly, candidates are tried on them, for each head the cheapest that passes is run, and
    its output is checked on fresh rows. What fails the check is replaced by exact attention.

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

    def prepare(self, problem: Problem, rng: Any) -> Any:
        budgets = [self.budget, *(budget.default for budget in self.record.budgets[1:])]
        options = {} if self.record.deterministic else {"rng": rng}
        return self.record.module()._prepare(problem, *budgets, **options)

    def apply(self, state: Any, rows: Problem) -> Any:
        return self.record.module()._apply(state, rows).out


class _Search:
    def __init__(
        self, problem: Problem, rtol: float, criterion: str, per_head: bool, lookahead: bool, rng: Any
    ) -> None:
        self.problem, self.rtol, self.criterion = problem, rtol, criterion
        self.per_head, self.lookahead = per_head, lookahead
        # Generators that are passed on are spawned from; the rows here never meet a method's draws.
        self.rows_rng = private(rng, TOLERANCE)
        self.method_rng = children(rng, 1)[0]
        # Float32 rows are exact to about 1e-6, far below the tolerance that they are held against.
        self.double = rtol < 1e-3
        self.tried: list[Attempt] = []
        b, h, *_ = problem.shape
        self.choice: list[list[_Candidate | None]] = [[None] * h for _ in range(b)]

    def run(self) -> AttentionResult:
        if self.problem.query.shape[2] * self.problem.key.shape[2] < SMALL:
            self.tried.append(Attempt("exact", 0, None, "taken at once: too small for a search to pay"))
            return self._result(attend(self.problem).out, None)
        self._choose()
        output, found = self._compute(), None
        for look in (1, 2):
            if self._all_exact():
                break
            found = self._check(output, CONFIDENCE if look == 1 else 1 - (1 - CONFIDENCE) / 2)
            failed = self._failed(found)
            if not failed.any():
                return self._result(output, found)
            self._drop(failed, everything=look == 2)
            output, found = self._compute(output, failed), None
        if not self._all_exact():
            found = self._check(output, 1 - (1 - CONFIDENCE) / 2)
        return self._result(output, found)

    # -- choosing -------------------------------------------------------------------------------------------------

    def _candidates(self) -> list[_Candidate]:
        """Methods and budgets that the arguments allow and that cost less than exact attention, cheapest first."""
        problem = self.problem
        xp = problem.xp
        length, s = problem.query.shape[2], problem.key.shape[2]
        sizes = {"L": length, "S": s, "E": problem.query.shape[3], "Ev": problem.value.shape[3]}
        seen = xp.sum(problem.stop[0, 0, :] - problem.start[0, 0, :]) if problem.shape[0] * problem.shape[1] else 0
        share = float(seen) / (length * s)
        dear = WORTH * share * METHODS["exact"].operations(**sizes)
        general = any(x is not None and x.shape[2] > 1 for x in (problem.mask, problem.bias))
        masked = problem.mask is not None or problem.bias is not None
        candidates = []
        for record in METHODS.values():
            if record.name == "exact" or not record.budgets or record.probe != "rows":
                continue
            reason = None
            if problem.is_causal and record.causal is None:
                reason = "refused: no causal form"
            elif problem.is_causal and not self.lookahead and record.causal == "weights":
                reason = "refused: its selection looks ahead"
            elif (masked and record.masks is None) or (general and record.masks == "keys"):
                reason = "refused: does not honour this mask"
            if reason is not None:
                self.tried.append(Attempt(record.name, 0, None, reason))
                continue
            budget = record.budgets[0]
            for amount in budget.ladder:
                cost = record.operations(**sizes, **{budget.name: amount})
                if cost < dear:
                    candidates.append(_Candidate(record, amount, cost))
        return sorted(candidates, key=lambda candidate: candidate.cost)

    def _choose(self) -> None:
        """Try the candidates on a few rows and give each head the cheapest promising one."""
        problem = self.problem
        b, h, _, length, _ = problem.shape
        xp = problem.xp
        candidates = self._candidates()
        if not candidates:
            return
        index = draw_rows(self.rows_rng, b, h, length, PROBE_ROWS)
        rows = problem.rows(xp.asarray(index, device=array_api_compat.device(problem.query)))
        exact = exact_rows(rows, double=self.double)
        norms = to_host(xp, xp.sum(xp.astype(exact, xp.float64) ** 2, axis=-1))
        size = norms.mean(-1) if self.per_head else np.broadcast_to(norms.mean((-2, -1))[:, None], (b, h))
        open_heads = np.ones((b, h), dtype=bool)
        history: dict[str, list[Any]] = {}
        for candidate in candidates:
            name = candidate.record.name
            if not open_heads.any():
                break
            if self._hopeless(history.get(name, []), open_heads):
                self.tried.append(Attempt(name, candidate.budget, None, "skipped: smaller budgets are too far off"))
                continue
            out = candidate.apply(candidate.prepare(problem, self.method_rng), rows)
            difference = xp.astype(out, xp.float64) - xp.astype(exact, xp.float64)
            squares = to_host(xp, xp.sum(difference**2, axis=-1))
            measure = squares.mean(-1) if self.criterion == "frobenius" else np.quantile(squares, 0.95, axis=-1)
            error = np.sqrt(measure / np.where(size > 0, size, 1))
            error = np.where((size > 0) | (measure == 0), error, np.inf)
            history.setdefault(name, []).append(error)
            passed = open_heads & (error <= PROMISING * self.rtol)
            verdict = f"promising for {int(passed.sum())} of {b * h} heads"
            self.tried.append(Attempt(name, candidate.budget, self._shaped(error), verdict))
            for i, j in zip(*np.nonzero(passed), strict=True):
                self.choice[i][j] = candidate
            open_heads &= ~passed

    def _hopeless(self, errors: list[Any], open_heads: Any) -> bool:
        """Whether the next budget will miss for all open heads, going by how the error fell so far."""
        if not errors:
            return False
        last = errors[-1][open_heads]
        if len(errors) == 1:
            return bool(np.all(last > 8 * self.rtol))
        fall = np.clip(last / np.where(errors[-2][open_heads] > 0, errors[-2][open_heads], 1), 0.05, 1.0)
        return bool(np.all(last * fall**2 > self.rtol))

    # -- computing ------------------------------------------------------------------------------------------------

    def _compute(self, output: Any = None, changed: Any = None) -> Any:
        """All rows by each head's choice; of a given output only the changed heads."""
        b, h, g, *_ = self.problem.shape
        xp = self.problem.xp
        kinds = {candidate for row in self.choice for candidate in row}
        if output is None and len(kinds) == 1:
            return self._full(self.problem, next(iter(kinds)))
        heads: list[Any] = [None] * (b * h)
        if output is not None:
            heads = [output[i // h, i % h] for i in range(b * h)]
        for i in range(b):
            for group in range(g):
                members = range(group * (h // g), (group + 1) * (h // g))
                for kind in {self.choice[i][j] for j in members}:
                    mine = [
                        j for j in members if self.choice[i][j] == kind and (changed is None or bool(changed[i, j]))
                    ]
                    if mine:
                        part = self._full(self.problem.heads(i, mine), kind)
                        for position, j in enumerate(mine):
                            heads[i * h + j] = part[0, position]
        return xp.reshape(xp.stack(heads), (b, h, *heads[0].shape))

    def _full(self, problem: Problem, candidate: _Candidate | None) -> Any:
        if candidate is None:
            return attend(problem).out
        return candidate.apply(candidate.prepare(problem, self.method_rng), problem)

    # -- checking -------------------------------------------------------------------------------------------------

    def _check(self, output: Any, confidence: float) -> Certificate:
        """Certificate of the output from fresh rows, more of them where few carry the sum."""
        problem = self.problem
        xp = problem.xp
        b, h, _, length, _ = problem.shape
        index = draw_rows(self.rows_rng, b, h, length, CHECK_ROWS)
        errors = self._errors(output, index)
        while errors.error.shape[-1] < length // 4 and self._concentrated(errors.error):
            more = draw_rows(self.rows_rng, b, h, length, 2 * index.shape[-1])
            index, errors = more, self._errors(output, more)
        return certificate(replace(problem, xp=xp), errors, output_range(problem, output), confidence)

    def _errors(self, output: Any, index: Any) -> RowErrors:
        xp = self.problem.xp
        at = xp.asarray(index[..., None], device=array_api_compat.device(output))
        return row_errors(self.problem, xp.take_along_axis(output, at, axis=2), index, double=self.double)

    def _concentrated(self, squares: Any) -> bool:
        """Whether in some batch element the largest 1 % of the squared row errors make more than half of their sum."""
        flat = np.sort(squares.reshape(squares.shape[0], -1), axis=-1)
        few = max(1, flat.shape[-1] // 100)
        return bool(np.any(flat[:, -few:].sum(-1) > 0.5 * flat.sum(-1)))

    def _failed(self, found: Certificate) -> Any:
        """The heads (B, H) that must be computed exactly for the criterion to hold."""
        b, h, *_ = self.problem.shape
        scope = found if self.per_head else found.pooled
        assert scope is not None
        if self.criterion == "frobenius":
            failed = ~(scope.upper <= ACCEPT * self.rtol)
        else:
            failed = ~(scope.quantile(0.95) <= self.rtol * scope.norm)
        if self.per_head:
            return failed.reshape(b, h) & self._approximate()
        # Over all heads: those above their share.
        norm = (found.norm**2).reshape(b, h)
        share = (found.error**2).reshape(b, h) * norm > (0.5 * self.rtol) ** 2 * norm.mean(-1, keepdims=True)
        worst = (found.error**2).reshape(b, h) * norm >= (found.error**2 * found.norm**2).reshape(b, h).max(-1)[:, None]
        return failed.reshape(b, 1) & (share | worst) & self._approximate()

    def _drop(self, failed: Any, *, everything: bool) -> None:
        for i, row in enumerate(self.choice):
            for j, candidate in enumerate(row):
                if candidate is not None and (failed[i, j] or (everything and failed[i].any())):
                    failed[i, j] = True
                    name, budget = candidate.record.name, candidate.budget
                    verdict = "failed the check on fresh rows, replaced by exact"
                    self.tried.append(Attempt(name, budget, None, f"head {j} of batch element {i}: {verdict}"))
                    row[j] = None

    def _approximate(self) -> Any:
        return np.array([[candidate is not None for candidate in row] for row in self.choice])

    def _all_exact(self) -> bool:
        return all(candidate is None for row in self.choice for candidate in row)

    # -- reporting ------------------------------------------------------------------------------------------------

    def _shaped(self, statistic: Any) -> Any:
        problem = self.problem
        return statistic.reshape((*problem.batch, statistic.shape[1]) if problem.has_heads else ())

    def _result(self, output: Any, found: Certificate | None) -> AttentionResult:
        b, h, *_ = self.problem.shape
        method = np.array([[c.record.name if c else "exact" for c in row] for row in self.choice], dtype=object)
        budget = np.array([[c.budget if c else 0 for c in row] for row in self.choice], dtype=np.int64)
        lead = self.problem.batch
        if found is None:
            error = np.zeros((*lead, h) if self.per_head and self.problem.has_heads else lead)
        else:
            scope = found if self.per_head else found.pooled
            assert scope is not None
            error = scope.error
            if self.criterion == "rows":
                error = scope.quantile(0.95) / np.where(scope.norm > 0, scope.norm, 1)
        return AttentionResult(
            output=self.problem.output(output),
            error=error,
            method=self._shaped(method.reshape(b, h).astype(str)),
            budget=self._shaped(budget.reshape(b, h)),
            certificate=found,
            tried=tuple(self.tried),
        )
