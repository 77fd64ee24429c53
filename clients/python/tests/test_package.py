"""The wheel: from a gateway and from the clone, installed into a new environment and used there."""

from __future__ import annotations

import email
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request
import zipfile
from pathlib import Path

from rueda import __version__

from .gateway import GGAL, GatewayTest

PACKAGE = Path(__file__).parents[1]
TOOLS = ("setuptools", "wheel", "ensurepip")


def present(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@unittest.skipUnless(all(map(present, TOOLS)), "RUEDA_REQUIRE_ALL makes missing tools an error")
class PackageTest(GatewayTest):
    """README.md has the same commands."""

    readme = (PACKAGE / "README.md").read_text()
    folder: Path
    programs: Path  # of a new environment

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        create = "-m venv --system-site-packages bot"
        assert create in cls.readme
        cls.run_in(sys.executable, *create.split())
        cls.programs = cls.folder / "bot" / "bin"

    @classmethod
    def run_in(cls, *command: str) -> str:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            command, cwd=cls.folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def download(self) -> tuple[str, zipfile.ZipFile]:
        """Returns the path and the content of the wheel that the gateway hands out."""
        with urllib.request.urlopen(self.gateway.url + "/client/") as answer:
            found = re.search(r'href="(/client/rueda-[^"]+\.whl)"', answer.read().decode())
        assert found is not None
        with urllib.request.urlopen(self.gateway.url + found[1]) as answer:
            return found[1], zipfile.ZipFile(io.BytesIO(answer.read()))

    def test_from_gateway(self) -> None:
        """The wheel of the gateway works in a new environment."""
        path, wheel = self.download()
        self.assertIsNone(wheel.testzip())
        install = "install --no-deps "
        self.assertIn(install + "http://127.0.0.1:8080" + path, self.readme)
        pip, python = str(self.programs / "pip"), str(self.programs / "python")
        self.run_in(pip, *install.split(), self.gateway.url + path)
        where = self.run_in(python, "-c", "import rueda; print(rueda.__file__)")
        self.assertTrue(where.startswith(str(self.folder / "bot")), where)
        shutil.copy(PACKAGE / "examples" / "ticker.py", self.folder)
        arguments = (self.gateway.url, "demo", "demo", GGAL, "10")
        self.assertIn("stream live", self.run_in(python, "ticker.py", *arguments))

    def test_from_clone(self) -> None:
        """pip makes a wheel of the clone that has the modules and metadata of the gateway's."""
        isolated = "--no-build-isolation --no-deps"
        self.assertIn("pip install ./clients/python", self.readme)
        self.assertIn(isolated, self.readme)
        ignored = shutil.ignore_patterns("__pycache__", "build", "dist", "*.egg-info")
        shutil.copytree(PACKAGE, self.folder / "python", ignore=ignored)
        pip = str(self.programs / "pip")
        self.run_in(pip, "wheel", *isolated.split(), "-w", "dist", "./python")
        (file,) = (self.folder / "dist").glob("rueda-*.whl")
        path, handed = self.download()
        self.assertEqual(path, "/client/" + file.name)
        self.assertIn("rueda/py.typed", handed.namelist())
        with zipfile.ZipFile(file) as made:
            self.assertEqual(self.modules(made), self.modules(handed))
            self.assertEqual(self.metadata(made), self.metadata(handed))

    def modules(self, wheel: zipfile.ZipFile) -> dict[str, bytes]:
        info = f"rueda-{__version__}.dist-info/"
        return {n: wheel.read(n) for n in wheel.namelist() if not n.startswith(info)}

    def metadata(self, wheel: zipfile.ZipFile) -> dict[str, object]:
        text = wheel.read(f"rueda-{__version__}.dist-info/METADATA").decode()
        message = email.message_from_string(text)
        fields = ("Name", "Version", "Summary", "Requires-Python", "Description-Content-Type")
        lists = ("Classifier", "Provides-Extra", "License-File")
        found: dict[str, object] = {f: message[f] for f in fields}
        found |= {f: message.get_all(f) for f in lists}
        requires = message.get_all("Requires-Dist") or []
        found["Requires-Dist"] = [re.sub(r"[ ()']", "", r.replace('"', "")) for r in requires]
        found["Description"] = str(message.get_payload()).strip()
        return found


if __name__ == "__main__":
    unittest.main()
