"""Attention to some keys exactly and to samples of the others, on which its bounds are measured."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlattn.bounds.attention.dense import softmax
from nlattn.bounds.catalogue.typing import Floats
from nlattn.linalg import importance_sample
from nlattn.methods.exact import exact_attention
from nlattn.problem.partials import Partial, merge_partials

__all__ = ["HYPOTHESES", "SIZE", "SOURCE", "SampledProblem", "draw_keys", "light_keys", "sampled_problem"]

SOURCE = "The variance of a sum over independent draws"
HYPOTHESES = (
    "d is the softmax normaliser of a row, and d' an estimate: the sum over the heavy keys, and 1/(m p_l) times the "
    "term of each key l that is not heavy among m keys drawn independently with probabilities p",
    "p_j > 0 for every key that is not heavy; which keys are heavy does not depend on the draws",
)
#: Draws of each replicate, and how many replicates one experiment has.
SIZE, REPLICATES = 12, 2000


def light_keys(weights: Floats, heavy: NDArray[np.bool], probabilities: Floats) -> tuple[Floats, Floats]:
    """P_j and P_j / p_j for the keys that are not heavy; 0 for heavy keys, whose p_j may be 0."""
    light = np.where(heavy, 0, weights)
    return light, light / np.where(light > 0, probabilities, 1)


class SampledProblem(NamedTuple):
    """One query, keys, values, which keys are heavy, and the probabilities with which keys are drawn."""

    query: Floats
    key: Floats
    values: Floats
    heavy: NDArray[np.bool]
    probabilities: Floats

    @property
    def scores(self) -> Floats:
        return self.query @ self.key.T

    @property
    def weights(self) -> Floats:
        return softmax(self.scores)

    def attend(self, index: NDArray[np.int64], log_weight: Floats) -> tuple[Floats, Floats]:
        """Normalisers and outputs from the heavy keys and from samples of the others, `index` (replicates, m)."""
        query, key, values, heavy, _ = self
        part = exact_attention(query, key, values, attn_mask=heavy, scale=1.0, return_lse=True)
        queries = np.broadcast_to(query, (len(index), *query.shape))
        mask = np.where(heavy[0][index], -np.inf, log_weight)[:, None]
        light = exact_attention(queries, key[index], values[index], attn_mask=mask, scale=1.0, return_lse=True)
        exact = Partial(*(np.broadcast_to(x, y.shape) for x, y in zip(part, light, strict=True)))
        out, lse = merge_partials(exact, light)
        return np.exp(lse[:, 0]), out[:, 0]

    def replicates(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Normalisers and outputs of REPLICATES independent sets of draws."""
        return self.attend(*draw_keys(self.probabilities, rng))


def sampled_problem(rng: np.random.Generator, heavy: int = 4) -> SampledProblem:
    """A random problem in which the keys with the largest scores, `heavy` of them, are summed exactly."""
    query, key, values = (rng.standard_normal(shape) for shape in ((1, 3), (40, 3), (40, 2)))
    scores = query @ key.T
    least = np.sort(scores)[:, -heavy, None]
    return SampledProblem(query, key, values, scores >= least, rng.dirichlet(np.full(40, 5.0)))


def draw_keys(probabilities: Floats, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
    """Independent samples (REPLICATES, SIZE): keys, and the logarithms of their weights 1 / (SIZE p)."""
    sample = importance_sample(probabilities, REPLICATES * SIZE, rng=rng)
    index, log_weight = (np.asarray(x).reshape(REPLICATES, SIZE) for x in sample)
    return index, log_weight + math.log(REPLICATES)
