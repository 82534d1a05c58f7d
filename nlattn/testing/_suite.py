"""What a conformance check is, and what it is run on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest import SkipTest

import array_api_compat
import numpy as np

from nlattn.methods.method import Method, run
from nlattn.methods.record import Record, Sizes
from nlattn.testing._asserts import assert_same_kind, to_numpy
from nlattn.testing._backends import Backend

__all__ = ["ROUNDING", "Check", "Subject", "check"]

#: Tolerance relative to the largest value, for results that are equal but for rounding, some of it amplified.
ROUNDING = {"float64": 1e-8, "float32": 2e-3, "float16": 3e-2, "bfloat16": 2e-1}


#: How a method is called: as `nlattn.run` does it.
Call = Callable[..., Any]


@dataclass(frozen=True)
class Subject:
    """A method on a backend, called with NumPy arrays; each result is checked in kind and shape."""

    method: Method[Any]
    backend: Backend
    function: Call = run

    @property
    def record(self) -> Record:
        """What the method claims with its options."""
        return self.method.claims

    @property
    def name(self) -> str:
        """The name that refusals contain."""
        return self.record.name

    def budgets(self, most: int = 8) -> dict[str, int]:
        """Budgets small enough for the method to approximate where more than 2 `most` keys are given."""
        least = {b.name: most if b.unit == "keys" else min(b.ladder) for b in self.record.budgets}
        return {name: min(amount, least[name]) for name, amount in self.method.budgets.items()}

    def with_budgets(self, most: int = 8) -> Method[Any]:
        """The method with these budgets."""
        return self._with(**self.budgets(most))

    def exact_budgets(self, length: int, s: int) -> dict[str, int]:
        """The least budgets at which the method is exact, as its record says."""
        budgets = self.budgets()
        if self.record.exact_at is None:
            return {}
        first = next(iter(budgets))
        sizes = Sizes(length, s, 8, 5)
        for amount in range(1, length + s + 2):
            if self._with(**(budgets | {first: amount})).is_exact(sizes):
                return {**budgets, first: amount}
        raise AssertionError(f"no {first} up to {length + s + 1} is exact by the record")

    def _with(self, **options: Any) -> Method[Any]:
        return replace(self.method, **options)  # type: ignore[type-var]

    def draw(
        self,
        length: int = 24,
        s: int = 40,
        *,
        heads: int | None = 2,
        heads_kv: int | None = None,
        batch: tuple[int, ...] = (),
        e: int = 8,
        ev: int = 5,
        seed: int = 0,
    ) -> tuple[Any, Any, Any]:
        """Standard normal query, key and value in float64, as far as the record allows; `heads` None gives two axes."""
        rng = np.random.default_rng(seed)
        s = s if self.record.cross_length else length
        heads_kv = heads if self.record.shared_qk else heads_kv
        lead = () if heads is None else (*batch, heads)
        lead_kv = () if heads is None else (*batch, heads if heads_kv is None else heads_kv)
        shapes = (*lead, length, e), (*lead_kv, s, e), (*lead_kv, s, ev)
        query, key, value = (rng.standard_normal(shape) for shape in shapes)
        return query, query.copy() if self.record.shared_qk else key, value

    def call(self, query: Any, key: Any, value: Any, **options: Any) -> Any:
        """Call the method with arrays of the backend, small budgets and, where it draws, a seed.

        Options are those of `nlattn.run`, and fields of the method.
        """
        own = self.budgets() | {name: options.pop(name) for name in list(options) if name in self.method.options}
        seed = {} if self.record.deterministic else {"rng": 0}
        with self.backend.context():
            return self.function(self._with(**own), query, key, value, **(seed | options))

    def __call__(self, query: Any, key: Any, value: Any, *, dtype: str = "float64", **options: Any) -> Any:
        """Call the method with NumPy arrays in `dtype`; returns NumPy arrays."""
        q, k, v = (self.backend.array(x, dtype) for x in (query, key, value))
        if options.get("attn_mask") is not None:
            mask = np.asarray(options["attn_mask"])
            options["attn_mask"] = self.backend.array(mask, "bool" if mask.dtype == np.bool_ else dtype)
        result = self.call(q, k, v, **options)
        out, lse = result if options.get("return_lse") else (result, None)
        lead = np.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
        shape = (*lead, *query.shape[-3:-1])
        # A partial stays in the dtype in which sums are formed, to be merged without rounding.
        xp = array_api_compat.array_namespace(q)
        wide = xp.float64 if dtype == "float64" else xp.float32
        assert_same_kind(out, q if lse is None else xp.astype(q, wide))
        assert tuple(out.shape) == (*shape, value.shape[-1]), f"out has shape {tuple(out.shape)} for rows {shape}"
        if lse is None:
            return to_numpy(out)
        assert lse.dtype == wide, f"lse has dtype {lse.dtype}"
        assert tuple(lse.shape) == shape, f"lse has shape {tuple(lse.shape)} for rows {shape}"
        return to_numpy(out), to_numpy(lse)


@dataclass(frozen=True)
class Check:
    """One property of a method on a backend: ``check(method, backend)`` raises AssertionError where it fails.

    ``check(method, backend, function)`` calls ``function(method, query, key, value, ...)`` instead of `nlattn.run`.

    Attributes
    ----------
    function : callable
        Takes a `Subject`.
    when : callable
        Takes a Record and a Backend: whether the record promises (or denies) what is checked here.
    slow : bool
        Whether it takes more than a few seconds.
    """

    function: Callable[[Subject], None]
    when: Callable[[Record, Backend], bool]
    slow: bool = False

    @property
    def name(self) -> str:
        return self.function.__name__.removeprefix("check_")

    def applies(self, method: Method[Any], backend: Backend) -> bool:
        """Whether the check says something about this method on this backend."""
        record = method.claims
        return backend.library in record.namespaces and self.when(record, backend)

    def __call__(self, method: Method[Any], backend: Backend, function: Call = run) -> None:
        """Run; raises unittest.SkipTest, which pytest reports as a skip, where the backend is not available."""
        reason = backend.unavailable()
        if reason is not None:
            raise SkipTest(reason)
        self.function(Subject(method, backend, function))

    def __str__(self) -> str:
        return self.name


def check(
    when: Callable[[Record, Backend], bool] = lambda record, backend: True, *, slow: bool = False
) -> Callable[[Callable[[Subject], None]], Check]:
    """Make a `Check` of a function of a `Subject`."""
    return lambda function: Check(function, when, slow)
