"""The examples and the code of README.md, each run with a gateway."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import rueda

from .gateway import GGAL, Gateway, GatewayTest

PACKAGE = Path(__file__).parents[1]
EXAMPLES = PACKAGE / "examples"


def run(folder: str, *command: str) -> str:
    """Runs a program with the package, and returns what it has printed."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
    )
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}\n{done.stderr}")
    return done.stdout


def readme() -> list[str]:
    """Returns the programs of README.md."""
    return re.findall(r"(?ms)^```python\n(.*?)^```", (PACKAGE / "README.md").read_text())


class ExamplesTest(GatewayTest):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def example(self, name: str, *arguments: str) -> str:
        login = (self.gateway.url, "demo", "demo", GGAL)
        return run(self.folder, str(EXAMPLES / name), *login, *arguments)

    def test_ticker(self) -> None:
        out = self.example("ticker.py", "30")
        self.assertRegex(out, r"(?m)^stream live")
        self.assertRegex(out, r"(?m)^quote \d+(\.\d+)? / \d+")

    def test_order_book(self) -> None:
        out = self.example("order_book.py", "3")
        self.assertEqual(len(re.findall(r"(?m)^book \d+", out)), 3)

    def test_candles(self) -> None:
        past, _, live = self.example("candles.py", "2").partition("now\n")
        self.assertEqual(len(live.splitlines()), 2, past)

    def test_recorder(self) -> None:
        """Two runs record each trade once, also those in between."""
        file = str(Path(self.folder, "trades.jsonl"))
        for _ in range(2):
            self.example("recorder.py", file, "5")
        rows = [json.loads(line) for line in Path(file).read_text().splitlines()]
        numbers = [row["N"] for row in rows]
        self.assertGreaterEqual(len(numbers), 10)
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        self.assertEqual(os.stat(file + ".tokens").st_mode & 0o777, 0o600)

    def test_paper_bot(self) -> None:
        self.assertRegex(self.example("paper_bot.py", "40"), r"position [01] cash -?\d")

    def test_vwap_bot(self) -> None:
        """The gateway is killed three times. The bot has each trade of history once, in order."""
        gateway = Gateway()
        self.addCleanup(gateway.stop)
        login = (gateway.url, "demo", "demo", GGAL)
        bot = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "vwap_bot.py"), *login],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(PACKAGE)},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(bot.wait)
        self.addCleanup(bot.kill)
        assert bot.stdout is not None
        self.addCleanup(bot.stdout.close)
        lines: list[str] = []
        for killed in range(4):
            new = ended = 0
            while new < 10 or killed > 0 and not ended:
                line = bot.stdout.readline()
                self.assertTrue(line, lines)
                lines.append(line)
                new += line.startswith("trade ")
                if line.startswith("stream waiting"):
                    new, ended = 0, 1
            if killed < 3:
                gateway.kill()
        self.assertFalse([line for line in lines if line.startswith("lost")], lines)
        self.assertGreaterEqual(sum(line.startswith("stream waiting") for line in lines), 3, lines)
        broken = [line for line in lines if "connection broken" in line]
        self.assertTrue(broken and all(gateway.url in line for line in broken), broken)
        rows = [line.split() for line in lines if line.startswith("trade ")]
        numbers = [int(row[1]) for row in rows]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        with rueda.Client(gateway.url, "demo", "demo") as client:
            past = list(client.trades(GGAL, rueda.Range(after=numbers[0] - 1, limit=len(rows))))
        self.assertEqual(
            [f"{t.n} {t.price} x {t.size}" for t in past], [" ".join(row[1:5]) for row in rows]
        )
        self.assertTrue(all(t.kind == "T" for t in past), past)
        volume = sum(t.size for t in past)
        average = sum(t.size * t.price for t in past) / volume
        self.assertEqual(rows[-1][-1], f"{average:.4f}")

    def test_every_example_is_run(self) -> None:
        tested = {name.removeprefix("test_") + ".py" for name in dir(self)}
        names = {path.name for path in EXAMPLES.glob("*.py")} - {"conformance.py"}
        self.assertEqual(names - tested, set())

    def test_no_arguments(self) -> None:
        """Without arguments, each example connects to `rueda dev`."""
        for path in sorted(EXAMPLES.glob("*.py")):
            if path.name == "conformance.py":
                with self.assertRaisesRegex(AssertionError, "rueda conformance client -- "):
                    run(self.folder, str(path))
                continue
            module = runpy.run_path(str(path))
            given = inspect.signature(module["main"]).bind()
            given.apply_defaults()
            login = list(given.arguments.values())[:4]
            self.assertEqual(login, ["http://127.0.0.1:8080", "demo", "demo", GGAL], path.name)

    def test_restarts(self) -> None:
        """The program of README that stores a sum is killed three times, and has the right sum."""
        block = next(block for block in readme() if "volume.json" in block)
        block = re.sub(r"(?m)^ +trades \+= 1\n +if .*:\n +break.*\n", "", block)
        self.assertNotIn("break", block)
        program = Path(self.folder, "volume.py")
        program.write_text(block.replace("http://127.0.0.1:8080", self.gateway.url))
        rows: list[tuple[int, str]] = []
        for _ in range(4):
            bot = subprocess.Popen(
                [sys.executable, "-u", str(program)],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(PACKAGE)},
                stdout=subprocess.PIPE,
                text=True,
            )
            assert bot.stdout is not None
            for line in bot.stdout:
                _, n, _, volume = line.split()
                rows.append((int(n), volume))
                if int(n) >= rows[0][0] + 5 and len(rows) % 7 == 0:
                    break
            bot.kill()
            bot.wait()
            bot.stdout.close()
        first, (last, volume) = rows[0][0], rows[-1]
        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            past = list(client.trades(GGAL, rueda.Range(after=first - 1, limit=last - first + 1)))
        self.assertEqual((past[0].n, past[-1].n), (first, last))
        self.assertEqual(volume, str(sum(trade.size for trade in past)))

    def test_readme(self) -> None:
        blocks = readme()
        self.assertGreater(len(blocks), 5)
        if importlib.util.find_spec("pandas") is None:  # RUEDA_REQUIRE_ALL makes it an error
            blocks = [block for block in blocks if "rueda.pandas" not in block]
        for block in blocks:
            with self.subTest(block.splitlines()[-1]):
                self.assertIn("http://127.0.0.1:8080", block)
                program = Path(self.folder, "first.py")
                program.write_text(block.replace("http://127.0.0.1:8080", self.gateway.url))
                self.assertTrue(run(self.folder, str(program)))


if __name__ == "__main__":
    unittest.main()
