"""What errors of scores, weights and normalisers do to the output of attention."""

import numpy as np

from nlattn.arrays.arguments import check_number
from nlattn.bounds.attention.dense import diameter, softmax
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured, Real
from nlattn.methods.exact import exact_attention

__all__ = ["entrywise_output", "logit_perturbation", "normaliser_perturbation"]


@bound(
    "always",
    "||o' - o|| <= tanh((max_j d_j - min_j d_j)/4) diam(V), d_j the errors of the scores of a row",
    hypotheses=("o and o' are the softmax means of the values V for scores s_j and s_j + d_j",),
    source="Elementary",
)
def logit_perturbation(errors: Floats, values: Floats) -> Floats:
    """Error of attention whose scores are perturbed.

    Parameters
    ----------
    errors : array, shape (rows, S)
        Errors of the scores. Only their range in a row counts; if all are at most e, it is at most 2 e.
    values : array, shape (S, Ev)

    Returns
    -------
    array, shape (rows,)
        A bound of the 2-norm of the error of each output.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.logit_perturbation(np.asarray([[0.1, -0.1]]), np.asarray([[0.0], [2.0]])).round(3)
    array([0.1])
    """
    return np.tanh((np.max(errors, axis=-1) - np.min(errors, axis=-1)) / 4) * diameter(values)


@experiment(logit_perturbation, band=(0.03, 0.9))
def logit_perturbation_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    query, key, values = _problem(rng)
    errors = 0.3 * rng.uniform(-1, 1, (1, 30)) + 5
    found = exact_attention(query, key, values, attn_mask=errors, scale=1.0)
    return np.linalg.norm(found - softmax(query @ key.T) @ values), logit_perturbation(errors, values)


@bound(
    "always",
    "||o' - o|| <= (1 - (1 - e^2)^(1/2))/e diam(V), if each weight of a row has a relative error of at most e < 1",
    hypotheses=(
        "o is the mean of the values V with weights w_j, and o' that with weights w_j (1 + d_j), |d_j| <= e",
        "w_j >= 0, not all 0",
    ),
    source="Elementary; at most e diam(V), and about half of it for small e",
)
def entrywise_output(error: Real, values: Floats) -> Real:
    """Error of attention whose unnormalised weights are known up to a relative error.

    Parameters
    ----------
    error : float or array
        e.
    values : array, shape (S, Ev)

    Returns
    -------
    float or array
        A bound of the 2-norm of the error of an output.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.entrywise_output(0.6, np.asarray([[0.0], [3.0]])).round(9))
    1.0
    """
    for extreme in (np.min(error, initial=0.0), np.max(error, initial=0.0)):
        check_number("error", extreme, least=0, below=1)
    return error / (1 + np.sqrt(1 - error**2)) * diameter(values)


@experiment(entrywise_output, band=(0.03, 0.9))
def entrywise_output_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    query, key, values = _problem(rng)
    relative = 0.4 * rng.uniform(-1, 1, (1, 30))
    found = exact_attention(query, key, values, attn_mask=np.log1p(relative), scale=1.0)
    return np.linalg.norm(found - softmax(query @ key.T) @ values), entrywise_output(0.4, values)


@bound(
    "always",
    "||(D'^-1 - D^-1) A||_2 <= e/(1 - e) ||D^-1 A||_2, if each normaliser has a relative error of at most e < 1",
    hypotheses=("D = diag(A 1) and D' = diag(d'_i), |d'_i - d_i| <= e d_i", "A is not negative and has no zero row"),
    source="Elementary",
)
def normaliser_perturbation(error: float, norm: float) -> float:
    """Spectral error of attention weights whose normalisers are known up to a relative error.

    Parameters
    ----------
    error : float
        e.
    norm : float
        Spectral norm of the matrix of softmax weights.

    Returns
    -------
    float

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.normaliser_perturbation(0.5, 1.5)
    1.5
    """
    check_number("error", error, least=0, below=1)
    return error / (1 - error) * norm


@experiment(normaliser_perturbation, band=(0.2, 1.0))
def normaliser_perturbation_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    query, key = rng.standard_normal((20, 2)), rng.standard_normal((30, 2))
    # With the identity for values the output is the matrix of softmax weights, D^-1 A.
    found, lse = exact_attention(query, key, np.eye(30), scale=1.0, return_lse=True)
    changed = np.exp(lse)[:, None] * (1 + 0.2 * rng.uniform(-1, 1, (20, 1)))
    scores = query @ key.T
    norm = float(np.linalg.norm(softmax(scores), 2))
    return np.linalg.norm(np.exp(scores) / changed - found, 2), normaliser_perturbation(0.2, norm)


def _problem(rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """One query, 30 keys and their values, in the plane."""
    return rng.standard_normal((1, 2)), rng.standard_normal((30, 2)), rng.standard_normal((30, 2))
