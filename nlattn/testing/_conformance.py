"""The conformance suite: what every attention method promises, on every backend.

`CHECKS` holds functions of a method and a `Backend`. They follow what the method claims (`Method.claims`): what it
promises is tested, and what it denies is shown to fail. For a method of your own a few lines of pytest suffice::

    import pytest
    from nlattn.testing import cases

    @pytest.mark.parametrize(("check", "method", "backend"), cases([MyMethod()]), ids=str)
    def test_mine(check, method, backend):
        check(method, backend)

For a backend of your own they are ``cases(None, [MY_BACKEND])``, with a `Backend` that says how its arrays are made,
and in which context to call, such as ``context=lambda: nlattn.use_backend("numba_cpu")``.

A check raises AssertionError where it fails and unittest.SkipTest where the backend is not installed; pytest is not
needed.

Examples
--------
>>> import nlattn
>>> from nlattn.testing import BACKENDS, CHECKS
>>> method, backend = nlattn.METHODS["streaming"].method(), BACKENDS["numpy-generic"]
>>> for check in CHECKS:
...     if check.name in ("convex", "causality", "bad_budgets") and check.applies(method, backend):
...         check(method, backend)
"""

from collections.abc import Iterable
from typing import Any

from nlattn.methods.method import Method
from nlattn.methods.registry import METHODS
from nlattn.testing._backends import BACKENDS, Backend
from nlattn.testing._suite import Check
from nlattn.testing.checks import (
    causality,
    finite,
    gradients,
    layout,
    limits,
    masks,
    memory,
    probes,
    randomness,
    refusals,
    shapes,
    values,
    weights,
)

__all__ = ["CHECKS", "cases"]

_PARTS = (
    shapes,
    masks,
    causality,
    weights,
    limits,
    layout,
    values,
    randomness,
    finite,
    refusals,
    probes,
    memory,
    gradients,
)

#: Every check, each to be called with a method and a backend to which it `applies`.
CHECKS: tuple[Check, ...] = tuple(
    member for part in _PARTS for name in part.__all__ if isinstance(member := getattr(part, name), Check)
)


def cases(
    methods: Iterable[Method[Any]] | None = None, backends: Iterable[Backend] | None = None
) -> list[tuple[Check, Method[Any], Backend]]:
    """All (check, method, backend) where the check applies.

    By default these are the registered methods with their default options, on all backends.
    """
    if methods is None:
        methods = [record.method() for record in METHODS.values()]
    return [
        (check, method, backend)
        for method in methods
        for backend in (BACKENDS.values() if backends is None else backends)
        for check in CHECKS
        if check.applies(method, backend)
    ]
