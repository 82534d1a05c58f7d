"""Filling in the rows of a table: the error, time and memory of each."""

import gc
import statistics
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

import nlattn
from nlattn.cli.input.given import Input
from nlattn.cli.measurement.rows import Job, Row

__all__ = ["STEPS", "measure"]

# Rounds over all rows: at least the first number, then up to the second within SECONDS; none begins after LIMIT.
LEAST, MOST, SECONDS, LIMIT = 3, 15, 2.0, 60.0
#: What a job counts for in the progress: its error and memory, and the rounds that all have.
STEPS = 1 + LEAST


def measure(given: Input, todo: list[Job], seed: int, advance: Callable[[str, int], None]) -> list[Row]:
    """Run the jobs and fill in their rows; one row stands for all budgets of a method that refuses."""
    rows: list[Row] = []
    for job in todo:
        earlier = {row.status for row in rows if row.method == job.row.method}
        if "refused" in earlier:
            continue
        rows.append(job.row)
        advance(f"{given.name}: error and memory of {job.row.method}", 1)
        with _status(job.row):
            if not earlier:
                job.run()  # What is compiled now is not counted as memory of the method.
            result, job.row.extra_bytes = _traced(job.run)
            _judge(job.row, given, result, seed)
        if job.row.status == "refused":
            job.row.budget = {}
    gc.unfreeze()
    live = [job for job in todo if job.row in rows and job.row.status == "ok"]
    advance("", (STEPS - 1) * (len(todo) - len(live)))
    _time(live, partial(advance, f"{given.name}: time"))
    reference = next((job.row.seconds for job in live if job.row.method == "exact"), None)
    for job in live:
        if reference and job.row.seconds:
            job.row.speedup = reference / job.row.seconds
    return rows


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


def _judge(row: Row, given: Input, result: Any, seed: int) -> None:
    if isinstance(result, nlattn.AttentionResult):
        row.reason = _chosen(result)
        result = result.output
    qkv = given.query, given.key, given.value
    # The input is finite; an output that is not has an infinite error.
    found = nlattn.certify(result, *qkv, **given.options, rng=seed, check_finite=False)
    pooled = found.pooled
    measures = {"error": found.error, "upper": found.upper, "row95": _relative(found), "baseline": found.baseline}
    row.heads = [
        {"head": head} | {name: float(each[i]) for name, each in measures.items()} for i, head in enumerate(given.heads)
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


def _traced(run: Callable[[], Any]) -> tuple[Any, int]:
    """What one call returns, and the most that it holds, its output included, as reported to tracemalloc."""
    gc.collect()
    # Later collections pass over what there is by now, mostly what numba keeps: they took 8 of the 45 s of a table.
    gc.freeze()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = run()
        return result, max(0, tracemalloc.get_traced_memory()[1] - before)
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
