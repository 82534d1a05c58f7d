"""The public surface, name by name: what is not here has an underscore or lives in a room that users need not enter."""

import importlib
import pkgutil

import pytest

import nlattn

ATTENTION = {f"{name}_attention" for name in nlattn.METHODS}
NAMES = ATTENTION | {
    *("AttentionResult", "BlockMethod", "Budget", "Certificate", "METHODS", "Method", "Partial", "PolynomialSketch"),
    *("Problem", "Record", "SignedPartial", "Sizes", "TensorSketch", "attention", "bounds", "certify", "cluster", "cp"),
    *("cur", "datasets", "decomp", "errors", "hadamard_transform", "importance_sample", "interpolative_decomposition"),
    *("interval_attention", "kmeans", "leverage_scores", "linalg", "merge_partials", "nystrom_approximation"),
    *("pivoted_cholesky", "randomized_svd", "register", "run", "sketch", "sketch_operator", "tensor_train", "testing"),
    *("trace_estimate", "tucker", "use_backend"),
}
#: Rooms inside the package, which a user has no need to enter.
ROOMS = {"arrays", "attend", "cli", "dispatch", "guarantees", "kernels", "methods", "problem", "select", "backends"}
#: Packages whose names are public.
NAMESPACES = ("bounds", "cluster", "datasets", "decomp", "errors", "linalg", "sketch", "testing")


def test_top_level():
    assert set(nlattn.__all__) == NAMES


def test_every_module_is_a_namespace_or_a_room():
    modules = {module.name for module in pkgutil.iter_modules(nlattn.__path__)}
    assert modules - {"__main__"} <= ROOMS | set(NAMESPACES)


@pytest.mark.parametrize("name", NAMESPACES)
def test_no_module_shows_behind_a_namespace(name):
    """Completion after ``nlattn.linalg.`` offers functions and classes, not files; families of bounds are packages."""
    package = importlib.import_module(f"nlattn.{name}")
    if not hasattr(package, "__path__"):
        return
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    shown = {module for module in modules if not module.startswith("_")}
    allowed = {"testing": {"checks"}, "bounds": {"attention", "catalogue", "cluster", "decomp", "linalg", "sketch"}}
    assert shown <= allowed.get(name, set())
    assert not shown & set(package.__all__)


@pytest.mark.parametrize("name", [*NAMESPACES, ""])
def test_all_public_objects_are_documented(name):
    module = importlib.import_module(f"nlattn.{name}" if name else "nlattn")
    for member in module.__all__:
        found = getattr(module, member)
        if callable(found) and getattr(found, "__module__", "").startswith("nlattn"):
            assert found.__doc__, f"{name}.{member} has no docstring"
