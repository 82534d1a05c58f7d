"""Errors of range finders, Nystrom approximations, pivoted Cholesky, sampling by importance, and of estimates."""
