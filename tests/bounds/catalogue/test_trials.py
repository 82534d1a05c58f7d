"""How trials are counted: true statements pass, false ones and NaN do not."""

import dataclasses

import numpy as np
import pytest

from nlattn.bounds import BOUNDS, check


@pytest.fixture
def outcome(monkeypatch):
    """Checks a bound of the given kind, of which one call of `measure` makes all trials."""

    def run(kind, measure, limit=1.0, trials=400, **options):
        options = {"failure": 0.1 if kind == "probability" else 0.0} | options
        record = dataclasses.replace(
            BOUNDS["dropped_mass"], kind=kind, run=lambda rng: (measure(rng, trials), limit), **options
        )
        monkeypatch.setitem(BOUNDS, "dropped_mass", record)
        return check("dropped_mass", trials=trials)

    return run


def one(rng, trials):
    return np.ones(trials)


def uniform(rng, trials):
    return rng.random(trials)


@pytest.mark.parametrize("kind", ["always", "identity", "probability", "mean", "moment"])
def test_kinds(outcome, kind):
    assert outcome(kind, one).holds
    # Below the bound only inequalities hold, and a NaN is never below it.
    assert outcome(kind, lambda rng, trials: 0.9 * one(rng, trials)).holds == (kind not in ("identity", "moment"))
    assert not outcome(kind, lambda rng, trials: 1.1 * one(rng, trials)).holds
    assert not outcome(kind, lambda rng, trials: np.nan * one(rng, trials)).holds


@pytest.mark.parametrize("kind", ["always", "identity", "mean", "moment"])
def test_rounding(outcome, kind):
    assert outcome(kind, lambda rng, trials: (1 + 5e-10) * one(rng, trials)).holds
    assert not outcome(kind, lambda rng, trials: (1 + 5e-10) * one(rng, trials), rounding=1e-10).holds


def test_one_violation_refutes_what_always_holds(outcome):
    def once(rng, trials):
        return np.where(np.arange(trials) == 7, 1.5, 0.5)

    found = outcome("always", once)
    assert (found.violations, found.allowed, found.holds) == (1, 0, False)
    assert (found.worst, found.worst_ratio, found.ratio) == (1.5, 1.5, 0.5)
    assert outcome("probability", once).violations == 1


@pytest.mark.parametrize(("failure", "holds"), [(0.12, True), (0.1, True), (0.02, False)])
def test_probabilities_are_counted(outcome, failure, holds):
    """A tenth of the trials lies above the bound 0.9."""
    found = outcome("probability", uniform, 0.9, failure=failure)
    assert 20 < found.violations < 60
    assert found.holds == holds


@pytest.mark.parametrize(("limit", "mean", "moment"), [(0.5, True, True), (0.4, False, False), (0.6, True, False)])
def test_means_are_compared_in_standard_errors(outcome, limit, mean, moment):
    assert outcome("mean", uniform, limit).holds == mean
    found = outcome("moment", uniform, limit)
    assert found.holds == moment
    assert found.ratio == pytest.approx(0.5 / limit, rel=0.1)


def test_too_few_trials_allow_any_mean(outcome):
    assert outcome("moment", uniform, 0.4, trials=2).allowed > 1e5


def test_outcomes_do_not_depend_on_what_else_is_checked():
    first = check("logit_perturbation", trials=5, rng=3)
    check("dropped_mass", trials=5, rng=3)
    assert check("logit_perturbation", trials=5, rng=3) == first != check("logit_perturbation", trials=5, rng=4)


def test_refused():
    with pytest.raises(ValueError, match=r"\Aid must be one of "):
        check("dropped")
    with pytest.raises(ValueError, match=r"\Atrials must be at least 2, got 1"):
        check("dropped_mass", trials=1)
