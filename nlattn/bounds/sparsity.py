"""What attention over some of the keys loses."""

from typing import Any

import numpy as np

from nlattn.bounds.registry import bound, experiment
from nlattn.methods.exact import exact_attention

__all__ = ["diameter", "dropped_mass"]


@bound(
    "always",
    "||o_kept - o|| <= eps diam(V), eps the softmax mass of the dropped keys",
    hypotheses=("o_kept is the softmax mean over the kept keys, renormalised", "at least one key is kept"),
    source="Follows from the law of total expectation",
    trials=200,
    band=(0.08, 1.0),
)
def dropped_mass(mass: Any, values: Any) -> Any:
    """Error of attention that is restricted to some of the keys.

    Parameters
    ----------
    mass : array, shape (rows,)
        The softmax mass of the dropped keys, between 0 and 1.
    values : array, shape (S, Ev)

    Returns
    -------
    array, shape (rows,)
        ``mass`` times the largest distance between two values: a bound of the 2-norm of the error of each output.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.dropped_mass(np.asarray([0.1]), np.asarray([[0.0], [2.0]]))
    array([0.2])
    """
    return mass * diameter(values)


def diameter(values: Any) -> Any:
    """The largest distance between two values."""
    differences = values[:, None, :] - values[None, :, :]
    return np.sqrt(np.max(np.sum(differences**2, axis=-1)))


@experiment(dropped_mass)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    query, key, values = (rng.standard_normal(shape) for shape in ((1, 4), (40, 4), (40, 3)))
    kept = rng.permutation(40) < 20
    restricted = exact_attention(query, key, values, attn_mask=kept[None], scale=1.0)[0]
    weights = np.exp(key @ query[0])
    weights = weights / np.sum(weights)
    return np.linalg.norm(restricted - weights @ values), dropped_mass(np.sum(weights[~kept]), values)
