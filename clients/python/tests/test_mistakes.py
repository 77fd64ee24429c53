"""Mistakes that a new user makes, and errors in functions of the program that the client calls."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import socket
import sys
import threading
import time
import unittest
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable
from unittest import mock

import rueda

from .gateway import GGAL, GatewayTest

NAIVE = datetime(2026, 11, 22, 10)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


class MistakesTest(GatewayTest):
    """Each error names what is wrong, and what to do."""

    def client(self, url: str = "", user: str = "demo", password: str = "demo", **o: Any) -> None:
        rueda.Client(url or self.gateway.url, user, password, **o).close()

    def set(self, **lists: Any) -> None:
        rueda.Subscriptions(**lists).items()

    def first(self, url: str, user: str, password: str, **lists: Any) -> None:
        """Raises the first error of a loop over events."""
        with rueda.Client(url, user, password) as client:
            client.subscribe(rueda.Subscriptions(**lists))
            for event in client.events(timeout=20):
                if isinstance(event, rueda.StateChange) and event.error is not None:
                    raise event.error
                if isinstance(event, rueda.Rejected):
                    raise RuntimeError(f"{event.reason} {event.instrument}: {event.hint}")

    def rows(self, instrument: str, rows: Any = rueda.Range(), interval: str = "1m") -> None:
        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            list(client.bars(instrument, interval, rows))

    def snapshot(self, *names: str) -> None:
        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            client.snapshot(*names)

    def book(self, name: str, **lists: Any) -> None:
        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            client.subscribe(rueda.Subscriptions(**lists))
            client.book(name)

    def subscribe(self, subscriptions: Any) -> None:
        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            client.subscribe(subscriptions)

    def test_mistakes(self) -> None:
        url, dead = self.gateway.url, f"http://127.0.0.1:{free_port()}"
        client, lists, first, rows = self.client, self.set, self.first, self.rows
        number: Any = 5
        names: Any = [GGAL]
        https = url.replace("http", "https")
        cases: list[tuple[str, Callable[[], None], str]] = [
            ("no scheme", lambda: client("127.0.0.1:8080"), "'127.0.0.1:8080' .*neither https://"),
            ("a scheme", lambda: client("ftp://127.0.0.1"), "'ftp://127.0.0.1' .*neither https://"),
            ("no host", lambda: client("http://:8080"), "names no host"),
            ("a port", lambda: client("http://127.0.0.1:no"), "'http://127.0.0.1:no' .*[Pp]ort"),
            (
                "a page",
                lambda: client("http://127.0.0.1:8080/client/"),
                "/client/' is the URL of a page. Write http://127.0.0.1:8080$",
            ),
            ("a page behind a proxy", lambda: client("wss://api.example/x/docs/protocol"), "Write https://api.example/x$"),
            ("a login in the URL", lambda: client("http://a:b@127.0.0.1"), "as arguments"),
            ("a query", lambda: client("http://127.0.0.1/?token=x"), "it has a query"),
            ("without TLS", lambda: client("http://192.0.2.1"), "use https, or insecure=True"),
            ("a session", lambda: client(session="my bot"), "'my bot': .*A-Z a-z 0-9"),
            ("a queue", lambda: client(queue=0), "queue is 0: must be above 0"),
            ("a heartbeat", lambda: client(heartbeat=0.0), "heartbeat is 0.0: must be above 0"),
            ("an overflow", lambda: client(overflow="drop"), "'drop': must be Overflow.CONFLATE"),
            ("an option", lambda: client(pasword="x"), "'pasword'"),
            ("no username", lambda: client(user=""), "a password without a username"),
            ("a list", lambda: lists(trade=[GGAL]), "'trade'"),
            ("a text", lambda: lists(trades=GGAL), r"in trades: write a list, \['GGAL"),
            ("no set", lambda: self.subscribe({"trades": [GGAL]}), r"must be Subscriptions\(trades="),
            ("no identifier", lambda: lists(trades=["GGAL"]), "'GGAL' in trades .*SYMBOL.MARKET"),
            ("a part", lambda: lists(books=["A|B|24 hs"]), "in books: '24 hs' is not a term"),
            (
                "an interval",
                lambda: lists(bars=[GGAL + "|4h"]),
                r"'GGAL\|BYMA\|24hs\|4h' in bars: 4h is not one of 1s, 1m, 5m, 15m, 1h, 1d$",
            ),
            ("no interval", lambda: lists(bars=[GGAL]), r"no interval: write GGAL\|BYMA\|24hs\|1m"),
            ("an interval of history", lambda: rows(GGAL, interval="4h"), "^4h is not one of 1s"),
            ("a depth", lambda: lists(books=[GGAL], depth=7), "depth is 7: must be 1, 5, 10, 25"),
            ("a conflation", lambda: lists(quotes=[GGAL], conflate="2s"), "conflate is '2s': must be 100ms"),
            ("a password", lambda: first(url, "demo", "x", trades=[GGAL]), "invalid_credentials"),
            ("no password", lambda: first(url, "demo", "", trades=[GGAL]), "neither a password"),
            (
                "a dead port",
                lambda: first(dead, "demo", "demo", trades=[GGAL]),
                re.escape(dead) + ": connection refused. Is the gateway running there",
            ),
            (
                "https without TLS",
                lambda: first(https, "demo", "demo", trades=[GGAL]),
                "the server does not use TLS. For a gateway without TLS, write " + re.escape(url),
            ),
            (
                "an unknown instrument",
                lambda: first(url, "demo", "demo", trades=["GGLA|BYMA|24hs"]),
                r"unknown_instrument GGLA\|BYMA\|24hs: .*GGAL",
            ),
            (
                "history of an unknown instrument",
                lambda: rows("GGLA|BYMA|24hs"),
                "^unknown_instrument: .* GGLA.BYMA.24hs is not listed. Did you mean GGAL.BYMA.24h",
            ),
            ("a list of rows", lambda: rows(names), r"^\['GGAL.BYMA.24hs'\] must be a string"),
            ("a list of a snapshot", lambda: self.snapshot(names), "must be a string such as"),
            ("a checkpoint", lambda: client(resume={"sum": 1}), "write rueda.Checkpoint.from_dict"),
            (
                "a book that is not in the set",
                lambda: self.book("AL30|BYMA|24hs", books=[GGAL]),
                r"^'AL30\|BYMA\|24hs' is not in the set of books: subscribe to it first$",
            ),
            ("no book yet", lambda: self.book(GGAL, books=["*|BYMA|24hs"]), "not known at prese"),
            ("no identifier of a book", lambda: self.book("GGAL", books=[GGAL]), "SYMBOL.MARKET"),
            ("history of nothing", lambda: rows("GGAL"), "bad_instrument: .*SYMBOL.MARKET.TERM"),
            ("no range", lambda: rows(GGAL, "7d"), r"must be a Range, .*Range\(start='7d'\), not"),
            ("no zone", lambda: rows(GGAL, rueda.Range(NAIVE)), "Range.start: .*no zone: add"),
            ("no time", lambda: rows(GGAL, rueda.Range(end="7 d")), "Range.end: '7 d' is not a ti"),
            ("a number", lambda: rows(GGAL, rueda.Range(number)), "Range.start: 5 is not a time"),
            ("a limit", lambda: rows(GGAL, rueda.Range(limit=-1)), "Range.limit is -1"),
            (
                "a range",
                lambda: rows(GGAL, rueda.Range("2026-11-20", "2026-11-20")),
                "end must be after start",
            ),
        ]
        for name, do, want in cases:
            with self.subTest(name):
                with self.assertRaisesRegex(Exception, want) as caught:
                    do()
                self.assertNotIsInstance(caught.exception, AttributeError)

    def test_no_websockets(self) -> None:
        """The first use of the stream says how to install the package."""
        with mock.patch.dict(sys.modules, websockets=None):
            with self.assertRaisesRegex(ModuleNotFoundError, "pip install 'websockets>=10.4'"):
                self.first(self.gateway.url, "demo", "demo", trades=[GGAL])

    def test_no_chain(self) -> None:
        """A gateway that is not there is one error, without a chain of causes."""
        with rueda.Client(f"http://127.0.0.1:{free_port()}", "demo", "demo") as client:
            with self.assertRaises(rueda.ConnectionBroken) as caught:
                client.login()
        self.assertTrue(caught.exception.__suppress_context__)
        self.assertIsNone(caught.exception.__cause__)


class Refusing:
    """A server that refuses each request in one way."""

    def __init__(self, code: int, reason: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                text = f'{{"success":false,"error":{{"reason":"{reason}"}}}}'.encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class BrokenStore:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def load(self) -> rueda.Tokens:
        raise self.error

    def save(self, tokens: rueda.Tokens) -> None:
        raise self.error


def until_wait(url: str, **options: Any) -> list[rueda.State]:
    """Returns the states until the client waits for another attempt. Otherwise it raises."""
    states = []
    with rueda.Client(url, **options) as client:
        for event in client.events(timeout=20):
            if isinstance(event, rueda.StateChange):
                states.append(event.state)
                if event.state is rueda.State.WAITING:
                    break
    return states


class OwnMistakesTest(unittest.TestCase):
    """Only errors of the network, of messages, and of a gateway that says so are tried again."""

    def server(self, code: int, reason: str) -> str:
        server = Refusing(code, reason)
        self.addCleanup(server.close)
        return server.url

    def test_functions_of_the_program(self) -> None:
        async def otp() -> str:
            raise TypeError("my mistake")

        url = self.server(403, "mfa_required")
        with self.assertRaisesRegex(TypeError, "my mistake"):
            until_wait(url, username="ana", password="p", otp=otp)
        for error in (PermissionError(13, "not mine"), TypeError("my mistake")):
            with self.assertRaises(type(error)):
                until_wait(url, tokens=BrokenStore(error))

    def test_refusals(self) -> None:
        for code, reason, again in (
            (401, "invalid_credentials", False),
            (403, "forbidden", False),
            (404, "", False),
            (404, "not_found", False),
            (302, "", False),
            (409, "new_word", False),
            (408, "timeout", True),
            (429, "rate_limited", True),
            (500, "internal", True),
            (502, "", True),
            (503, "unavailable", True),
            (401, "invalid_token", True),
            (401, "token_expired", True),
        ):
            with self.subTest(code=code, reason=reason):
                url = self.server(code, reason)
                if again:
                    until_wait(url, username="ana", password="p")
                    continue
                with self.assertRaises(rueda.GatewayError) as caught:
                    until_wait(url, username="ana", password="p")
                self.assertEqual((caught.exception.code, caught.exception.reason), (code, reason))


def child(client: rueda.Client, name: str, answers: Any) -> None:
    """Uses the client of the process that was forked."""
    try:
        if name == "close":
            client.close()
        elif name == "events":
            next(iter(client.events()))
        else:
            list(client.trades(GGAL))
        answers.put("nothing")
    except BaseException as error:
        answers.put(f"{type(error).__name__}: {error}")


class OwnersTest(GatewayTest):
    """A client belongs to one process, and its events to one loop."""

    def test_fork(self) -> None:
        fork = multiprocessing.get_context("fork")
        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            client.subscribe(rueda.Subscriptions(trades=[GGAL]))
            next(iter(client.events()))
            for name, want in (("rows", "RuntimeError"), ("events", "Runtime"), ("close", "noth")):
                answers = fork.SimpleQueue()
                process = fork.Process(target=child, args=(client, name, answers))
                process.start()
                process.join(20)
                self.assertFalse(process.is_alive(), name)
                answer = answers.get()
                self.assertIn(want, answer)
                if name != "close":
                    self.assertIn("make a new client after the fork", answer)
            self.assertIsNotNone(client.login())  # it goes on in its own process

    def test_two_threads(self) -> None:
        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            waits = threading.Thread(target=lambda: list(client.events()))
            waits.start()
            end = time.monotonic() + 20
            while client.health().state is not rueda.State.LIVE and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(0.1)  # now it waits: there is no subscription
            with self.assertRaisesRegex(RuntimeError, "make another client"):
                next(client.events())
            client.close()
            waits.join()

    def test_the_newest_loop(self) -> None:
        """A loop that was left may be followed by another one, and does not go on itself."""
        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            client.subscribe(rueda.Subscriptions(trades=[GGAL], quotes=["*|BYMA|24hs"]))
            left = client.events()
            next(left)
            for event in client.events():
                break
            with self.assertRaisesRegex(RuntimeError, "make another client"):
                for event in left:
                    pass

    def test_two_tasks(self) -> None:
        async def loop(client: rueda.AsyncClient) -> None:
            async for _ in client.events():
                pass

        async def main() -> None:
            async with rueda.AsyncClient(self.gateway.url, "demo", "demo") as client:
                first = asyncio.create_task(loop(client))
                while not client._waits:
                    await asyncio.sleep(0.01)
                with self.assertRaisesRegex(RuntimeError, "make another client"):
                    async for _ in client.events():
                        pass
                first.cancel()
                await asyncio.wait([first])
                async for _ in client.events():
                    break

        asyncio.run(main())

    def test_two_event_loops(self) -> None:
        client = rueda.AsyncClient(self.gateway.url, "demo", "demo")

        async def first() -> None:
            async for _ in client.events():
                return

        asyncio.run(first())
        with self.assertRaisesRegex(RuntimeError, "in each asyncio.run"):
            asyncio.run(first())


if __name__ == "__main__":
    unittest.main()
