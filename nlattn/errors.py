"""The exceptions and warnings that nlattn adds to the built-in ones."""

__all__ = ["BackendUnavailable", "ConvergenceWarning", "PerformanceWarning"]


class BackendUnavailable(ImportError):
    """A backend was asked for by name and cannot be used here."""


class PerformanceWarning(UserWarning):
    """The result is right but was computed more slowly than it could be."""


class ConvergenceWarning(UserWarning):
    """An iteration stopped before it reached its tolerance."""
