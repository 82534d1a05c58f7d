"""The Python blocks of the README as one program, for a type checker: ``python docs/snippets.py > snippets.py``."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def main() -> None:
    """Print the blocks, each in a function of its own, as readers run them apart."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    for i, block in enumerate(blocks):
        body = "".join(f"    {line}\n" if line else "\n" for line in f"import nlattn\n\n{block}".splitlines())
        print(f"def block_{i}() -> None:\n{body}\n\nblock_{i}()\n")


if __name__ == "__main__":
    main()
