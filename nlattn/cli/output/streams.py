"""Where results go, and what is said on the way."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from nlattn.cli.input.options import InputError
from nlattn.cli.output.documents import dumps, environment

__all__ = ["short_warnings", "surroundings", "write_json", "writing"]


def surroundings() -> dict[str, Any]:
    """The environment; where it is not usable, everything would fail for the same reason."""
    try:
        return environment()
    except (ValueError, ImportError) as error:
        raise InputError(f"{error}.") from error


@contextlib.contextmanager
def short_warnings(errors: Console) -> Iterator[None]:
    """Print each warning as one sentence, when the work is done."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    for sentence in dict.fromkeys(str(warning.message) for warning in caught):
        errors.print(Text(f"warning: {sentence}", style="yellow"), soft_wrap=True)


@contextlib.contextmanager
def writing(option: str) -> Iterator[None]:
    """What goes wrong with a file inside is the fault of the option."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{option} cannot be written: {error.strerror or error}.") from error


def write_json(document: dict[str, Any], target: str | None) -> None:
    """Write a document to a file, to stdout for "-", or nowhere for None."""
    if target is None:
        return
    text = dumps(document) + "\n"
    if target == "-":
        print(text, end="")
        return
    with writing("--json"):
        Path(target).write_text(text, encoding="utf-8")
