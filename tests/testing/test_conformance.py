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


def _params() -> list[Any]:
    return [
        pytest.param(*case, id=f"{name}-{case[2]}-{case[0]}", marks=[pytest.mark.slow] if case[0].slow else [])
        for name, method in SUBJECTS.items()
        for case in cases([method], STRICT if name in VARIANTS else None)
        if (name, case[0].name) != ("loki-fused", "memory")  # in test_loki
    ]


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


@pytest.mark.parametrize(("check", "method", "backend"), _params())
def test_conformance(check, method, backend):
    check(method, backend)


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
