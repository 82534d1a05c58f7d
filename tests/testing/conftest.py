"""The fixtures of tests with dense formulas."""

from method_backends import one_blas_thread

__all__ = ["one_blas_thread"]
