"""What `nlattn bounds` does: it measures bounds, lists them, or prints a proof."""

from collections.abc import Sized
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from nlattn.bounds import BOUNDS, Bound, Outcome, check
from nlattn.bounds.catalogue.proofs import proof_file
from nlattn.cli.output.progress import progress_bar
from nlattn.cli.output.streams import short_warnings, surroundings, write_json
from nlattn.cli.output.table import number

__all__ = ["check_bounds", "list_bounds", "print_proofs"]

#: With more allowed standard errors than this any mean passes, so that the verdict is withheld.
MOST_ALLOWED = 1000.0

READING_AID = """\
How to read this: each bound was measured in random trials that satisfy its hypotheses. "bound" and "median" are \
medians over the trials; "worst" is what was measured in the trial that came closest to its own bound, or passed it, \
and its ratio to that. Trials above the bound are counted against the most that a true statement shows, but for one \
check in a million: none where it always holds (always, identity). For statements about expectations (mean, moment) \
single trials may lie anywhere; what counts are the standard errors, z, by which the mean of all trials misses the \
bound. "nlattn bounds --list" prints hypotheses, sources and where the proofs are."""

LISTING_AID = """\
"nlattn bounds --proof NAME" prints a proof, and "nlattn bounds --id NAME" measures a bound in random trials. The \
number that a bound computes means something only where all its hypotheses are satisfied."""


def check_bounds(ids: list[str], trials: int | None, seed: int, json: str | None) -> bool:
    """Measure, print, write what was asked for; whether all hold."""
    errors, console = _consoles(json)
    with short_warnings(errors):
        environment = surroundings()
        outcomes = _measure(ids, trials, seed, errors)
    for outcome in outcomes:
        _print_outcome(console, BOUNDS[outcome.id], outcome)
    failed = [outcome.id for outcome in outcomes if not outcome.holds]
    undecided = sum(map(_undecided, outcomes))
    verdict = f"{len(failed)} fail: {', '.join(failed)}" if failed else "none fails" if undecided else "all hold"
    verdict += f", {undecided} with too few trials to tell" if undecided else ""
    console.print(Text(f"{_counted(outcomes)} checked, {verdict}.\n", style="bold"))
    _print_aid(console, READING_AID)
    measured = (asdict(outcome) for outcome in outcomes)
    rows = [_facts(BOUNDS[row["id"]]) | row for row in measured]
    write_json({"schema": "nlattn.bounds/1", "environment": environment | {"seed": seed}, "rows": rows}, json)
    return not failed


def list_bounds(ids: list[str], json: str | None) -> None:
    """Print what the bounds say, under which hypotheses, from where, and where the proofs are, without measuring."""
    _, console = _consoles(json)
    for record in (BOUNDS[id] for id in ids):
        console.print(Text.assemble((record.id, "bold"), f" ({record.kind})"))
        _print_indented(console, record.statement)
        for hypothesis in record.hypotheses:
            _print_indented(console, f"* {hypothesis}")
        _print_indented(console, f"source: {record.source}")
        console.print(Text(f"  proof: {proof_file(record.id)}\n"), soft_wrap=True)
    console.print(Text(f"{_counted(ids)} listed.\n", style="bold"))
    _print_aid(console, LISTING_AID)
    rows = [_facts(BOUNDS[id]) | {"proof": str(proof_file(id))} for id in ids]
    write_json({"schema": "nlattn.bounds.list/1", "rows": rows}, json)


def print_proofs(ids: list[str]) -> None:
    """Print the proofs as they are, in Markdown."""
    for id in ids:
        print(proof_file(id).read_text(encoding="utf-8"))


def _consoles(json: str | None) -> tuple[Console, Console]:
    """Where progress and warnings go, and where text for the reader goes: to stderr if JSON goes to stdout."""
    errors = Console(stderr=True)
    return errors, errors if json == "-" else Console()


def _measure(ids: list[str], trials: int | None, seed: int, errors: Console) -> list[Outcome]:
    outcomes = []
    with progress_bar(errors, len(ids)) as advance:
        for id in ids:
            advance(id, 0)
            outcomes.append(check(id, trials=trials, rng=seed))
            advance(id, 1)
    return outcomes


def _print_outcome(console: Console, record: Bound, outcome: Outcome) -> None:
    verdict = ("holds", "green") if outcome.holds else ("FAILS", "bold red")
    if _undecided(outcome):
        verdict = ("too few trials to tell", "yellow")
    measured = (
        f"bound {number(outcome.bound)}, measured {number(outcome.median)} (median), "
        f"{number(outcome.worst)} (worst, {number(outcome.worst_ratio)} of its bound)"
    )
    console.print(Text.assemble((record.id, "bold"), f" ({record.kind}): ", verdict))
    _print_indented(console, record.statement)
    _print_indented(console, f"{measured}; {_violations(record, outcome)}")
    console.print()


def _print_indented(console: Console, line: str) -> None:
    console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))


def _print_aid(console: Console, text: str) -> None:
    console.print(Text(text, style="dim"), width=min(console.width, 100))


def _counted(bounds: Sized) -> str:
    return f"{len(bounds)} bound{'s' * (len(bounds) > 1)}"


def _undecided(outcome: Outcome) -> bool:
    means = BOUNDS[outcome.id].kind in ("mean", "moment")
    return means and outcome.holds and outcome.allowed > MOST_ALLOWED


def _violations(record: Bound, outcome: Outcome) -> str:
    if record.kind in ("mean", "moment"):
        return f"z = {outcome.violations:.1f} from {outcome.trials} trials ({outcome.allowed:.1f} allowed)"
    return f"{outcome.violations:.0f} of {outcome.trials} trials above it ({outcome.allowed:.0f} allowed)"


def _facts(record: Bound) -> dict[str, Any]:
    return {
        "id": record.id,
        "statement": record.statement,
        "kind": record.kind,
        "hypotheses": list(record.hypotheses),
        "source": record.source,
        "failure": record.failure,
    }
