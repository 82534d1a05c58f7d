"""A generator whose draws are given in advance: to enumerate all of them, or to put quadrature nodes in their place."""

import itertools

import numpy as np


class Scripted(np.random.Generator):
    """Returns the given arrays one by one, whatever it is asked to draw."""

    def __init__(self, *draws):
        super().__init__(np.random.PCG64(0))
        self.draws = list(draws)

    def integers(self, *args, **kwargs):
        return self.draws.pop(0)

    standard_normal = permutation = choice = integers


def words(letters, length):
    """All arrays of `length` letters."""
    return [np.asarray(word) for word in itertools.product(letters, repeat=length)]


def side_by_side(draws, *, axis=0, most=128):
    """Draws of small problems as draws of larger ones, which hold `most` of them in coordinates of their own.

    Each of `draws` is a tuple of arrays, whose `axis` runs over the coordinates of one small problem.
    """
    draws = list(draws)
    for first in range(0, len(draws), most):
        batch = draws[first : first + most]
        yield len(batch), Scripted(*(np.concatenate(parts, axis=axis) for parts in zip(*batch, strict=True)))
