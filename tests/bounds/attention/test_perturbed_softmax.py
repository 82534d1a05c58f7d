"""What errors of scores, weights and normalisers do to the output."""

import numpy as np

from nlattn.bounds import entrywise_output, logit_perturbation, normaliser_perturbation

VALUES = np.asarray([[0.0, 0.0], [3.0, 4.0]])


def mean(weights):
    return weights @ VALUES / np.sum(weights)


def test_logit_perturbation_is_attained():
    h = 0.7
    weights, errors = np.asarray([1.0, np.exp(h)]), np.asarray([h, -h])
    error = np.linalg.norm(mean(weights * np.exp(errors)) - mean(weights))
    np.testing.assert_allclose(error, logit_perturbation(errors[None], VALUES)[0])
    assert logit_perturbation(np.full((1, 2), 9.0), VALUES) == 0  # a common shift changes nothing


def test_entrywise_output_is_attained():
    e = 0.3
    x = np.arctanh(e)
    weights, errors = np.asarray([1.0, np.exp(x)]), np.asarray([e, -e])
    error = np.linalg.norm(mean(weights * (1 + errors)) - mean(weights))
    np.testing.assert_allclose(error, entrywise_output(e, VALUES))
    assert entrywise_output(e, VALUES) < e * 5
    np.testing.assert_allclose(entrywise_output(1e-6, VALUES), 0.5e-6 * 5, rtol=1e-6)
    # Negative weights are outside the hypotheses: the mean can leave the hull of the values.
    signed = np.asarray([1.0, -0.9])
    error = np.linalg.norm(signed * (1 + errors) @ VALUES / np.sum(signed * (1 + errors)) - mean(signed))
    assert error > entrywise_output(e, VALUES)


def test_normaliser_perturbation_is_attained():
    a = np.exp(np.random.default_rng(0).standard_normal((6, 9)))
    d = a.sum(axis=1, keepdims=True)
    error = np.linalg.norm(a / (0.75 * d) - a / d, 2)
    np.testing.assert_allclose(error, normaliser_perturbation(0.25, np.linalg.norm(a / d, 2)))
