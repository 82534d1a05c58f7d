"""Every bound of the catalogue holds and is not vacuous, and its record is complete."""

import dataclasses

import pytest
from threadpoolctl import threadpool_limits

from nlattn import bounds
from nlattn.bounds import BOUNDS, check
from nlattn.bounds.catalogue.decorators import STATED, bound, experiment

#: The most trials of the default run. One trial refutes what always holds; for the others the verdict is only coarser
#: than with all trials.
FEWER = {"always": 30, "identity": 30, "mean": 50, "probability": 100}
#: For moments, whose bands are narrow, the part of the trials that keeps the standard error of the ratio within them.
PART = 4


@pytest.fixture(scope="module", autouse=True)
def _one_blas_thread():
    """Threads do not pay for matrices this small, and on a busy machine they wait for each other."""
    with threadpool_limits(1, "blas"):
        yield


def holds(id, trials=None):
    outcome = check(id, trials=trials)
    low, high = BOUNDS[id].band
    assert outcome.holds, outcome
    assert low <= outcome.ratio <= high, outcome


@pytest.mark.parametrize("id", BOUNDS)
def test_holds(id):
    record = BOUNDS[id]
    holds(id, min(record.trials, FEWER.get(record.kind, record.trials // PART)))


@pytest.mark.slow
@pytest.mark.parametrize("id", BOUNDS)
def test_holds_in_all_trials(id):
    holds(id)


def test_every_statement_has_an_experiment():
    """A statement alone does not enter the catalogue."""
    assert STATED.keys() == BOUNDS.keys()


def test_experiments_are_named_after_their_bounds():
    """So that a traceback shows which bound was measured."""
    assert {id: record.run.__name__ for id, record in BOUNDS.items()} == {id: f"{id}_trial" for id in BOUNDS}


@pytest.fixture
def undone():
    """Takes back what a test states and enters."""
    yield
    STATED.pop("at_most_one", None)
    BOUNDS.pop("at_most_one", None)


def stated(kind="always"):
    @bound(kind, "x <= 1", hypotheses=("x is uniform on [0, 1]",), source="Elementary")
    def at_most_one():
        return 1.0

    return at_most_one


def test_a_bound_enters_with_its_experiment(undone):
    function = stated()
    assert "at_most_one" not in BOUNDS

    @experiment(function, trials=7, band=(0.0, 1.0))
    def at_most_one_trial(rng):
        return rng.random(), function()

    record = BOUNDS["at_most_one"]
    assert (record.function, record.run, record.trials, record.failure) == (function, at_most_one_trial, 7, 0.0)
    assert check("at_most_one").trials == 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.trials = 8


def test_refused_experiments(undone):
    def elsewhere(rng):
        return 0.0, 1.0

    with pytest.raises(ValueError, match="experiment of at_most_one must be named at_most_one_trial, got elsewhere"):
        experiment(stated(), band=(0.0, 1.0))(elsewhere)
    elsewhere.__name__ = "at_most_one_trial"
    for kind, failure in (("always", 0.1), ("probability", 0.0)):
        with pytest.raises(ValueError, match="failure must be above 0 for kind 'probability' and 0 for others"):
            experiment(stated(kind), band=(0.0, 1.0), failure=failure)(elsewhere)


def test_public_names():
    assert set(bounds.__all__) == {*BOUNDS, "BOUNDS", "Bound", "Outcome", "check"}
    assert all(getattr(bounds, id) is record.function for id, record in BOUNDS.items())
