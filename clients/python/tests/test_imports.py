"""The package has no circular imports, not even imports for types alone."""

from __future__ import annotations

import ast
import graphlib
import unittest
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "rueda"


def imports(path: Path) -> set[str]:
    """Returns the modules of the package that a module imports anywhere."""
    nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
    names = {n.module or alias.name for n in nodes if n.level == 1 for alias in n.names}
    modules = [(n.module or "").split(".") for n in nodes]
    return names | {m[1] for m in modules if m[0] == "rueda" and len(m) > 1}


class ImportsTest(unittest.TestCase):
    def test_no_circle(self) -> None:
        graph = {path.stem: imports(path) for path in PACKAGE.glob("*.py")}
        self.assertIn("errors", graph["link"])
        graphlib.TopologicalSorter(graph).prepare()  # CycleError names one


if __name__ == "__main__":
    unittest.main()
