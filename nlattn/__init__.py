"""Attention mechanisms and the numerical linear algebra under them, each answer with its error.

The public names are listed in ``__init__.pyi``, which type checkers read as it stands; here each is imported at its
first use (SPEC 1), so that ``import nlattn`` loads neither numba nor any array library.
"""

import ast as _ast
import importlib as _importlib
from pathlib import Path as _Path
from typing import Any as _Any


def _public_names() -> dict[str, str]:
    """Name -> the module that holds it, read from the stub."""
    stub = _ast.parse(_Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    table = {}
    for node in stub.body:
        if isinstance(node, _ast.ImportFrom):
            for alias in node.names:
                table[alias.name] = f"{__name__}.{node.module}" if node.module else f"{__name__}.{alias.name}"
    return table


_NAMES = _public_names()
__all__ = sorted(_NAMES)
__version__ = "0.1.0"


def __getattr__(name: str) -> _Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(_NAMES[name])
    value = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
