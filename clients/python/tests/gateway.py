"""A gateway with a simulated market, for tests."""

from __future__ import annotations

import atexit
import os
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Optional

ROOT = Path(__file__).parents[3]
GGAL = "GGAL|BYMA|24hs"
FAKE = "FAKE|SIM|CI"


class Gateway:
    """A `rueda dev` on a port of its own, or `rueda` with other arguments. RUEDA has the program; by
    default it is built."""

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments or ("dev", "--speed", "5")
        self._process: Optional[subprocess.Popen[str]] = None
        folder = tempfile.TemporaryDirectory()
        self.folder = Path(folder.name)
        atexit.register(folder.cleanup)
        atexit.register(self.stop)
        self.program = os.environ.get("RUEDA", "")
        if not self.program:
            self.program = str(self.folder / "rueda")
            subprocess.run(["go", "build", "-o", self.program, "./cmd/rueda"], cwd=ROOT, check=True)
        self.url = self.start("127.0.0.1:0")

    def start(self, listen: str) -> str:
        """Starts it, and returns its address when it is ready."""
        data = self.folder / "data"
        command = [self.program, *self.arguments, "--listen", listen, "--data", str(data)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        self._process = process
        for line in process.stdout:
            found = re.search(r"REST +(http://\S+)", line)
            if found:
                return found[1]
        raise RuntimeError(f"rueda {self.arguments[0]} has not started")

    def restart(self) -> None:
        """Stops and starts it at the same address."""
        self.stop()
        self.start(self.url.removeprefix("http://"))

    def move(self, host: str) -> None:
        """Stops it, and starts it at the same port of another address."""
        self.stop()
        self.url = self.start(f"{host}:{self.url.rpartition(':')[2]}")

    def kill(self) -> None:
        """Kills it with SIGKILL, and starts it again at the same address."""
        self.stop(signal.SIGKILL)
        self.start(self.url.removeprefix("http://"))

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stops it, by default in an orderly way."""
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


_gateway: list[Gateway] = []


class GatewayTest(unittest.TestCase):
    """A test with the gateway that all tests share."""

    @property
    def gateway(self) -> Gateway:
        if not _gateway:
            _gateway.append(Gateway())
        return _gateway[0]
