"""Estimated scores, and the keys that they find."""

import numpy as np

from nlattn.bounds import projected_scores, selected_mass, selected_score, transformed_distance
from nlattn.cluster import augment_for_inner_products


def test_projected_scores_of_singular_vectors():
    rng = np.random.default_rng(0)
    key = rng.standard_normal((20, 5))
    sigma, vh = np.linalg.svd(key)[1:]
    basis, query = vh[:2].T, rng.standard_normal((4, 5))
    apart = np.linalg.norm(query @ vh[2:].T, axis=1)
    np.testing.assert_allclose(projected_scores(query, key, basis, -0.5), 0.5 * sigma[2] * apart)
    # The third singular vector as a query: attained.
    error = np.linalg.norm(vh[2] @ basis @ (key @ basis).T - key @ vh[2])
    np.testing.assert_allclose(error, projected_scores(vh[2:3], key, basis)[0])


def test_projected_scores_needs_an_orthonormal_basis():
    rng = np.random.default_rng(0)
    query, key = rng.standard_normal((1, 5)), rng.standard_normal((20, 5))
    basis = 2**0.25 * np.linalg.svd(key)[2][:4].T
    error = np.linalg.norm(query @ basis @ (key @ basis).T - query @ key.T)
    assert error > projected_scores(query, key, basis)[0]


def chosen(scores, estimates, count):
    return np.sort(np.argsort(-estimates, kind="stable")[:count])


def test_selected_score_is_attained():
    """Two keys whose scores are 2 e apart may have the same estimates."""
    scores, e = np.asarray([1.0, 0.0]), 0.5
    found = chosen(scores, scores + np.asarray([-e - 1e-9, e]), 1)
    assert 1 - scores[found[0]] == selected_score(e)
    # An error of one score that is larger than e: more is lost.
    far = np.asarray([1.0, -3.0])
    found = chosen(far, far + np.asarray([-e, 8 * e + 1e-9]), 1)
    assert 1 - far[found[0]] > selected_score(e)


def test_selected_mass_is_attained():
    scores, e = np.asarray([1.0, 0.0]), 0.5
    weights = np.exp(scores) / np.sum(np.exp(scores))
    found = chosen(scores, scores + np.asarray([-e - 1e-9, e]), 1)
    np.testing.assert_allclose(np.max(weights), selected_mass(e, weights[found[0]]))
    assert selected_mass(5.0, 0.3) == 1


def test_a_gap_makes_the_choice_exact():
    """Above a gap of selected_score the chosen sets agree, whatever the errors are; below it they need not."""
    rng = np.random.default_rng(0)
    for gap, equal in ((1.001, True), (0.9, False)):
        same = 0
        for _ in range(200):
            scores = np.sort(rng.standard_normal(30))[::-1]
            scores[:10] += scores[10] - scores[9] + gap * selected_score(0.3)
            estimates = scores + 0.3 * rng.choice([-1, 1], 30)
            same += np.array_equal(chosen(scores, estimates, 10), np.arange(10))
        assert (same == 200) == equal


def test_transformed_distance_orders_all_pairs():
    rng = np.random.default_rng(0)
    query, key = rng.standard_normal((6, 4)), rng.standard_normal((9, 4))
    f, g = augment_for_inner_products(query, key, kind="xbox+")
    most = sum(np.max(np.sum(x**2, axis=1)) for x in (query, key))
    np.testing.assert_allclose(np.sum(f**2, axis=1), most)
    np.testing.assert_allclose(np.sum(g**2, axis=1), most)
    distance = transformed_distance(query, key).ravel()
    np.testing.assert_allclose(np.sum((f[:, None] - g) ** 2, axis=-1).ravel(), distance)
    assert np.array_equal(np.argsort(distance), np.argsort(-(query @ key.T).ravel()))


def test_transformed_distance_needs_both_extra_coordinates():
    """With the extra coordinate of the keys alone the order is that of the scores only within one query."""
    rng = np.random.default_rng(0)
    query, key = rng.standard_normal((6, 4)) * np.arange(1, 7)[:, None], rng.standard_normal((9, 4))
    f, g = augment_for_inner_products(query, key, kind="xbox")
    distance, scores = np.sum((f[:, None] - g) ** 2, axis=-1), query @ key.T
    assert np.array_equal(np.argsort(distance, axis=1), np.argsort(-scores, axis=1))
    assert not np.array_equal(np.argsort(distance.ravel()), np.argsort(-scores.ravel()))
    assert np.max(np.abs(distance / transformed_distance(query, key) - 1)) > 0.1
