"""What a conformance check is, and what it is run on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import SkipTest

import array_api_compat
import numpy as np

from nlattn.methods.registry import Method
from nlattn.testing.asserts import assert_same_kind, to_numpy
from nlattn.testing.backends import Backend

__all__ = ["ROUNDING", "Check", "Subject", "check"]

#: Tolerance relative to the largest value, for results that are equal but for rounding, some of it amplified.
ROUNDING = {"float64": 1e-8, "float32": 2e-3, "float16": 3e-2, "bfloat16": 2e-1}


@dataclass(frozen=True)
class Subject:
    """A method on a backend, called with NumPy arrays; each result is checked in kind and shape."""

    method: Method
    backend: Backend

    def budgets(self, most: int = 8) -> dict[str, Any]:
        """Budgets small enough for the method to approximate where more than 2 `most` keys are given."""
        return {b.name: min(b.default, most if b.unit == "keys" else min(b.ladder)) for b in self.method.budgets}

    def exact_budgets(self, length: int, s: int) -> dict[str, Any]:
        """The least budgets at which the record says that the method is exact."""
        if self.method.exact_at is None:
            return {}
        budgets = self.budgets()
        first = self.method.budgets[0].name
        for n in range(1, length + s + 2):
            names = {**budgets, first: n, "L": length, "S": s, "min": min, "max": max}
            if eval(self.method.exact_at, {"__builtins__": {}}, names):
                return {**budgets, first: n}
        raise AssertionError(f"no {first} up to {length + s + 1} satisfies {self.method.exact_at!r}")

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
        s = s if self.method.cross_length else length
        heads_kv = heads if self.method.shared_qk else heads_kv
        lead = () if heads is None else (*batch, heads)
        lead_kv = () if heads is None else (*batch, heads if heads_kv is None else heads_kv)
        shapes = (*lead, length, e), (*lead_kv, s, e), (*lead_kv, s, ev)
        query, key, value = (rng.standard_normal(shape) for shape in shapes)
        return query, query.copy() if self.method.shared_qk else key, value

    def call(self, query: Any, key: Any, value: Any, **options: Any) -> Any:
        """Call the method with arrays of the backend, small budgets and, where it draws, a seed."""
        defaults = self.budgets() | ({} if self.method.deterministic else {"rng": 0})
        with self.backend.context():
            return self.method.resolve()(query, key, value, **(defaults | options))

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

    Attributes
    ----------
    function : callable
        Takes a `Subject`.
    when : callable
        Takes a Method and a Backend: whether the record promises (or denies) what is checked here.
    slow : bool
        Whether it takes more than a few seconds.
    """

    function: Callable[[Subject], None]
    when: Callable[[Method, Backend], bool]
    slow: bool = False

    @property
    def name(self) -> str:
        return self.function.__name__.removeprefix("check_")

    def applies(self, method: Method, backend: Backend) -> bool:
        """Whether the check says something about this method on this backend."""
        return backend.library in method.namespaces and self.when(method, backend)

    def __call__(self, method: Method, backend: Backend) -> None:
        """Run; raises unittest.SkipTest, which pytest reports as a skip, where the backend is not available."""
        reason = backend.unavailable()
        if reason is not None:
            raise SkipTest(reason)
        self.function(Subject(method, backend))

    def __str__(self) -> str:
        return self.name


def check(
    when: Callable[[Method, Backend], bool] = lambda method, backend: True, *, slow: bool = False
) -> Callable[[Callable[[Subject], None]], Check]:
    """Make a `Check` of a function of a `Subject`."""
    return lambda function: Check(function, when, slow)
