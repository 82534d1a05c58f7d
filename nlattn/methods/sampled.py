"""What methods of blocks and sampled keys share: hashing, sorting, drawing, and the causal form by halving."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from nlattn.arrays.arguments import check_integer
from nlattn.arrays.random import children
from nlattn.attend.halving import Halves, attend_to_halves, prepare_halves
from nlattn.attend.sampled_rest import attend_to_blocks_and_samples
from nlattn.methods.method import Method
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.sampled_keys import BlocksAndSamples, Importance, choose_blocks_and_samples

__all__ = ["SAMPLED_BOUNDS", "SampledMethod", "Variant"]

Variant = Literal["nlattn", "paper"]

#: The bounds of normalisers and outputs that are sums over some keys exactly and a sample of the others.
SAMPLED_BOUNDS = (
    "normaliser_mean",
    "normaliser_variance",
    "normaliser_variance_limit",
    "normaliser_deviation",
    "normaliser_perturbation",
    "ratio_identity",
    "ratio_variance",
    "ratio_error",
    "sampled_attention_spectral",
)


@dataclass(frozen=True)
class SampledMethod(Method[Halves[BlocksAndSamples | None]]):
    """Exact attention within blocks of similar hash codes, and drawn keys for the rest."""

    bucket_size: int = 256
    samples: int = 256
    bits: int = 7
    variant: Variant = "nlattn"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("bits", self.bits, most=62, why="the bits of an int64")

    @property
    @abstractmethod
    def importance(self) -> Importance | None:
        """What the probabilities of the keys are proportional to; None for equal ones."""

    def prepare(self, problem: Problem, rng: np.random.Generator) -> Halves[BlocksAndSamples | None]:
        """Hash, sort and draw, once or for each level of the causal form."""
        b, _, g, _, _ = problem.shape
        choose = partial(
            choose_blocks_and_samples,
            generators=children(rng, b * g),
            size=self.bucket_size,
            samples=self.samples,
            bits=self.bits,
            importance=self.importance,
            paper=self.variant == "paper",
        )
        # A half with no more keys than a row would meet in it costs no more when it is met exactly.
        return prepare_halves(problem, 2 * (self.bucket_size + self.samples), choose)

    def apply(self, state: Halves[BlocksAndSamples | None], rows: Problem) -> Partial:
        """Attend to the blocks and the drawn keys, and to exact stretches in the causal form."""
        return attend_to_halves(rows, state, attend_to_blocks_and_samples)
