"""All methods by name: those of the package, and those that a user registers."""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from nlattn.methods.method import BlockMethod, Method
from nlattn.methods.record import Record

__all__ = ["METHODS", "register"]

M = TypeVar("M", bound=type[Method[Any]])

#: The modules of the package's methods, in the order of the tables.
_MODULES = (
    "exact",
    "sparse.streaming",
    "sparse.topk",
    "sparse.reformer",
    "sparse.smyrf",
    "sparse.hyper",
    "sparse.kdeformer",
    "sparse.heavy_hitter",
    "sparse.loki",
    "sparse.prescored",
    "sparse.routing",
    "sparse.multipole.method",
    "lowrank.nystrom",
)

_RECORDS: dict[str, Record] = {}

#: The record of every method, by name.
METHODS: Mapping[str, Record] = MappingProxyType(_RECORDS)


def register(method: M) -> M:
    """Enter a method of one's own into ``nlattn.METHODS``, under the name of its record.

    It then takes part in the tables and in the conformance suite, and, if its record says `searched`, in attention to a
    tolerance. It may be used as a decorator.

    Parameters
    ----------
    method : type
        A subclass of `nlattn.Method`, a frozen dataclass whose fields have defaults, with a `record`.

    Returns
    -------
    type
        The same class.

    Raises
    ------
    TypeError
        For anything but such a class.
    ValueError
        For a name that another method has, and for a record that the class contradicts.

    Examples
    --------
    Nystrom attention with twice as many landmarks, as a method of its own; `nlattn.Method` shows one from scratch.

    >>> from dataclasses import dataclass, replace
    >>> import nlattn
    >>> nystrom = nlattn.METHODS["nystrom"]
    >>> @nlattn.register
    ... @dataclass(frozen=True)
    ... class FineNystrom(nystrom.method):
    ...     record = replace(nystrom, name="fine_nystrom")
    ...     landmarks: int = 128
    >>> nlattn.METHODS["fine_nystrom"].method().budgets
    {'landmarks': 128}
    """
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise TypeError(f"method must be a subclass of nlattn.Method, got {method!r}; pass the class, not an object")
    record = getattr(method, "record", None)
    if not isinstance(record, Record):
        raise TypeError(f"{method.__name__} needs a record: write `record = nlattn.Record(...)` into its body")
    known = _RECORDS.get(record.name)
    if known is not None and known.method is not method:
        raise ValueError(f"there is a method of the name {record.name!r} already; give the record another name")
    if record.probe == "query-blocks" and not issubclass(method, BlockMethod):
        raise ValueError(f'the record of {method.__name__} says probe="query-blocks", which needs a nlattn.BlockMethod')
    missing = [budget.name for budget in record.budgets if not hasattr(method, budget.name)]
    if missing:
        raise ValueError(
            f"{method.__name__} needs a field with a default for each budget; missing: {', '.join(missing)}"
        )
    _RECORDS[record.name] = record
    return method


def _collect() -> None:
    """Enter the methods of the package."""
    for name in _MODULES:
        module = importlib.import_module(f"nlattn.methods.{name}")
        for member in vars(module).values():
            if isinstance(member, type) and issubclass(member, Method) and member.__module__ == module.__name__:
                register(member)


_collect()
