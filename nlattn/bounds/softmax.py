"""What errors of scores, weights and normalisers do to the output of attention."""

from typing import Any

import numpy as np

from nlattn.bounds.registry import bound, experiment
from nlattn.bounds.sparsity import diameter

__all__ = ["entrywise_output", "logit_perturbation", "normaliser_perturbation"]


@bound(
    "always",
    "||o' - o|| <= tanh((max_j d_j - min_j d_j)/4) diam(V), d_j the errors of the scores of a row",
    hypotheses=("o and o' are the softmax means of the values for scores s_j and s_j + d_j",),
    source="Elementary",
    band=(0.05, 0.9),
)
def logit_perturbation(errors: Any, values: Any) -> Any:
    """Error of attention whose scores are perturbed.

    Parameters
    ----------
    errors : array, shape (rows, S)
        Of the scores. Only their range in a row counts; if all are at most e, it is at most 2 e.
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


@experiment(logit_perturbation)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    scores, values = rng.standard_normal((1, 30)), rng.standard_normal((30, 2))
    errors = 0.3 * rng.uniform(-1, 1, (1, 30)) + 5
    error = np.linalg.norm(_softmax(scores + errors) @ values - _softmax(scores) @ values)
    return error, logit_perturbation(errors, values)


@bound(
    "always",
    "||o' - o|| <= (1 - (1 - e^2)^(1/2))/e diam(V), if each weight of a row has a relative error of at most e < 1",
    hypotheses=("o' = sum_j w_j (1 + d_j) v_j / sum_j w_j (1 + d_j), |d_j| <= e", "w_j >= 0, not all 0"),
    source="Elementary; at most e diam(V), and about half of it for small e",
    band=(0.05, 0.9),
)
def entrywise_output(error: Any, values: Any) -> Any:
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
    return np.asarray(error) / (1 + np.sqrt(1 - np.asarray(error) ** 2)) * diameter(values)


@experiment(entrywise_output)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    weights, values = rng.exponential(size=30) ** 2, rng.standard_normal((30, 2))
    changed = weights * (1 + 0.4 * rng.uniform(-1, 1, 30))
    error = np.linalg.norm(changed @ values / changed.sum() - weights @ values / weights.sum())
    return error, entrywise_output(0.4, values)


@bound(
    "always",
    "||(D'^-1 - D^-1) A||_2 <= e/(1 - e) ||D^-1 A||_2, if each normaliser has a relative error of at most e < 1",
    hypotheses=("D = diag(A 1) and D' = diag(d'_i), |d'_i - d_i| <= e d_i", "A >= 0, no zero row"),
    source="Elementary",
    band=(0.05, 1.0),
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
    return error / (1 - error) * norm


@experiment(normaliser_perturbation)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    a = np.exp(rng.standard_normal((20, 30)))
    d = np.sum(a, axis=1, keepdims=True)
    changed = d * (1 + 0.2 * rng.uniform(-1, 1, d.shape))
    return np.linalg.norm(a / changed - a / d, 2), normaliser_perturbation(0.2, float(np.linalg.norm(a / d, 2)))


def _softmax(scores: Any) -> Any:
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return weights / np.sum(weights, axis=-1, keepdims=True)
