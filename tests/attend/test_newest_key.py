"""The newest key that each row may see."""

import numpy as np
from problems import problem_of

from nlattn.attend.newest_key import newest_key
from nlattn.select.usable_keys import valid_keys


def test_newest_key():
    mask = np.asarray([True, False, False, True, False])
    problem = problem_of(np.asarray, 7, 5, mask=mask, is_causal=True)
    newest = newest_key(problem, valid_keys(problem), problem.stop)
    assert newest.exists[0, 0].tolist() == [False, False, True, True, True, True, True]
    assert newest.position[0, 0, 2:].tolist() == [0, 0, 0, 3, 3]
