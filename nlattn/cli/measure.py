"""The rows of a table: each method with each budget, its error, time and memory."""

import gc
import statistics
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import nlattn
from nlattn.cli.inputs import Input
from nlattn.methods.registry import METHODS, Method

__all__ = ["STEPS", "Job", "Row", "jobs", "measure"]

# Rounds over all rows: at least the first number, then up to the second within SECONDS; none begins after LIMIT.
LEAST, MOST, SECONDS, LIMIT = 3, 15, 2.0, 60.0
#: What a job counts for in the progress: its error, its memory and the rounds that all have.
STEPS = 2 + LEAST


@dataclass(slots=True, kw_only=True, eq=False)
class Row:
    """One method with one budget."""

    method: str
    budget: dict[str, int | float]
    status: str = "ok"
    reason: str | None = None
    """Why it was refused or failed; for `nlattn.attention`, what it chose."""
    error: float | None = None
    upper: float | None = None
    row95: float | None = None
    baseline: float | None = None
    seconds: float | None = None
    speedup: float | None = None
    extra_bytes: int | None = None
    heads: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Job:
    """A row to be filled in, and the call that it is about."""

    row: Row
    run: Callable[[], Any]
    times: list[float] = field(default_factory=list)


def jobs(problem: Input, methods: list[str], budgets: list[int] | None, rtol: float | None, seed: int) -> list[Job]:
    """What is to be measured; exact attention first, as the others are held against it."""
    arrays = (problem.query, problem.key, problem.value)
    found = []
    for name in dict.fromkeys(["exact", *methods]):
        record = METHODS[name]
        options = problem.options if record.deterministic else problem.options | {"rng": seed}
        for budget in _budgets(record, budgets, problem.sizes["S"]):
            run = partial(record.resolve(), *arrays, **budget, **options)
            found.append(Job(Row(method=name, budget=budget), run))
        if not found or found[-1].row.method != name:
            found.append(Job(Row(method=name, budget={}), partial(_nothing_to_try, record, problem.sizes["S"])))
    if rtol is not None:
        row = Row(method=f"attention(rtol={rtol:g})", budget={"rtol": rtol})
        found.append(Job(row, partial(nlattn.attention, *arrays, rtol=rtol, **problem.options, rng=seed)))
    return found


def measure(problem: Input, todo: list[Job], seed: int, advance: Callable[[str, int], None]) -> list[Row]:
    """Run the jobs and fill in their rows; one row stands for all budgets of a method that refuses."""
    rows: list[Row] = []
    for job in todo:
        if any(row.method == job.row.method and row.status == "refused" for row in rows):
            continue
        rows.append(job.row)
        advance(f"{problem.name}: error of {job.row.method}", 1)
        with _status(job.row):
            _judge(job.row, problem, job.run(), seed)
        if job.row.status == "refused":
            job.row.budget = {}
    live = [job for job in todo if job.row in rows and job.row.status == "ok"]
    advance("", (STEPS - 1) * (len(todo) - len(live)))
    for job in live:
        advance(f"{problem.name}: memory of {job.row.method}", 1)
        with _status(job.row):
            job.row.extra_bytes = _peak(job.run)
    _time(live, partial(advance, f"{problem.name}: time"))
    reference = next((job.row.seconds for job in live if job.row.method == "exact"), None)
    for job in live:
        if reference and job.row.seconds:
            job.row.speedup = reference / job.row.seconds
    return rows


def _budgets(record: Method, amounts: list[int] | None, s: int) -> list[dict[str, int | float]]:
    if not record.budgets:
        return [{}]
    first, *others = record.budgets
    if amounts is None:
        # From S keys on it would be exact attention once more.
        amounts = [amount for amount in first.ladder if first.unit != "keys" or amount < s]
    rest: dict[str, int | float] = {other.name: other.default for other in others}
    return [{first.name: amount, **rest} for amount in amounts]


def _nothing_to_try(record: Method, s: int) -> None:
    first = record.budgets[0]
    raise NotImplementedError(
        f"every {first.name} of its ladder, from {min(first.ladder)} on, covers all {s} keys, where it is exact "
        "attention; try others with --budgets"
    )


@contextmanager
def _status(row: Row) -> Iterator[None]:
    """Turn what a method raises into the status of its row."""
    try:
        yield
    except Exception as error:  # Whatever it is, the other rows are still worth having.
        row.status = "refused" if isinstance(error, NotImplementedError) else "failed"
        row.reason = " ".join(str(error).split()) or type(error).__name__
        row.error = row.upper = row.row95 = row.extra_bytes = None
        row.heads = []


def _judge(row: Row, problem: Input, result: Any, seed: int) -> None:
    if isinstance(result, nlattn.AttentionResult):
        row.reason = _chosen(result)
        result = result.output
    found = nlattn.certify(result, problem.query, problem.key, problem.value, **problem.options, rng=seed)
    pooled = found.pooled
    assert pooled is not None
    measures = {"error": found.error, "upper": found.upper, "row95": _relative(found), "baseline": found.baseline}
    row.heads = [
        {"head": head} | {name: float(each[i]) for name, each in measures.items()}
        for i, head in enumerate(problem.heads)
    ]
    row.error, row.upper, row.row95 = float(pooled.error), float(pooled.upper), float(_relative(pooled))
    row.baseline = float(pooled.baseline)


def _relative(found: nlattn.Certificate) -> Any:
    """The 95 % quantile bound of the row errors over the rms row norm."""
    bound = found.quantile(0.95)
    return np.where(found.norm > 0, bound / np.where(found.norm > 0, found.norm, 1), np.where(bound > 0, np.inf, 0))


def _chosen(result: nlattn.AttentionResult) -> str:
    methods, budgets = np.ravel(result.method).tolist(), np.ravel(result.budget).tolist()
    pairs = Counter(zip(methods, budgets, strict=True))
    used = ", ".join(
        f"{name}{f' {budget}' if budget else ''} for {count} of {len(methods)} heads"
        for (name, budget), count in pairs.items()
    )
    why = f" ({result.tried[-1].verdict})" if set(methods) == {"exact"} and result.tried else ""
    return f"used {used}{why}"


def _peak(run: Callable[[], Any]) -> int:
    """The most that one call holds, its output included, as reported to tracemalloc."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        run()
        return max(0, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()


def _time(live: list[Job], advance: Callable[[int], None]) -> None:
    """Interleave the jobs, so that what slows the machine down for a while slows all of them."""
    start = time.perf_counter()
    for done in range(MOST):
        elapsed = time.perf_counter() - start
        if (done >= LEAST and elapsed > SECONDS) or (done and elapsed > LIMIT):
            break
        for job in live:
            if job.row.status == "ok":
                with _status(job.row):
                    before = time.perf_counter()
                    job.run()
                    job.times.append(time.perf_counter() - before)
            advance(1 if done < LEAST else 0)
    for job in live:
        if job.row.status == "ok" and job.times:
            job.row.seconds = statistics.median(job.times)
