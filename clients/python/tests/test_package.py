"""The wheel: built, installed into a new environment, and used from there."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from rueda import __version__

from .gateway import GGAL, GatewayTest

PACKAGE = Path(__file__).parents[1]
TOOLS = ("build.env", "setuptools", "wheel", "ensurepip")


def present(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@unittest.skipUnless(all(map(present, TOOLS)), "RUEDA_REQUIRE_ALL makes missing tools an error")
class PackageTest(GatewayTest):
    def test_wheel(self) -> None:
        """README.md has the same commands."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            source, venv = folder / "source", folder / "bot"
            ignored = shutil.ignore_patterns("__pycache__", "build", "dist", "*.egg-info")
            shutil.copytree(PACKAGE, source, ignore=ignored)
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

            def run(*command: str) -> str:
                done = subprocess.run(
                    command, cwd=source, env=environment, capture_output=True, text=True
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                return done.stdout

            readme = (PACKAGE / "README.md").read_text()
            build = "-m build --no-isolation --wheel"
            install = "install --no-index --no-deps"
            create = "-m venv --system-site-packages"
            for command in (build, install, create):
                self.assertIn(command, readme)
            run(sys.executable, *build.split())
            (wheel,) = (source / "dist").glob("rueda-*.whl")
            with zipfile.ZipFile(wheel) as z:
                names = z.namelist()
            self.assertIn("rueda/py.typed", names)
            package = f"rueda(-{re.escape(__version__)}\\.dist-info)?/"
            self.assertFalse([n for n in names if not re.match(package, n)])
            run(sys.executable, *create.split(), str(venv))
            run(str(venv / "bin" / "pip"), *install.split(), str(wheel))
            python = str(venv / "bin" / "python")
            example = str(folder / "ticker.py")
            shutil.copy(source / "examples" / "ticker.py", example)
            shutil.rmtree(source / "rueda")
            where = run(python, "-c", "import rueda; print(rueda.__file__)")
            self.assertTrue(where.startswith(str(venv)), where)
            self.assertIn("stream live", run(python, example, self.gateway.url, "demo", "demo",
                                             GGAL, "10"))


if __name__ == "__main__":
    unittest.main()
