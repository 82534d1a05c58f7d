"""Methods, their records and their functions: what stands twice is the same, and what is claimed can be called."""

import dataclasses
import inspect
import re

import numpy as np
import pytest

import nlattn
from nlattn import METHODS
from nlattn.methods.formulas import formula

RECORDS = pytest.mark.parametrize("record", METHODS.values(), ids=lambda record: record.name)


def function_of(record):
    return getattr(nlattn, f"{record.name}_attention")


def fields_of(record):
    return {field.name: field.default for field in dataclasses.fields(record.method)}


@RECORDS
def test_defaults_of_function_and_method_are_the_same(record):
    """Also in the docstring: ``name : type, default value``."""
    function, own = function_of(record), fields_of(record)
    parameters = inspect.signature(function).parameters
    text = inspect.getdoc(function)
    for name, default in own.items():
        assert parameters[name].default == default, name
        (documented,) = re.findall(rf"^{name} : .*default (.*?)(?: \(.*| for .*)?$", text, flags=re.MULTILINE)
        if default is not None and not name.startswith("multiplicity"):
            read = documented.strip('"') if isinstance(default, str) else type(default)(documented)
            assert read == default, name
    budgets = [budget.name for budget in record.budgets]
    assert list(parameters)[3 : 3 + len(budgets)] == budgets


@RECORDS
def test_a_function_is_its_method(record):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 60, 8)) for _ in range(3))
    method = record.method(**{budget.name: min(12, amount) for budget, amount in budgets(record)})
    options = {} if record.deterministic else {"rng": 3}
    wanted = nlattn.run(method, q, k, v, **options)
    assert np.array_equal(function_of(record)(q, k, v, **method.budgets, **options), wanted)


def budgets(record):
    return [(budget, record.method().budgets[budget.name]) for budget in record.budgets]


@RECORDS
def test_a_record_knows_its_method(record):
    assert record.method.record is record
    assert METHODS[record.name] is record
    assert record.method().claims == record


@RECORDS
def test_costs_grow_with_budgets(record):
    sizes = nlattn.Sizes(4096, 4096, 64, 64)
    for budget, _ in budgets(record):
        if record.name == "routing":
            continue  # fewer, larger clusters cost less to find
        costs = [record.method(**{budget.name: amount}).cost(sizes) for amount in budget.ladder]
        assert costs == sorted(costs)
        assert budget.ladder == tuple(sorted(set(budget.ladder)))


def test_a_ladder_varies_the_first_budget():
    steps = list(METHODS["streaming"].method(sinks=8).ladder())
    assert [step.window for step in steps] == [64, 128, 256, 512, 1024]
    assert {step.sinks for step in steps} == {8}


def test_options_of_other_names_are_refused():
    with pytest.raises(TypeError, match="landmark"):
        METHODS["nystrom"].method(landmark=3)
    with pytest.raises(ValueError, match="selection must be one of 'segments', 'random', 'kmeans', got 'best'"):
        METHODS["nystrom"].method(selection="best")
    with pytest.raises(dataclasses.FrozenInstanceError):
        METHODS["nystrom"].method().landmarks = 3


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda n: n.L * n.S * (n.E + n.Ev), "L * S * (E + Ev)"),
        (lambda n, a, b: (a + b) * n.L - 2 * a / (n.S / b), "(a + b) * L - 2 * a / (S / b)"),
        (lambda n, a: (6 * n.S) ** 0.5 + 3 * (n.S / a) ** 2 * n.E, "(6 * S)**0.5 + 3 * (S / a)**2 * E"),
        (lambda n, a, b: a + b >= n.shorter, "a + b >= min(L, S)"),
        (lambda n, a: (n.L**a) ** 2 - (n.S - a), "(L**a)**2 - (S - a)"),
    ],
)
def test_formulas(function, text):
    assert formula(function) == text
    names = {"L": 5, "S": 7, "E": 3, "Ev": 2, "a": 2, "b": 4, "min": min}
    others = list(inspect.signature(function).parameters)[1:]
    assert eval(text, {}, names) == function(nlattn.Sizes(5, 7, 3, 2), *(names[name] for name in others))
