"""Components of a CP decomposition that grow while they cancel."""

from collections.abc import Sequence

from nlattn.arrays.host import to_float
from nlattn.arrays.typing import Array, Namespace
from nlattn.decomp._least_squares import gram, hadamard

__all__ = ["cancelling_pair"]

# Two components are reported if the cosine of the angle between them is below this.
COSINE = -0.9


def cancelling_pair(
    xp: Namespace, weights: Array, factors: Sequence[Array], norm: float
) -> tuple[int, int, float] | None:
    """The two components with the least cosine between them, if it is below -0.9 and both weights exceed `norm`."""
    rank = weights.shape[0]
    grams = [gram(xp, a) for a in factors]
    cosines = hadamard(xp, grams, grams[0])
    if xp.isdtype(cosines.dtype, "complex floating"):
        cosines = xp.real(cosines)
    large = weights > norm
    cosines = xp.where(large[:, None] & large, cosines, xp.ones_like(cosines))
    at = int(xp.argmin(xp.reshape(cosines, (rank * rank,))))
    least = to_float(cosines[at // rank, at % rank])
    return (at // rank, at % rank, least) if least < COSINE else None
