"""The conformance suite: what every attention method promises, on every backend.

`CHECKS` holds functions of a method's record (`nlattn.methods.registry.Method`) and a `Backend`. Each follows the
record: what it promises is tested, and what it denies is shown to fail. A method of your own needs its record, with the
dotted name of its function, and a few lines of pytest::

    import pytest
    from nlattn.methods.registry import Budget, Method
    from nlattn.testing import BACKENDS, cases

    MINE = Method(name="mine", function="my_package.my_attention", causal=None, masks=None, ...)

    @pytest.mark.parametrize(("check", "method", "backend"), cases([MINE]), ids=str)
    def test_mine(check, method, backend):
        check(method, backend)

So does a backend of your own: ``cases(nlattn.METHODS.values(), [MY_BACKEND])`` with a `Backend` that says how to make
its arrays, and in which context to call, e.g. ``context=lambda: nlattn.use_backend("numba_cpu")``.
A check raises AssertionError where it fails and unittest.SkipTest where the backend is not installed; pytest is not
needed.

Examples
--------
>>> import nlattn
>>> from nlattn.testing import BACKENDS, CHECKS
>>> record, backend = nlattn.METHODS["streaming"], BACKENDS["numpy-generic"]
>>> for check in CHECKS:
...     if check.name in ("convex", "causality", "bad_budgets") and check.applies(record, backend):
...         check(record, backend)
"""

from collections.abc import Iterable

from nlattn.methods.registry import METHODS, Method
from nlattn.testing import (
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
from nlattn.testing.backends import BACKENDS, Backend
from nlattn.testing.suite import Check

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

#: Every check, each to be called with a method's record and a backend to which it `applies`.
CHECKS: tuple[Check, ...] = tuple(
    member for part in _PARTS for name in part.__all__ if isinstance(member := getattr(part, name), Check)
)


def cases(
    methods: Iterable[Method] | None = None, backends: Iterable[Backend] | None = None
) -> list[tuple[Check, Method, Backend]]:
    """All (check, method, backend) where the check applies; by default of the registered methods on all backends."""
    return [
        (check, method, backend)
        for method in (METHODS.values() if methods is None else methods)
        for backend in (BACKENDS.values() if backends is None else backends)
        for check in CHECKS
        if check.applies(method, backend)
    ]
