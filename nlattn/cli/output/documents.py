"""The JSON documents."""

import json
import math
import os
import platform
from dataclasses import asdict, fields
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np
import threadpoolctl

import nlattn
from nlattn.cli.input.given import Input
from nlattn.cli.measurement.rows import Row
from nlattn.dispatch import BACKENDS, backend_name
from nlattn.methods.formulas import formula
from nlattn.methods.record import Record

__all__ = ["compare_document", "dumps", "environment", "methods_document"]


def compare_document(tables: list[tuple[Input, list[Row]]], surroundings: dict[str, Any], seed: int) -> dict[str, Any]:
    """What `nlattn compare` measured: one table of a file, or one for each sample."""
    (first, rows), *_ = tables
    described: dict[str, Any]
    if first.file is not None:
        described = {"file": first.file} | _described(first, seed)
        listed = [asdict(row) for row in rows]
    else:
        described = {"samples": [{"sample": each.name} | _described(each, seed) for each, _ in tables]}
        listed = [{"sample": each.name} | asdict(row) for each, rows in tables for row in rows]
    return {"schema": "nlattn.compare/1", "input": described, "environment": surroundings, "rows": listed}


def methods_document() -> dict[str, Any]:
    """The registry."""
    return {"schema": "nlattn.methods/1", "methods": [_facts(record) for record in nlattn.METHODS.values()]}


def _facts(record: Record) -> dict[str, Any]:
    """A record with its formulas as text and the defaults of its budgets."""
    facts = {field.name: getattr(record, field.name) for field in fields(record) if field.name != "method"}
    defaults = record.method().budgets
    return facts | {
        "cost": formula(record.cost),
        "exact_at": None if record.exact_at is None else formula(record.exact_at),
        "budgets": [asdict(budget) | {"default": defaults[budget.name]} for budget in record.budgets],
    }


def environment() -> dict[str, Any]:
    """What times depend on, in the present context."""
    backend = backend_name(np.ndarray)
    try:
        numba = metadata.version("numba")
    except metadata.PackageNotFoundError:
        numba = None
    return {
        "nlattn": nlattn.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "threads": _threads(backend),
        "backend": backend,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def dumps(document: dict[str, Any]) -> str:
    """The document as text; what is not finite becomes null."""
    return json.dumps(_finite(document), indent=2, allow_nan=False)


def _described(given: Input, seed: int) -> dict[str, Any]:
    return {
        "layer": given.layer,
        "heads": list(given.heads),
        **given.sizes,
        "causal": given.is_causal,
        "scale": given.scale,
        "dtype": str(given.query.dtype),
        "seed": seed,
    }


def _threads(backend: str) -> int | None:
    if backend != "generic":
        return BACKENDS[backend].threads()
    # The generic kernels have the threads of NumPy's BLAS.
    pools = threadpoolctl.ThreadpoolController().select(user_api="blas").info()
    return max((int(pool["num_threads"]) for pool in pools), default=None)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
