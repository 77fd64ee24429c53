"""REFERENCE.md is what the docstrings say, and it is complete."""

from __future__ import annotations

import importlib.util
import inspect
import unittest
from pathlib import Path
from types import ModuleType

import rueda

PACKAGE = Path(__file__).parents[1]


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", PACKAGE / "scripts/reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class ReferenceTest(unittest.TestCase):
    def test_file(self) -> None:
        want = script().reference()
        self.assertEqual(
            (PACKAGE / "REFERENCE.md").read_text(),
            want,
            "run: python3 scripts/reference.py > REFERENCE.md",
        )

    def test_complete(self) -> None:
        listed = {name for _, names in script().GROUPS for name in names} - {"MarketEvent"}
        self.assertEqual(listed, set(rueda.__all__) - {"__version__"})
        for name in sorted(listed):
            thing = getattr(rueda, name)
            if not inspect.isclass(thing):
                continue
            self.assertTrue(thing.__doc__, name)
            for method, f in vars(thing).items():
                if not method.startswith("_") and (callable(f) or isinstance(f, property)):
                    self.assertTrue(f.__doc__, f"{name}.{method}")


if __name__ == "__main__":
    unittest.main()
