"""What `nlattn compare` does with checked input."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from rich.console import Console

from nlattn.cli.input.given import Input
from nlattn.cli.input.options import InputError
from nlattn.cli.measurement.measure import STEPS, measure
from nlattn.cli.measurement.rows import Row, jobs
from nlattn.cli.output.documents import compare_document
from nlattn.cli.output.progress import progress_bar
from nlattn.cli.output.streams import short_warnings, surroundings, write_json, writing
from nlattn.cli.output.table import print_reading_aid, print_table
from nlattn.dispatch import BackendName, use_backend

__all__ = ["Wanted", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be compared, and where the result goes."""

    methods: list[str]
    budgets: list[int] | None
    rtol: float | None
    everything: bool
    seed: int
    backend: str | None
    json: str | None
    plot: Path | None


def compare(inputs: list[Input], wanted: Wanted) -> None:
    """Measure, print the tables, and write what was asked for."""
    for given in inputs:
        _check_rtol(wanted.rtol, given)
    errors = Console(stderr=True)
    console = errors if wanted.json == "-" else Console()
    with _backend(wanted.backend), short_warnings(errors):
        environment = surroundings()
        tables = _measure(inputs, wanted, errors)
    for given, rows in tables:
        print_table(console, given, rows, wanted.rtol, everything=wanted.everything)
        console.print()
    print_reading_aid(console)
    if wanted.plot is not None:
        from nlattn.cli.output.plot import draw

        with writing("--plot"):
            draw(wanted.plot, tables)
    write_json(compare_document(tables, environment, wanted.seed), wanted.json)


def _measure(inputs: list[Input], wanted: Wanted, errors: Console) -> list[tuple[Input, list[Row]]]:
    todo = [jobs(given, wanted.methods, wanted.budgets, wanted.rtol, wanted.seed) for given in inputs]
    with progress_bar(errors, STEPS * sum(map(len, todo))) as advance:
        return [
            (given, measure(given, its_jobs, wanted.seed, advance))
            for given, its_jobs in zip(inputs, todo, strict=True)
        ]


def _check_rtol(rtol: float | None, given: Input) -> None:
    least = 8 * float(np.finfo(given.query.dtype).eps)
    if rtol is not None and not (least <= rtol and math.isfinite(rtol)):
        raise InputError(f"--rtol must be at least {least:.1e} for {given.query.dtype}; got {rtol:g}.")


@contextlib.contextmanager
def _backend(name: str | None) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if name is not None:
            try:
                # What is no backend's name is refused with the names that are.
                stack.enter_context(use_backend(cast("BackendName", name)))
            except (ValueError, ImportError) as error:
                raise InputError(f"--backend: {error}.") from error
        yield
