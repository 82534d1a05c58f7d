"""Bounds and exact moments as functions, each with its hypotheses, a proof in ``proofs/`` and an experiment.

``BOUNDS`` lists them; ``check`` measures one; ``nlattn bounds`` on the command line measures all.
"""

from nlattn.bounds.registry import BOUNDS, Bound
from nlattn.bounds.sparsity import dropped_mass
from nlattn.bounds.trials import Outcome, check

__all__ = [
    "BOUNDS",
    "Bound",
    "Outcome",
    "check",
    "dropped_mass",
]
