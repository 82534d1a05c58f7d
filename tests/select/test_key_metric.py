"""Coordinates in which distances of keys, and of queries, are differences of scores."""

import numpy as np
from multipole_oracle import draw

from nlattn.problem.arguments import checked_problem
from nlattn.select.key_metric import coordinates, query_moment
from nlattn.testing import assert_close, to_numpy


def metric(backend, q, k, v, **options):
    problem = checked_problem("x", *(backend.array(x) for x in (q, k, v)), masks="keys", **options)
    used = backend.array(np.ones((1, len(k), k.shape[1]), bool))
    found = coordinates(problem, used, query_moment(problem))
    return to_numpy(found.points), to_numpy(found.queries), problem.scale


def squares(x):
    return ((x[:, None] - x) ** 2).sum(-1)


def test_distances_of_keys_are_root_mean_square_differences_of_scores(backend):
    q, k, v = draw(80, 60, e=6)
    points, _, scale = metric(backend, q, k, 0 * v)
    for g in range(2):
        scores = scale * np.concatenate(q[2 * g : 2 * g + 2]) @ k[g].T
        wanted = squares(scores.T) / 160
        assert_close(squares(points[0, g]), wanted, rtol=1e-9, atol=1e-10)
        # Values add a part with a quarter of the variance.
        both, _, _ = metric(backend, q, k, v)
        extra = squares(both[0, g]) - wanted
        assert_close(extra, 0.25 * wanted.mean() / squares(v[g]).mean() * squares(v[g]), rtol=1e-8, atol=1e-9)
    # Beyond 16 directions the rest is dropped, and it is the smallest part.
    q, k, v = draw(300, 60, e=40)
    decay = 0.8 ** np.arange(40)
    points, _, scale = metric(backend, q * decay, k * decay, 0 * v)
    scores = scale * np.concatenate((q * decay)[:2]) @ (k[0] * decay).T
    wanted, kept = squares(scores.T) / 600, squares(points[0, 0])
    assert np.all(kept <= wanted * (1 + 1e-9))
    assert kept.sum() > 0.99 * wanted.sum()


def test_coordinates_of_queries_keep_differences_of_scores(backend):
    q, k, v = draw(80, 60, e=6)
    _, side, _ = metric(backend, q, k, v)
    centred = k[0] - k[0].mean(0)
    wanted = squares(q[0] @ centred.T) / 60
    assert_close(squares(q[0] @ side[0, 0]), wanted, rtol=1e-9, atol=1e-10)
