"""Pages of the documentation that lie elsewhere in the clone: the proofs."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

PROOFS = Path(__file__).parents[1] / "proofs"


def on_files(files: Any, config: Any) -> Any:
    """Add each proof under proofs/."""
    for path in sorted(PROOFS.glob("*.md")):
        files.append(File.generated(config, f"proofs/{path.name}", abs_src_path=str(path)))
    return files
