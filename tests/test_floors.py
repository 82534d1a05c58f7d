"""What may import what, and what an import of nlattn loads."""

import ast
from pathlib import Path

import nlattn

PACKAGE = Path(nlattn.__file__).parent


#: The floors of the house, from the ground up: what stands on one imports from it and from those below.
LEVELS = [
    {"errors"},
    {"arrays"},
    {"dispatch"},
    {"problem"},
    {"kernels"},
    {"linalg", "sketch", "cluster", "decomp", "datasets"},
    {"select"},
    {"attend"},
    {"methods", "models"},
    {"guarantees", "bounds"},
    {"testing"},
    {"cli", "__main__", "__init__"},
]
LEVEL = {name: i for i, names in enumerate(LEVELS) for name in names}


def imports(path):
    """The modules of nlattn that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            if node.module == "nlattn":
                yield from (f"nlattn.{alias.name}" for alias in node.names)
            elif (node.module or "").startswith("nlattn."):
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "nlattn")


def test_dependencies_point_downwards():
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 20
    wrong = []
    for path in files:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        for module in imports(path):
            if module.startswith("nlattn.backends"):
                wrong.append(f"{'/'.join(parts)} imports {module}")
            elif parts[0] != "__init__" and module != "nlattn":
                target = module.split(".")[1]
                if LEVEL.get(target, LEVEL["methods"]) > LEVEL[parts[0]]:
                    wrong.append(f"{'/'.join(parts)} imports {module}")
    assert wrong == []


def test_backends_import_kernels_at_most():
    folder = Path(next(iter(__import__("nlattn.backends", fromlist=["x"]).__path__)))
    for path in sorted(folder.rglob("*.py")):
        own = f"nlattn.backends.{path.relative_to(folder).parts[0]}"
        for module in imports(path):
            assert module.startswith((own, "nlattn.arrays", "nlattn.kernels", "nlattn.dispatch", "nlattn.errors")), (
                f"{path}: {module}"
            )


def test_import_is_light(run_python):
    code = "import sys, nlattn; nlattn.METHODS, nlattn.errors, nlattn.use_backend; print(sorted(sys.modules))"
    loaded = ast.literal_eval(run_python(code))
    assert not {"numba", "torch", "cupy", "scipy", "array_api_strict", "pytest"} & set(loaded)


def test_backend_refuses_another_name(run_python):
    code = f"""
import sys
sys.path.insert(0, {str(PACKAGE.parent)!r})
try:
    import backends
except ImportError as error:
    print(error)
"""
    assert run_python(code) == "this package is installed and imported as nlattn.backends, not as backends\n"
