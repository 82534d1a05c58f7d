"""The conformance suite over all methods, some of their options, and all backends."""

import importlib
import importlib.util
from typing import Any

import pytest

import nlattn
from nlattn import METHODS
from nlattn.bounds import BOUNDS
from nlattn.testing import BACKENDS, cases


def _variant(name: str, **options: Any) -> Any:
    return METHODS[name].method(**options)


#: Options that change what a method is.
VARIANTS = {
    "nystrom-random": _variant("nystrom", selection="random"),
    "nystrom-kmeans": _variant("nystrom", selection="kmeans"),
    "nystrom-iter": _variant("nystrom", pinv="iter"),
    "loki-fused": _variant("loki", form="fused"),
    "heavy_hitter-paper": _variant("heavy_hitter", variant="paper"),
    "prescored-leverage": _variant("prescored", score="leverage"),
    "reformer-sum": _variant("reformer", multiplicity="sum"),
    "smyrf-sum": _variant("smyrf", multiplicity="sum"),
    "hyper-values": _variant("hyper", sampling="values"),
    "hyper-paper": _variant("hyper", variant="paper"),
    "kdeformer-paper": _variant("kdeformer", variant="paper"),
    "multipole-blocks": _variant("multipole", clusters="blocks"),
    "routing-paper": _variant("routing", variant="paper"),
}
SUBJECTS = {name: record.method() for name, record in METHODS.items()} | VARIANTS
#: Where variants run: on compiled kernels, and where arrays are held to the standard most strictly.
STRICT = [BACKENDS["numpy-numba"], BACKENDS["array-api-strict"]]
#: By default every promise of every method runs once, on compiled kernels; options run what they may change, and other
#: arrays what tells them apart. The rest of the grid is slow.
ON_COMPILED_KERNELS = "numpy-numba"
#: Methods that look at all scores take seconds at the lengths of the check of memory; tests/problem/test_scores.py has
#: smaller tiles.
QUADRATIC = ("topk", "loki", "loki-fused")
OF_OPTIONS = {
    *("agrees_with_numpy", "block_probe", "causality", "causality_is_not_better", "convex", "deterministic_is_denied"),
    *("exact_limit", "key_permutation", "key_permutation_is_denied", "linear_is_denied", "probe", "rows_sum_to_one"),
    *("seeds", "without_lookahead"),
}
OF_ARRAYS = {
    "numpy-generic": {"approximates"},
    "array-api-strict": {"agrees_with_numpy", "blind_rows"},
    "torch-cpu": {"agrees_with_numpy"},
    "torch-generic": {"agrees_with_numpy", "gradients", "gradients_of_partials"},
    "cupy": {"agrees_with_numpy", "dtypes", "blind_rows", "lengths"},
}


def _by_default(name: str, check: Any, backend: Any) -> bool:
    if check.slow or (check.name == "memory" and name in QUADRATIC):
        return False
    if backend.name != ON_COMPILED_KERNELS:
        return name in METHODS and check.name in OF_ARRAYS.get(backend.name, ())
    return name in METHODS or check.name in OF_OPTIONS


def pytest_generate_tests(metafunc):
    """The whole grid only where slow tests are wanted: to collect it takes seconds."""
    if metafunc.function is not test_conformance:
        return
    grid = "slow" in metafunc.config.option.markexpr.replace("not slow", "")
    found = []
    for name, method in SUBJECTS.items():
        for check, _, backend in cases([method], STRICT if name in VARIANTS else None):
            default = _by_default(name, check, backend)
            if not (default or grid):
                continue
            mark = () if default else (pytest.mark.slow,)
            found.append(pytest.param(check, method, backend, id=f"{name}-{backend}-{check}", marks=mark))
    metafunc.parametrize(("check", "method", "backend"), found)


@pytest.fixture(scope="module", autouse=True)
def _one_torch_thread():
    """Threads do not pay for arrays this small, and on a busy machine they wait for each other."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    torch = importlib.import_module("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_conformance(check, method, backend):
    check(method, backend)


def test_every_promise_of_every_method_runs_by_default():
    backend = BACKENDS[ON_COMPILED_KERNELS]
    for name, record in METHODS.items():
        checks = [check for check, _, _ in cases([record.method()], [backend]) if not check.slow]
        left = {check.name for check in checks if not _by_default(name, check, backend)}
        assert left == ({"memory"} if name in QUADRATIC else set())
        assert len(checks) > 20


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=str)
def test_every_method_has_checks_on_every_backend(backend):
    for record in METHODS.values():
        assert len(cases([record.method()], [backend])) > 20


@pytest.mark.parametrize("record", METHODS.values(), ids=lambda record: record.name)
def test_bounds_of_a_record_exist_and_are_named(record):
    assert set(record.bounds) <= set(BOUNDS)
    text = getattr(nlattn, f"{record.name}_attention").__doc__
    assert [name for name in record.bounds if f"``{name}``" not in text] == []
    assert [name for name in BOUNDS if f"``{name}``" in text and name not in record.bounds] == []
