"""What an attention method is, and how one is called."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from nlattn.arrays.arguments import check_choice, check_integer
from nlattn.arrays.boundary import lend
from nlattn.arrays.random import generator
from nlattn.arrays.typing import Array, RngLike
from nlattn.attend.intervals import checked_interval_attention, interval_attention
from nlattn.methods.record import Record, Sizes
from nlattn.problem.arguments import checked_problem, one_dtype
from nlattn.problem.masks import checked_finite
from nlattn.problem.partials import Partial, SignedPartial, normalised
from nlattn.problem.problem import Problem

__all__ = ["BlockMethod", "Method", "run"]

State = TypeVar("State")


class Method(ABC, Generic[State]):
    """An attention method with given budgets and options: a frozen dataclass that has its record beside it.

    A subclass lists its budgets and options as fields with their defaults, and defines two steps: `prepare`, all that
    does not depend on single query rows, and `apply`, the output of some or all rows. `run` calls it; `register` lets
    it take part in ``nlattn compare``, the conformance suite and attention to a tolerance.

    Examples
    --------
    >>> from dataclasses import dataclass, replace
    >>> import numpy as np, nlattn
    >>> @dataclass(frozen=True)
    ... class Uniform(nlattn.Method[None]):
    ...     record = nlattn.Record(
    ...         name="uniform",
    ...         family="mine",
    ...         paper="none",
    ...         principle="the mean of the values that a query may see",
    ...         cost=lambda n: n.L * n.Ev,
    ...         causal="strict",
    ...         masks="any",
    ...         rows_sum_to_one=True,
    ...         convex=True,
    ...         key_permutation=True,
    ...         deterministic=True,
    ...         probe="rows",
    ...     )
    ...
    ...     def prepare(self, problem, rng):
    ...         return None
    ...
    ...     def apply(self, state, rows):
    ...         return nlattn.interval_attention(replace(rows, scale=0.0)).out
    >>> nlattn.run(Uniform(), np.ones((2, 3)), np.ones((4, 3)), np.arange(4.0)[:, None])
    array([[1.5],
           [1.5]])
    """

    record: ClassVar[Record]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "record" in vars(cls):
            cls.record = replace(cls.record, method=cls)

    def __post_init__(self) -> None:
        """Check the budgets, and the options that are Literals of strings."""
        for budget in self.record.budgets:
            amount = check_integer(budget.name, getattr(self, budget.name), least=budget.least)
            object.__setattr__(self, budget.name, amount)
        for name, (choices, optional) in _literals(type(self)).items():
            if not (optional and getattr(self, name) is None):
                check_choice(name, getattr(self, name), choices)

    @property
    def options(self) -> dict[str, Any]:
        """All fields by name, the budgets among them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @property
    def claims(self) -> Record:
        """The record as far as it holds for these options."""
        return self.record

    @property
    def budgets(self) -> dict[str, int]:
        """The budgets by name."""
        return {budget.name: getattr(self, budget.name) for budget in self.record.budgets}

    def cost(self, sizes: Sizes) -> float:
        """Multiplications for each head."""
        return float(self.record.cost(sizes, **self.budgets))

    def is_exact(self, sizes: Sizes) -> bool:
        """Whether exact attention runs in its place."""
        return self.record.exact_at is not None and bool(self.record.exact_at(sizes, **self.budgets))

    def ladder(self) -> Iterator[Self]:
        """What a search may try, from cheap to dear: by default the values of the first budget."""
        first = self.record.budgets[0]
        for amount in first.ladder:
            yield replace(self, **{first.name: amount})  # type: ignore[type-var]

    def check(self, problem: Problem) -> None:
        """Raise for options that do not fit the problem; exact attention in the method's place needs them right too."""

    @abstractmethod
    def prepare(self, problem: Problem, rng: np.random.Generator) -> State:
        """Prepare all that does not depend on single query rows. What is random is drawn here."""

    @abstractmethod
    def apply(self, state: State, rows: Problem) -> Partial | SignedPartial | Array:
        """The output of some or all rows of the problem that was prepared; an array is one (B, H, m, Ev)."""


class BlockMethod(Method[State]):
    """A method whose rows choose in blocks: a block of rows can be computed alone, at any budget, from one state."""

    @abstractmethod
    def blocks(self, state: State) -> range:
        """The numbers of the blocks that are full."""

    @abstractmethod
    def block_rows(self, state: State, problem: Problem, numbers: np.ndarray) -> Array:
        """The query rows (B, H, m) of the full blocks `numbers`."""

    @abstractmethod
    def apply_blocks(self, state: State, rows: Problem, numbers: np.ndarray) -> Partial:
        """The output of the rows that `block_rows` lists for the blocks `numbers`."""

    @abstractmethod
    def with_budgets(self, state: State, budgets: np.ndarray, heads: np.ndarray) -> State:
        """The same preparation with another first budget for each head, `budgets` (B, H).

        The output of heads for which `heads` (B, H) is False is 0.
        """


def run(
    method: Method[Any],
    query: Array,
    key: Array,
    value: Array,
    *,
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: RngLike = None,
    return_lse: bool = False,
    check_finite: bool = True,
    also: Callable[[Problem, Any], Array] | None = None,
) -> Any:
    """Call a method, of the package or one's own: every attention function is its signature and a call of this.

    PyTorch tensors on the CPU of which no gradient is wanted are computed with as NumPy arrays of the same memory.

    Parameters
    ----------
    method : Method
        The method, with its budgets and options.
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    attn_mask, is_causal, scale, check_finite
        As for `exact_attention`.
    rng : None, int, SeedSequence or Generator, default None
        Only for methods that draw.
    return_lse : bool, default False
        Return a `Partial` instead, the output in at least float32, and the log-sum-exp of each row.
    also : callable, optional
        ``also(problem, state)`` gives an array (B, H, ...) that is returned beside the output; the state is None where
        exact attention took the place of the method.

    Returns
    -------
    out : array, shape (..., heads, L, Ev)

    Raises
    ------
    NotImplementedError
        For a mask, causality or `return_lse` that the record refuses.

    Examples
    --------
    >>> import nlattn
    >>> q, k, v = nlattn.datasets.load("minilm")[:3]
    >>> method = nlattn.METHODS["nystrom"].method(landmarks=32)
    >>> bool((nlattn.run(method, q, k, v) == nlattn.nystrom_attention(q, k, v, 32)).all())
    True
    """
    options = method.options
    lending = lend(query, key, value, attn_mask, options)
    if lending is not None and one_dtype(query, key, value):
        query, key, value, attn_mask, options = lending.arrays((query, key, value, attn_mask, options))
        found = run(
            replace(method, **options),  # type: ignore[type-var]
            query,
            key,
            value,
            attn_mask=attn_mask,
            is_causal=is_causal,
            scale=scale,
            rng=rng,
            return_lse=return_lse,
            check_finite=check_finite,
            also=also,
        )
        return lending.tensors(found, None if return_lse else lending.narrow)
    name = f"{method.record.name}_attention"
    claims = method.claims
    if is_causal and claims.causal is None:
        raise NotImplementedError(f"{name} has no causal form: {claims.instead}")
    if return_lse and not claims.partial:
        raise NotImplementedError(f"{name} has no log-sum-exp over a set of keys; call it without return_lse")
    generators = generator(rng)
    problem = checked_problem(
        name,
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        masks=claims.masks,
        check_finite=False,
    )
    method.check(problem)
    exact = method.is_exact(Sizes.of(problem)) or 0 in problem.shape
    if check_finite and not exact:
        problem = checked_finite(problem)
    state = None if exact else method.prepare(problem, generators)
    intervals = checked_interval_attention if check_finite else interval_attention
    part = intervals(problem) if exact else method.apply(state, problem)
    if return_lse:
        assert isinstance(part, Partial)
        return problem.partial(part)
    out = problem.output(normalised(part))
    return out if also is None else (out, problem.per_head(also(problem, state)))


@functools.cache
def _literals(kind: type[Method[Any]]) -> dict[str, tuple[tuple[str, ...], bool]]:
    """For each field that is a Literal of strings: what it allows, and whether it may also be None."""
    try:
        hints = get_type_hints(kind)
    except NameError:
        return {}  # annotations that are text and name what only a function knows
    found = {}
    for name, hint in hints.items():
        parts = (hint, *get_args(hint))
        for part in parts:
            if get_origin(part) is Literal and all(isinstance(choice, str) for choice in get_args(part)):
                found[name] = get_args(part), type(None) in parts
    return found
