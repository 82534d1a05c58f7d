"""Types of what bounds take and return."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from nlattn.arrays.typing import Array

__all__ = ["Floats", "Kind", "Measured", "Real", "RealOnAny", "Trial"]

#: NumPy arrays in double precision; the docstrings give their shapes.
Floats: TypeAlias = NDArray[np.float64]

#: A number, or an array of numbers for each of which a bound is computed.
Real = TypeVar("Real", float, Floats)
#: The same for bounds that work on any array library.
RealOnAny = TypeVar("RealOnAny", float, Array)

#: How measured and bound are compared.
#: "always": measured <= bound in every trial. "identity": measured == bound in every trial, to rounding.
#: "probability": measured <= bound except with the failure probability. "mean": E measured <= E bound.
#: "moment": E measured == E bound.
Kind = Literal["always", "identity", "probability", "mean", "moment"]

#: A number for one trial, or an array of one axis for several trials at once.
Measured: TypeAlias = float | np.floating[Any] | NDArray[Any]

#: Makes one trial, or several at once: returns what was measured, and the bound for it.
Trial: TypeAlias = Callable[[np.random.Generator], tuple[Measured, Measured]]
