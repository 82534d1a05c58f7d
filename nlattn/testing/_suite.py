"""A conformance check, and the method on a backend that it is run on."""

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

#: Tolerances for results that are equal but for rounding, some of which is amplified: relative to the largest value.
ROUNDING = {"float64": 1e-8, "float32": 2e-3, "float16": 3e-2, "bfloat16": 2e-1}

#: A function that calls a method as `nlattn.run` does.
Call = Callable[..., Any]


@dataclass(frozen=True)
class Subject:
    """A method on a backend, to be called with NumPy arrays. The kind and shape of each result are checked."""

    method: Method[Any]
    backend: Backend
    function: Call = run

    @property
    def record(self) -> Record:
        """What the method claims with its options."""
        return self.method.claims

    @property
    def name(self) -> str:
        """The name of the method, which refusals contain."""
        return self.record.name

    def budgets(self, most: int = 8) -> dict[str, int]:
        """Budgets so small that the method approximates when it is given more than 2 `most` keys."""
        limits = {b.name: most if b.unit == "keys" else min(b.ladder) for b in self.record.budgets}
        return {name: min(amount, limits[name]) for name, amount in self.method.budgets.items()}

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
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Standard normal query, key and value in float64, as far as the record allows; without `heads` in two axes."""
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

        The options are those of `nlattn.run` and fields of the method.
        """
        own = self.budgets() | {name: options.pop(name) for name in list(options) if name in self.method.options}
        seed = {} if self.record.deterministic else {"rng": 0}
        with self.backend.context():
            return self.function(self._with(**own), query, key, value, **(seed | options))

    def __call__(
        self, query: np.ndarray, key: np.ndarray, value: np.ndarray, *, dtype: str = "float64", **options: Any
    ) -> Any:
        """Call the method with NumPy arrays that are converted to `dtype`, and return NumPy arrays."""
        q, k, v = (self.backend.array(x, dtype) for x in (query, key, value))
        if options.get("attn_mask") is not None:
            mask = np.asarray(options["attn_mask"])
            options["attn_mask"] = self.backend.array(mask, "bool" if mask.dtype == np.bool_ else dtype)
        result = self.call(q, k, v, **options)
        out, lse = result if options.get("return_lse") else (result, None)
        lead = np.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
        shape = (*lead, *query.shape[-3:-1])
        # Partials stay in the dtype in which sums are formed, so that they can be merged without rounding.
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

    ``check(method, backend, function)`` calls ``function(method, query, key, value, ...)`` in the place of
    `nlattn.run`.

    Attributes
    ----------
    function : callable
        Takes a `Subject`.
    when : callable
        Takes a Record and a Backend, and says whether the record promises (or denies) what is checked here.
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
        """Run the check. Without the backend, raise unittest.SkipTest, which pytest reports as a skip."""
        reason = backend.unavailable()
        if reason is not None:
            raise SkipTest(reason)
        self.function(Subject(method, backend, function))

    def __str__(self) -> str:
        return self.name


def check(
    when: Callable[[Record, Backend], bool] = lambda record, backend: True, *, slow: bool = False
) -> Callable[[Callable[[Subject], None]], Check]:
    """Make a `Check` of a function of a `Subject`; used as a decorator."""
    return lambda function: Check(function, when, slow)
