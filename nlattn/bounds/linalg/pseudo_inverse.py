"""The third-order iteration for a pseudo-inverse."""

import numpy as np

from nlattn.bounds.catalogue.data import with_spectrum
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.linalg._pseudo_inverse import iterated_inverse

__all__ = ["pseudo_inverse_iteration"]


@bound(
    "identity",
    "I - A Z' = (3/4) E^3 + (1/4) E^4 with E = I - A Z, Z' = (1/4) Z (13 I - A Z (15 I - A Z (7 I - A Z)))",
    hypotheses=("A and Z are square",),
    source="The iteration is that of arXiv 2102.03902",
)
def pseudo_inverse_iteration(residual: Floats) -> Floats:
    """What one step of the iteration makes of the residual ``I - A Z``.

    Parameters
    ----------
    residual : array, shape (n, n)
        E; or its eigenvalues, as numbers, shape (n, 1, 1).

    Returns
    -------
    array, shape (n, n)
        Convergence is of third order where E has norm below 1. A small eigenvalue m of A Z becomes 13/4 m + O(m^2), so
        that a singular value s of A needs log(|A|_1 |A|_inf / s^2) / log(13/4) steps before its third order sets in.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.pseudo_inverse_iteration(np.asarray([[0.1]])).round(9)
    array([[0.000775]])
    """
    cube = residual @ residual @ residual
    return 0.75 * cube + 0.25 * cube @ residual


@experiment(pseudo_inverse_iteration, trials=50, band=(0.999, 1.001), rounding=1e-7)
def pseudo_inverse_iteration_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a = with_spectrum(np.linspace(1.0, 0.3, 6), 6, 6, rng)
    steps = int(rng.integers(0, 5))
    before, after = (np.eye(6) - a @ iterated_inverse(a, k) for k in (steps, steps + 1))
    return np.linalg.norm(after), np.linalg.norm(pseudo_inverse_iteration(before))
