"""What a command cannot work with, and the options that are lists."""

import difflib
import importlib
import importlib.util
import os
import re
import sys
from pathlib import Path

__all__ = ["InputError", "check_outputs", "head_numbers", "integers", "load_methods", "names"]


class InputError(Exception):
    """What the user gave cannot be used; the message is the one sentence that says so."""


def names(option: str, text: str, allowed: list[str], kind: str = "method") -> list[str]:
    """The names in a comma list, each once, in its order."""
    found = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in found:
        if name not in allowed:
            likely = difflib.get_close_matches(name, allowed, n=5) if len(allowed) > 10 else []
            listed = ", ".join(likely or allowed)
            raise InputError(f"{option} must name {kind}s {'such as' if likely else 'among'} {listed}; got {name!r}.")
    if not found:
        raise InputError(f"{option} must name at least one {kind} among {', '.join(allowed)}; got {text!r}.")
    return found


def integers(option: str, text: str) -> list[int]:
    """The positive integers in a comma list, each once, in its order."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(re.fullmatch(r"[+-]?\d+", part) for part in parts):
        raise InputError(f"{option} must be a comma list of integers such as 32,64; got {text!r}.")
    found = list(dict.fromkeys(int(part) for part in parts))
    if min(found) < 1:
        raise InputError(f"{option} must be at least 1, each of them; got {text!r}.")
    return found


def head_numbers(text: str) -> list[int]:
    """The head numbers in a comma list of integers and ranges, ascending, each once."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise InputError(f"--heads must be a comma list of head numbers and ranges such as 0-2,5; got {text!r}.")
        found.update(range(first, last + 1))
    return sorted(found)


def load_methods(source: str | None) -> None:
    """Import a module or a Python file that registers methods with `nlattn.register`."""
    if source is None:
        return
    try:
        if source.endswith(".py"):
            _run_file(Path(source))
        else:
            importlib.import_module(source)
    except Exception as error:  # Whatever the code of a user raises, it is the option that cannot be used.
        raise InputError(f"--load: {source} cannot be imported: {type(error).__name__}: {error}.") from error


def _run_file(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where dataclasses look for the module of a class
    spec.loader.exec_module(module)


def check_outputs(source: Path | None, json: str | None, plot: Path | None) -> None:
    """Raise for an output path that cannot be written, before anything is computed."""
    targets = [("--plot", plot)] if plot is not None else []
    if json is not None and json != "-":
        targets.append(("--json", Path(json)))
    for option, path in targets:
        _check_writable(option, path)
    if plot is not None:
        _check_picture(plot)
    taken = [path.resolve() for path in (source, *(path for _, path in targets)) if path is not None]
    if len(set(taken)) < len(taken):
        raise InputError("FILE, --json and --plot must be different files; one would overwrite another.")


def _check_writable(option: str, path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{option} must name a file; {path} is a folder.")
    if not path.parent.is_dir():
        raise InputError(f"{option} cannot be written: there is no folder {path.parent}.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"{option} cannot be written: no permission for {path}.")


def _check_picture(path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    kinds = sorted(FigureCanvasAgg.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in kinds:
        raise InputError(f"--plot must end in the name of a picture format ({', '.join(kinds)}); got {path.name!r}.")
