"""One row's scores of several keys, side by side."""

import numpy as np

from nlattn.backends.numba_cpu.runtime.compilation import inner
from nlattn.backends.numba_cpu.vector.floats import infinite, largest

__all__ = ["add_bias", "all_hidden", "biased"]


@inner()
def biased(score, bias):  # type: ignore[no-untyped-def]
    """score + bias. Only a bias of -inf hides a key, a finite one does not, however large."""
    low, least = -infinite(score), -largest(score)
    x = score + min(max(bias, least), -least)
    x = least if x < least else x
    return low if bias == low else x


@inner()
def add_bias(scores, bias):  # type: ignore[no-untyped-def]
    """scores <- `biased`."""
    for j in range(scores.size):
        scores[j] = biased(scores[j], bias[j])


@inner()
def all_hidden(scores):  # type: ignore[no-untyped-def]
    """Whether scores whose `maximum` is -inf really are: it passes over a NaN whose sign is set."""
    hidden = True
    for j in range(scores.size):
        hidden = hidden and not np.isnan(scores[j])
    return hidden
