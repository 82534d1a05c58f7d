"""One row's scores of several keys, side by side."""

import numpy as np

from nlattn.backends.numba_cpu.runtime.compilation import inner

__all__ = ["add_bias", "all_hidden"]


@inner()
def add_bias(scores, bias):  # type: ignore[no-untyped-def]
    """scores += bias. Only -inf hides a key: a finite bias does not, however large."""
    low, least = scores.dtype.type(-np.inf), scores.dtype.type(np.finfo(scores.dtype).min)
    for j in range(scores.size):
        x = scores[j] + min(max(bias[j], least), -least)
        x = least if x < least else x
        scores[j] = low if bias[j] == low else x


@inner()
def all_hidden(scores):  # type: ignore[no-untyped-def]
    """Whether scores whose `maximum` is -inf really are: it passes over a NaN whose sign is set."""
    hidden = True
    for j in range(scores.size):
        hidden = hidden and not np.isnan(scores[j])
    return hidden
