"""Partial attentions: outputs over some of the keys that know the mass of those keys."""

from collections.abc import Sequence
from typing import NamedTuple, Self, TypeGuard, overload

from array_api_compat import array_namespace

from nlattn.arrays.guards import finite_or_zero, log_mass, nonzero
from nlattn.arrays.typing import Array

__all__ = ["Partial", "SignedPartial", "concat_rows", "merge_partials", "normalised"]


class Partial(NamedTuple):
    """Softmax attention over a subset of the keys, and the softmax mass of that subset.

    Attributes
    ----------
    out : array, shape (..., heads, L, Ev)
        The normalised output over the subset; 0 where it is empty.
    lse : array, shape (..., heads, L)
        Natural logarithm of the sum of the exponentials of the scores over the subset; -inf where it is empty.
    """

    out: Array
    lse: Array

    def signed(self) -> "SignedPartial":
        """The same part in the form that has a denominator."""
        xp = array_namespace(self.lse)
        none = self.lse == -xp.inf
        den = xp.where(none, xp.zeros_like(self.lse), xp.ones_like(self.lse))
        return SignedPartial(self.out, den, self.lse)


class SignedPartial(NamedTuple):
    """A sum of weighted values beside the sum of the weights, which may be negative or no softmax mass at all.

    Its share of a merged output is ``exp(shift) num`` over the sum of all ``exp(shift) den``.

    Attributes
    ----------
    num : array, shape (..., heads, L, Ev)
        The sum of the weights times the values.
    den : array, shape (..., heads, L)
        The sum of the weights.
    shift : array, shape (..., heads, L)
        Natural logarithm of the factor that both have to be multiplied by; -inf where there is nothing.
    """

    num: Array
    den: Array
    shift: Array

    def negative(self) -> Self:
        """A part that subtracts this one where both are merged: for pairs that two other parts both count."""
        return self._replace(num=-self.num, den=-self.den)

    def signed(self) -> Self:
        """This part itself, which has that form already."""
        return self

    def normalised(self) -> Array:
        """num / den, and 0 where both are 0; inf or NaN where the weights of a row cancel and the values do not."""
        xp = array_namespace(self.den)
        empty = (self.den == 0) & xp.all(self.num == 0, axis=-1)
        return self.num / xp.where(empty, xp.ones_like(self.den), self.den)[..., None]


def normalised(part: Partial | SignedPartial | Array) -> Array:
    """The output that a method returned in one of its forms."""
    if isinstance(part, SignedPartial):
        return part.normalised()
    return part.out if isinstance(part, Partial) else part


def concat_rows(parts: Sequence[Partial]) -> Partial:
    """One partial (B, H, L, Ev) of all rows, from partials of some of them that follow each other."""
    if len(parts) == 1:
        return parts[0]
    xp = array_namespace(parts[0].lse)
    return Partial(xp.concat([part.out for part in parts], axis=2), xp.concat([part.lse for part in parts], axis=2))


@overload
def merge_partials(*parts: Partial) -> Partial: ...
@overload
def merge_partials(*parts: Partial | SignedPartial) -> Partial | SignedPartial: ...
def merge_partials(*parts: Partial | SignedPartial) -> Partial | SignedPartial:
    """Exact attention over the union of disjoint subsets of keys, from the attention over each of them.

    Parameters
    ----------
    *parts : Partial or SignedPartial
        At least one. A part has no weight in rows where its lse is -inf, even where that holds for all parts.

    Returns
    -------
    Partial, or SignedPartial where a part is one

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = (rng.standard_normal((8, 4)) for _ in range(3))
    >>> left = nlattn.exact_attention(q, k[:3], v[:3], return_lse=True)
    >>> right = nlattn.exact_attention(q, k[3:], v[3:], return_lse=True)
    >>> bool(np.allclose(nlattn.merge_partials(left, right).out, nlattn.exact_attention(q, k, v)))
    True
    """
    if not parts:
        raise ValueError("merge_partials needs at least one Partial, got none")
    shapes = [(tuple(part[0].shape), tuple(part[1].shape)) for part in parts]
    for out_shape, lse_shape in shapes:
        if out_shape[:-1] != lse_shape or shapes[0] != (out_shape, lse_shape):
            raise ValueError(
                f"parts must share one shape, out (..., L, Ev) and lse (..., L), got {shapes}; "
                "compute every part from the same queries"
            )
    return _merged(parts) if _all_partial(parts) else _merged_signed([part.signed() for part in parts])


def _all_partial(parts: tuple[Partial | SignedPartial, ...]) -> TypeGuard[tuple[Partial, ...]]:
    # Kernels return plain pairs (out, lse), which serve as well as a Partial.
    return not any(isinstance(part, SignedPartial) for part in parts)


def _merged(parts: tuple[Partial, ...]) -> Partial:
    if len(parts) == 1:
        return Partial(*parts[0])
    top, weights = _weights([part[1] for part in parts])
    total = sum(weights[1:], start=weights[0])
    terms = [part[0] * (weight / nonzero(total))[..., None] for part, weight in zip(parts, weights, strict=True)]
    return Partial(sum(terms[1:], start=terms[0]), log_mass(top, total))


def _merged_signed(parts: list[SignedPartial]) -> SignedPartial:
    top, weights = _weights([part.shift for part in parts])
    nums = [part.num * weight[..., None] for part, weight in zip(parts, weights, strict=True)]
    dens = [part.den * weight for part, weight in zip(parts, weights, strict=True)]
    return SignedPartial(sum(nums[1:], start=nums[0]), sum(dens[1:], start=dens[0]), top)


def _weights(shifts: list[Array]) -> tuple[Array, list[Array]]:
    """The largest of the shifts, or 0 where all are -inf, and exp(shift - largest) for each of them."""
    xp = array_namespace(*shifts)
    top = shifts[0]
    for shift in shifts[1:]:
        top = xp.maximum(top, shift)
    top = finite_or_zero(top)
    return top, [xp.exp(shift - top) for shift in shifts]
