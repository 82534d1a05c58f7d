"""Truncations that share a tolerance."""

from collections.abc import Callable
from typing import TypeVar

from nlattn.arrays.typing import Array, Namespace
from nlattn.linalg._magnitudes import CANCELLED

__all__ = ["Allowance", "within"]

T = TypeVar("T")


class Allowance:
    """How much energy (squared norm) `steps` truncations may discard in all: what one leaves, the next ones may use."""

    def __init__(self, energy: float, steps: int) -> None:
        self.energy, self.steps = energy, steps

    @property
    def share(self) -> float:
        """What the next one may discard."""
        return self.energy / self.steps

    def rank(self, xp: Namespace, energies: Array, lost: float) -> int:
        """The fewest leading directions, at least one, beyond which no more than the share, less `lost`, remains."""
        tails = xp.flip(xp.cumulative_sum(xp.flip(energies)))
        return max(1, int(xp.sum(xp.astype(tails > self.share - lost, xp.int64))))

    def spend(self, energy: float) -> None:
        """Enter a truncation that has been made."""
        self.energy, self.steps = max(self.energy - energy, 0.0), self.steps - 1


def within(
    attempt: Callable[[Allowance, bool], tuple[T, float]], *, rtol: float, norm: float, steps: int, eps: float
) -> tuple[T, float]:
    """The first result of ``attempt(allowance, accurate)`` whose error, which it measures, is at most `rtol`.

    Precision is raised first, then the allowance lowered until nothing but exact zeros may be discarded.
    """
    attempts = [(False, 1.0), (True, 1.0), (True, 0.25), (True, 0.0)]
    # A Gram matrix gives energies to a few eps times the whole; a smaller allowance needs the accurate way at once.
    for accurate, share in attempts[rtol**2 < CANCELLED * steps * eps :]:
        result, error = attempt(Allowance(share * (rtol * norm) ** 2, steps), accurate)
        if error <= rtol:
            break
    return result, error
