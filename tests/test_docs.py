"""README and documentation: tables say what the records say, code runs, links lead somewhere."""

import importlib.util
import re

import pytest
from places import ROOT

import nlattn

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", tables().FILES)
def test_tables_are_up_to_date(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "<!-- table: " in text
    assert tables().rewritten(text) == text, "run: python docs/tables.py"


def test_every_method_has_a_chapter():
    listed = [name for names in tables().CHAPTERS.values() for name in names]
    assert sorted(listed) == sorted(nlattn.METHODS)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_code_runs(page):
    """The blocks of a page, one after the other, as a reader would paste them."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(block, names)


def test_the_method_of_ones_own_is_the_example():
    page = (ROOT / "docs" / "methods" / "own.md").read_text(encoding="utf-8")
    example = (ROOT / "examples" / "own_method.py").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert block[block.index("@nlattn.register") :].strip() in example


def test_commands_of_the_first_minute():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert '    python -m pip install -e ".[cli]" && nlattn compare\n' in text
    assert '    python -m pip install -e ".[cli,test]" && python -m pytest\n' in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not link.startswith(("http", "mailto")):
            # On the site the proofs lie beside the pages; in the clone they lie in a folder of their own.
            target = re.sub(r"^(\.\./)*proofs/", "", link) if "proofs/" in link else None
            path = ROOT / "proofs" / target if target is not None else page.parent / link
            assert path.exists(), link


def test_every_public_name_is_in_the_reference():
    reference = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    shown = set(re.findall(r"^::: .*\.(\w+)$", reference, flags=re.MULTILINE))
    wanted = {name for name in nlattn.__all__ if callable(getattr(nlattn, name))}
    for package in (nlattn.linalg, nlattn.sketch, nlattn.cluster, nlattn.decomp):
        wanted |= {name for name in package.__all__ if callable(getattr(package, name))}
    assert wanted - shown == set()
