"""The README says what the registry says, and its code runs."""

import re

from places import ROOT

from nlattn import METHODS

README = (ROOT / "README.md").read_text(encoding="utf-8")


def method_table():
    lines = ["| method | principle | cost | causal | masks | budget | exact at | source |", "|" + "---|" * 8]
    for record in METHODS.values():
        budget = ", ".join(f"`{b.name}` = {b.default}" for b in record.budgets) or "-"
        function = record.function.rpartition(".")[2]
        cells = [
            f"`{function}`",
            record.principle,
            f"`{record.cost}`",
            record.causal or "no",
            record.masks or "no",
            budget,
            record.exact_at or "-",
            f"arXiv {record.paper}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def test_method_table():
    assert method_table() in README, f"put this into the README:\n{method_table()}"


def test_code_runs():
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(block, names)


def test_commands_of_the_first_minute():
    assert '    python -m pip install -e ".[cli]" && nlattn compare\n' in README
    assert '    python -m pip install -e ".[cli,test]" && python -m pytest\n' in README
