"""Warnings about results that fall short of what was asked for, which point at the caller's own line."""

import sys
import warnings

from nlattn.errors import ConvergenceWarning

__all__ = ["warn_unconverged"]


def warn_unconverged(sentence: str) -> None:
    """Issue a ConvergenceWarning at the first line outside this package, through whatever functions it was reached."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("nlattn."):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, ConvergenceWarning, stacklevel=level)
