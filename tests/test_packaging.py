"""The package as it is built and installed."""

import ast
import importlib
import subprocess
import sys
import tomllib
import venv
import zipfile

import pytest
from places import ROOT

import nlattn

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def packages_on_disk():
    found = {"nlattn"} | {
        ".".join(file.parent.relative_to(ROOT).parts) for file in (ROOT / "nlattn").rglob("*/__init__.py")
    }
    backends = [file.parent.relative_to(ROOT).parts for file in (ROOT / "backends").rglob("__init__.py")]
    # The proofs are a folder of text, which an installation has beside the bounds.
    return found | {".".join(("nlattn", *parts)) for parts in backends} | {"nlattn.bounds.proofs"}


def modules_on_disk():
    modules = set()
    for top, prefix in (("nlattn", ()), ("backends", ("nlattn",))):
        for file in (ROOT / top).rglob("*.py"):
            parts = (*prefix, *file.relative_to(ROOT).with_suffix("").parts)
            modules.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return modules


def test_packages_are_listed():
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == packages_on_disk()


def test_stub_and_package_agree():
    stub = ast.parse((ROOT / "nlattn" / "__init__.pyi").read_text(encoding="utf-8"))
    names = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == set(nlattn.__all__)
    assert all(getattr(nlattn, name) is not None for name in names)
    assert names <= set(dir(nlattn))


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'nlattn' has no attribute 'atention'"):
        nlattn.atention  # noqa: B018


def test_version():
    assert nlattn.__version__ == PROJECT["project"]["version"]
    assert f"## {nlattn.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_no_module_hides_a_public_object():
    """`import nlattn.certify` must not be able to replace the function nlattn.certify."""
    assert not {name.rpartition(".")[2] for name in modules_on_disk() if name.count(".") == 1} & (
        set(nlattn.__all__) - {"bounds", "cluster", "datasets", "decomp", "errors", "linalg", "sketch", "testing"}
    )


def test_every_module_is_small():
    files = [file for folder in ("nlattn", "backends") for file in (ROOT / folder).rglob("*.py")]
    sizes = sorted(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    assert sizes[len(sizes) // 2] < 120
    assert sizes[-1] <= 400


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and an sdist, built without isolation from what is installed."""
    pytest.importorskip("build")
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def test_wheel_holds_everything(built):
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for module in modules_on_disk():
        path = module.replace(".", "/")
        assert f"{path}.py" in names or f"{path}/__init__.py" in names
    wanted = {"nlattn/py.typed", "nlattn/__init__.pyi", "nlattn/datasets/LICENSES.md"}
    wanted |= {f"nlattn/bounds/proofs/{id}.md" for id in nlattn.bounds.BOUNDS}
    assert wanted | {f"nlattn/datasets/{name}.npz" for name in nlattn.datasets.NAMES} <= names
    assert not any(name.startswith(("tests", "backends", "examples", "docs")) for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_install_elsewhere(built, kind, tmp_path):
    """Installed away from the clone, every module can be imported and the kernels are the compiled ones."""
    (file,) = built.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", f"{file}[cli]"], check=True)
    modules = sorted(modules_on_disk() - {"nlattn.testing._suite"})
    code = f"""
import importlib, numpy as np, nlattn
for name in {[m for m in modules if not m.startswith("nlattn.testing")]!r}:
    importlib.import_module(name)
from nlattn.dispatch import backend_name
assert backend_name(np.ndarray) == "numba_cpu"
q, k, v = nlattn.datasets.load("minilm")[:3]
assert nlattn.nystrom_attention(q, k, v).shape == q.shape
assert "site-packages" in nlattn.__file__
"""
    subprocess.run([python, "-c", code], check=True, cwd=tmp_path)
    subprocess.run([python, "-m", "nlattn", "methods"], check=True, cwd=tmp_path, capture_output=True)


def test_clone_without_installation_says_what_to_do(tmp_path):
    """A clone in the working directory that hides the installed package is named as the cause."""
    (tmp_path / "nlattn").symlink_to(ROOT / "nlattn", target_is_directory=True)
    code = "import numpy as np, nlattn; nlattn.exact_attention(*[np.ones((2, 2))] * 3)"
    isolated = [sys.executable, "-S", "-c"]
    paths = [p for p in sys.path if "site-packages" in p]
    setup = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, *{paths!r}]; "
    done = subprocess.run([*isolated, setup + code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "pip install -e ." in done.stderr


def test_backends_have_one_name():
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import backends"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "installed and imported as nlattn.backends" in done.stderr


def test_import_is_lazy():
    code = "import sys, nlattn; print({'numpy', 'numba', 'scipy', 'torch', 'cupy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_modules_import():
    for module in modules_on_disk():
        if not module.startswith("nlattn.cli"):
            importlib.import_module(module)
