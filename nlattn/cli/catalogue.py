"""What `nlattn bounds` does."""

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from nlattn.bounds import BOUNDS, Bound, Outcome, check
from nlattn.cli.output import short_warnings, surroundings, write_json
from nlattn.cli.progress import progress_bar
from nlattn.cli.table import number

__all__ = ["check_bounds"]

#: More standard errors than this, z, allow any mean.
MOST_ALLOWED = 1000.0

READING_AID = """\
How to read this: each bound was measured in random trials that satisfy its hypotheses. "bound" and "median" are \
medians over the trials; "worst" is what was measured in the trial that came closest to its own bound, or passed it, \
and its ratio to that. Trials above the bound are counted against the most that a true statement shows, but for one \
check in a million: none where it always holds (always, identity). Of statements about expectations (mean, moment) \
single trials may lie anywhere; what counts are the standard errors, z, by which the mean of all trials misses the \
bound. Hypotheses, sources and proofs: proofs/README.md."""


def check_bounds(ids: list[str], trials: int | None, seed: int, json: str | None) -> bool:
    """Measure, print, write what was asked for; whether all hold."""
    errors = Console(stderr=True)
    console = errors if json == "-" else Console()
    with short_warnings(errors):
        environment = surroundings()
        outcomes = _measure(ids, trials, seed, errors)
    for outcome in outcomes:
        _print(console, BOUNDS[outcome.id], outcome)
    failed = [outcome.id for outcome in outcomes if not outcome.holds]
    undecided = sum(map(_undecided, outcomes))
    verdict = f"{len(failed)} fail: {', '.join(failed)}" if failed else "none fails" if undecided else "all hold"
    verdict += f", {undecided} with too few trials to tell" if undecided else ""
    console.print(Text(f"{len(outcomes)} bound{'s' * (len(outcomes) > 1)} checked, {verdict}.\n", style="bold"))
    console.print(Text(READING_AID, style="dim"), width=min(console.width, 100))
    rows = [_row(BOUNDS[outcome.id], outcome) for outcome in outcomes]
    write_json({"schema": "nlattn.bounds/1", "environment": environment | {"seed": seed}, "rows": rows}, json)
    return not failed


def _measure(ids: list[str], trials: int | None, seed: int, errors: Console) -> list[Outcome]:
    outcomes = []
    with progress_bar(errors, len(ids)) as advance:
        for id in ids:
            advance(id, 0)
            outcomes.append(check(id, trials=trials, rng=seed))
            advance(id, 1)
    return outcomes


def _print(console: Console, record: Bound, outcome: Outcome) -> None:
    verdict = ("holds", "green") if outcome.holds else ("FAILS", "bold red")
    if _undecided(outcome):
        verdict = ("too few trials to tell", "yellow")
    measured = (
        f"bound {number(outcome.bound)}, measured {number(outcome.median)} (median), "
        f"{number(outcome.worst)} (worst, {number(outcome.worst_ratio)} of its bound)"
    )
    console.print(Text.assemble((record.id, "bold"), f" ({record.kind}): ", verdict))
    for line in (record.statement, f"{measured}; {_count(record, outcome)}"):
        console.print(Padding(Text(line), (0, 0, 0, 2)))
    console.print()


def _undecided(outcome: Outcome) -> bool:
    means = BOUNDS[outcome.id].kind in ("mean", "moment")
    return means and outcome.holds and outcome.allowed > MOST_ALLOWED


def _count(record: Bound, outcome: Outcome) -> str:
    if record.kind in ("mean", "moment"):
        return f"z = {outcome.violations:.1f} from {outcome.trials} trials ({outcome.allowed:.1f} allowed)"
    return f"{outcome.violations:.0f} of {outcome.trials} trials above it ({outcome.allowed:.0f} allowed)"


def _row(record: Bound, outcome: Outcome) -> dict[str, Any]:
    return {
        "id": record.id,
        "statement": record.statement,
        "kind": record.kind,
        "hypotheses": list(record.hypotheses),
        "source": record.source,
        "failure": record.failure,
    } | {name: value for name, value in asdict(outcome).items() if name != "id"}
