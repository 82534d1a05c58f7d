"""Costs and exact limits of records as text: their functions are called with symbols that write down what happens."""

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["formula"]

#: How tightly the operations bind, loosest first; names and numbers bind most tightly.
_COMPARISON, _SUM, _PRODUCT, _POWER, _ATOM = range(5)


def formula(function: Callable[..., Any]) -> str:
    """What a `Record.cost` or `Record.exact_at` computes, such as ``L * window * (E + Ev)``.

    Examples
    --------
    >>> from nlattn.methods.formulas import formula
    >>> formula(lambda n, near: n.L * (near + (6 * n.S) ** 0.5))
    'L * (near + (6 * S)**0.5)'
    """
    _, *budgets = inspect.signature(function).parameters
    return str(function(_Sizes(), *map(_Symbol, budgets)))


class _Symbol:
    """A name, or an expression of names."""

    def __init__(self, text: str, binds: int = _ATOM) -> None:
        self.text, self.binds = text, binds

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: Any) -> "_Symbol":
        return _joined(self, " + ", other, _SUM)

    def __radd__(self, other: Any) -> "_Symbol":
        return _joined(other, " + ", self, _SUM)

    def __sub__(self, other: Any) -> "_Symbol":
        return _joined(self, " - ", other, _SUM, _PRODUCT)

    def __mul__(self, other: Any) -> "_Symbol":
        return _joined(self, " * ", other, _PRODUCT)

    def __rmul__(self, other: Any) -> "_Symbol":
        return _joined(other, " * ", self, _PRODUCT)

    def __truediv__(self, other: Any) -> "_Symbol":
        return _joined(self, " / ", other, _PRODUCT, _POWER)

    def __pow__(self, other: Any) -> "_Symbol":
        return _joined(self, "**", other, _POWER)

    def __ge__(self, other: Any) -> "_Symbol":
        return _joined(self, " >= ", other, _COMPARISON)


class _Sizes:
    """Sizes that stand for their own names."""

    L, S, E, Ev = map(_Symbol, ("L", "S", "E", "Ev"))
    shorter = _Symbol("min(L, S)")


def _joined(left: Any, sign: str, right: Any, binds: int, right_binds: int | None = None) -> _Symbol:
    """The operation `sign` on two terms, with parentheses around those that bind less tightly than it allows."""

    def side(x: Any, least: int) -> str:
        return f"({x})" if isinstance(x, _Symbol) and x.binds < least else str(x)

    # The base of a power needs parentheses if it is a power itself: (a**b)**c.
    least = binds + 1 if binds == _POWER else binds
    return _Symbol(f"{side(left, least)}{sign}{side(right, binds if right_binds is None else right_binds)}", binds)
