"""Exports of closed days as files: from a server that cuts them off, and from a gateway."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
import time
import unittest
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import rueda

from .gateway import Gateway
from .test_history import DAYS, TOKEN, recording

MINE = "MINE|TEST|CI"
PARTS = [b"a" * 1000, b"b" * 1000]
LOST = [{"instrument": MINE, "interval": "1m", "from": 2, "to": 3, "reason": "buffer_exceeded"}]


class Exports:
    """Sends a file in chunks, and cuts the first ones off after a chunk."""

    def __init__(self, cuts: int = 0, lost: str = "") -> None:
        self.cuts, self.asked = cuts, 0
        self.stall = threading.Event()
        self.stall.set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                text = json.dumps({"success": True, "data": TOKEN}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_GET(self) -> None:
                server.asked += 1
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                if lost:
                    self.send_header("Rueda-Lost", lost)
                self.end_headers()
                for part in PARTS:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                    self.wfile.flush()
                    server.stall.wait(20)
                    if server.cuts > 0:
                        server.cuts -= 1
                        self.close_connection = True
                        return
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class DownloadTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def serve(self, cuts: int = 0, lost: str = "") -> Exports:
        server = Exports(cuts, lost)
        self.addCleanup(server.close)
        return server

    def names(self) -> list[str]:
        return sorted(os.listdir(self.folder))

    def test_cut_off(self) -> None:
        server, file, progress = self.serve(cuts=2), self.folder / "day.csv", list[int]()
        with rueda.Client(server.url, "demo", "demo") as client:
            self.assertEqual(client.download("trades", DAYS[0], file, progress=progress.append), [])
            self.assertEqual(file.read_bytes(), b"".join(PARTS))
            self.assertEqual(progress, [1000, 1000, 1000, 2000])
            self.assertEqual((server.asked, self.names()), (3, ["day.csv"]))
            server.cuts = 3
            with self.assertRaises(rueda.ConnectionBroken):
                client.download("trades", DAYS[0], file)
        self.assertEqual((file.read_bytes(), self.names()), (b"".join(PARTS), ["day.csv"]))

    def test_lost(self) -> None:
        server, file = self.serve(lost=json.dumps(LOST)), self.folder / "day.parquet"
        want = [rueda.Lost("bars", MINE + "|1m", 2, 3, "buffer_exceeded")]
        with rueda.Client(server.url, "demo", "demo") as client:
            with self.assertWarnsRegex(rueda.IncompleteHistoryWarning, "from N 2 to N 3") as caught:
                self.assertEqual(client.download("bars", DAYS[0], file), want)
            self.assertEqual(caught.filename, __file__)
        os.unlink(file)
        with rueda.Client(server.url, "demo", "demo", require_complete=True) as client:
            with self.assertRaises(rueda.IncompleteHistory) as error:
                client.download("bars", DAYS[0], file)
            self.assertEqual(error.exception.lost, want)
        self.assertEqual(self.names(), [])

    def test_stopped(self) -> None:
        """A download that is cancelled leaves no file."""
        server, file = self.serve(), self.folder / "day.csv"
        server.stall.clear()

        async def main() -> None:
            came = asyncio.Event()
            loop = asyncio.get_running_loop()

            def progress(done: int) -> None:
                loop.call_soon_threadsafe(came.set)

            async with rueda.AsyncClient(server.url, "demo", "demo") as client:
                part = client.download("trades", DAYS[0], file, progress=progress)
                task = asyncio.create_task(part)
                await came.wait()
                task.cancel()
                await asyncio.wait([task])
                self.assertTrue(task.cancelled())

        asyncio.run(main())
        server.stall.set()
        end = time.monotonic() + 10
        while self.names() and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.names(), [])

    def test_mistakes(self) -> None:
        server = self.serve()
        with rueda.Client(server.url, "demo", "demo") as client:
            with self.assertRaisesRegex(ValueError, ".parquet, .csv or .ndjson"):
                client.download("trades", DAYS[0], self.folder / "day.txt")
            with self.assertRaises(FileNotFoundError):
                client.download("trades", DAYS[0], self.folder / "none" / "day.csv")
        self.assertEqual(server.asked, 1)

    def test_gateway(self) -> None:
        (self.folder / "days.jsonl").write_text(recording(MINE, 3))
        gateway = Gateway("replay", str(self.folder / "days.jsonl"), "--speed", "max")
        self.addCleanup(gateway.stop)
        file, day = self.folder / "trades.csv", date.fromisoformat(DAYS[1])
        with rueda.Client(gateway.url, "demo", "demo") as client:
            end = time.monotonic() + 30
            while True:
                try:
                    self.assertEqual(client.download("trades", day, file, market="TEST"), [])
                    break
                except rueda.NotFound:  # the replay goes on
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.05)
            rows = file.read_text().splitlines()
            self.assertEqual(len(rows), 4, rows)
            with self.assertRaisesRegex(rueda.RequestError, "type must be trades"):
                client.download("ticks", day, file)
            with self.assertRaisesRegex(rueda.RequestError, "date must be a date"):
                client.download("trades", "yesterday", file)
            for table in ("bars", "quotes", "depth"):
                file = self.folder / (table + ".parquet")
                client.download(table, day, file)
                self.assertEqual(file.read_bytes()[:4], b"PAR1")


if __name__ == "__main__":
    unittest.main()
