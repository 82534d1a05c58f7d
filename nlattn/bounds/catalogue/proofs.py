"""Where the proofs are."""

from pathlib import Path

from nlattn.arrays.arguments import check_choice
from nlattn.bounds.catalogue.record import BOUNDS

__all__ = ["proof_file"]


def proof_file(id: str) -> Path:
    """The Markdown file with the proof of a bound: beside this package where that is installed, or in its clone."""
    package = Path(__file__).parents[1]
    clone = package.parents[1]
    installed = package / "proofs"
    return (installed if installed.is_dir() else clone / "proofs") / f"{check_choice('id', id, tuple(BOUNDS))}.md"
