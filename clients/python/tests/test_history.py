"""Rows of history, and what of them is lost: with a server that scripts its pages, and with a
gateway whose journal is not complete."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import shutil
import tempfile
import threading
import time
import unittest
import urllib.parse
import warnings
from dataclasses import asdict, replace
from datetime import date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, AsyncIterator, Callable, Iterator

import rueda
from rueda.events import utc

from .gateway import GGAL, Gateway

DAYS = [f"2026-11-{day:02}" for day in range(2, 7)]
ZERO = ":00.000000000Z"
AT = "2026-11-20T14:30:00.000000000Z"
KEPT = "2026-11-08T14:00:00.000000000Z"
TOKEN = {"access_token": "a", "expires_in": 900, "refresh_token": "r", "refresh_expires_in": 900}
NOT_KEPT = {"from": 3, "to": 7, "end": KEPT, "reason": "buffer_exceeded"}
DAMAGED = {"from": 11, "to": 12, "start": AT, "end": AT, "reason": "buffer_exceeded"}
MEMBERS = {"trades": "T", "quotes": "Q", "statuses": "H", "bars": "K"}
LOST = [
    rueda.Lost("trades", GGAL, 3, 7, "buffer_exceeded", "", KEPT),
    rueda.Lost("trades", GGAL, 11, 12, "buffer_exceeded", AT, AT),
]

Query = dict[str, str]

def message(kind: str, n: int) -> dict[str, Any]:
    members: dict[str, dict[str, Any]] = {
        "T": {"P": 7050, "Z": 1},
        "H": {"E": "open"},
        "K": {"IV": "5m", "TV": 1, "EV": 2, "TC": 1, "R": False},
    }
    return {"type": kind, "I": GGAL, "N": n, "T": AT, **members.get(kind, {})}


class Server:
    """Answers each request of a page by a function of its path and parameters."""

    def __init__(self, page: Callable[[str, Query], dict[str, Any]]) -> None:
        self.asked: list[Query] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.answer(TOKEN)

            def do_GET(self) -> None:
                path, _, text = self.path.partition("?")
                query = dict(urllib.parse.parse_qsl(text))
                server.asked.append(query)
                self.answer(page(path, query))

            def answer(self, data: dict[str, Any]) -> None:
                failure = data.get("failure")
                body: dict[str, Any] = {"success": True, "data": data}
                if failure:
                    body = {"success": False, "error": {"reason": failure}}
                text = json.dumps(body).encode()
                self.send_response(500 if failure else 200)
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


def two_pages(path: str, query: Query) -> dict[str, Any]:
    """Rows 8 to 10 and 13; those before 8 are no longer kept, and 11 and 12 are damaged."""
    name = path.rpartition("/")[2]
    if not query.get("cursor"):
        rows = [message(MEMBERS[name], n) for n in (8, 9, 10)]
        return {name: rows, "epoch": "e", "next_cursor": "second", "lost": [NOT_KEPT]}
    return {name: [message(MEMBERS[name], 13)], "epoch": "e", "lost": [DAMAGED]}


def recording(instrument: str, count: int) -> str:
    """Returns a recording with a number of trades on each day, one a minute."""
    listed = {"instrument": instrument, "currency": "ARS", "price_decimals": 2, "size_decimals": 0}
    head = {"rueda": "recording", "version": 1, "server": "http://127.0.0.1:1",
            "began": f"{DAYS[0]}T14:30:00Z", "epoch": "e1", "channels": ["trades"], "depth": 0,
            "ids": [instrument], "instruments": [listed]}
    lines, n = [json.dumps(head, separators=(",", ":"))], 0
    for day in DAYS:
        at = datetime.fromisoformat(f"{day}T14:30:00+00:00")
        for _ in range(count):
            n += 1
            trade = {"type": "T", "I": instrument, "N": n, "T": utc(at), "P": 100, "Z": n}
            lines.append(f"{int(at.timestamp())}000000000 {json.dumps(trade)}")
            at += timedelta(minutes=1)
    return "\n".join(lines) + "\n"


def nothing(path: str, query: Query) -> dict[str, Any]:
    return {path.rpartition("/")[2]: [], "epoch": "e", "lost": [NOT_KEPT]}


def complete(path: str, query: Query) -> dict[str, Any]:
    name = path.rpartition("/")[2]
    return {name: [message(MEMBERS[name], n) for n in (1, 2, 3)], "epoch": "e"}


class Case(unittest.TestCase):
    def serve(self, page: Callable[[str, Query], dict[str, Any]] = two_pages) -> Server:
        server = Server(page)
        self.addCleanup(server.close)
        return server

    def client(self, server: Server, **options: Any) -> rueda.Client:
        client = rueda.Client(server.url, "demo", "demo", **options)
        self.addCleanup(client.close)
        return client

    def warned(self, run: Callable[[], object]) -> list[str]:
        """Returns the warnings, each of which must be at a line of this file."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run()
        for w in caught:
            self.assertIs(w.category, rueda.IncompleteHistoryWarning)
            self.assertEqual(w.filename, __file__)
        return [str(w.message) for w in caught]


class LostTest(Case):
    def test_before_the_first_row(self) -> None:
        server = self.serve()
        client = self.client(server)

        def run() -> None:
            rows = client.trades(GGAL, rueda.Range(after=2))
            self.assertEqual(server.asked, [])
            self.assertEqual(rows.lost(), LOST[:1])
            self.assertEqual(len(server.asked), 1)
            self.assertEqual([next(rows).n for _ in range(3)], [8, 9, 10])
            self.assertEqual(len(server.asked), 1)
            self.assertEqual(rows.lost(), LOST[:1])
            self.assertEqual([t.n for t in rows], [13])
            self.assertEqual(rows.lost(), LOST)
            with self.assertRaises(StopIteration):
                next(rows)

        self.assertEqual(self.warned(run), [])
        self.assertEqual([q.get("cursor") for q in server.asked], [None, "second"])

    def test_each_call(self) -> None:
        """Each kind of rows has the series of the stream in what is lost."""
        client = self.client(self.serve())
        calls: list[tuple[Callable[[], rueda.Rows[Any]], str, str]] = [
            (lambda: client.trades(GGAL), "trades", GGAL),
            (lambda: client.quotes(GGAL), "quotes", GGAL),
            (lambda: client.statuses(GGAL), "status", GGAL),
            (lambda: client.bars(GGAL, "5m"), "bars", GGAL + "|5m"),
        ]
        for call, channel, name in calls:
            with self.subTest(channel):
                texts = self.warned(lambda: self.assertEqual(len(list(call())), 4))
                want = (
                    f"{channel} {name}: history is incomplete: lost rows from N 3 to N 7 before"
                    f" {KEPT} (buffer_exceeded). The method lost has all ranges. require_complete"
                    " makes it an error"
                )
                self.assertEqual(texts, [want])
                (lost,) = call().lost()
                self.assertEqual((lost.channel, lost.instrument, lost.first), (channel, name, 3))

    def test_no_rows(self) -> None:
        """An empty answer does not look as if nothing had been traded."""
        client = self.client(self.serve(nothing))
        texts = self.warned(lambda: self.assertEqual(list(client.trades(GGAL)), []))
        self.assertEqual(len(texts), 1)
        self.assertEqual(client.trades(GGAL).lost(), LOST[:1])
        with self.assertRaises(rueda.IncompleteHistory):
            list(client.trades(GGAL, rueda.Range(require_complete=True)))

    def test_one_warning_a_call(self) -> None:
        client = self.client(self.serve())

        def run() -> None:
            for _ in range(2):
                for _ in client.trades(GGAL):
                    pass
            list(client.trades(GGAL, rueda.Range(limit=1)))

        self.assertEqual(len(self.warned(run)), 3)

    def test_complete(self) -> None:
        client = self.client(self.serve(complete), require_complete=True)
        self.assertEqual(self.warned(lambda: list(client.trades(GGAL))), [])
        self.assertEqual(client.trades(GGAL).lost(), [])

    def test_only_a_reason(self) -> None:
        def page(path: str, query: Query) -> dict[str, Any]:
            return {"trades": [], "lost": [{"reason": "new"}, {"from": 1, "reason": "new"}]}

        client = self.client(self.serve(page))
        (text,) = self.warned(lambda: list(client.trades(GGAL)))
        self.assertIn(" is incomplete: lost rows (new), and 1 more. ", text)
        lost = [rueda.Lost("trades", GGAL, n, None, "new") for n in (0, 1)]
        self.assertEqual(client.trades(GGAL).lost(), lost)

    def test_wrong_list(self) -> None:
        wrong: list[Any] = [7, [7], [{}], [{"reason": 7}], [{"reason": "a", "to": [1]}]]
        wrong += [[{"reason": "a", "end": 7}], [{"reason": "a", "from": "x"}]]
        for lost in wrong:
            client = self.client(self.serve(lambda *_: {"trades": [], "lost": lost}))
            with self.subTest(lost), self.assertRaises(rueda.ProtocolError):
                list(client.trades(GGAL))

    def test_require_complete(self) -> None:
        """The error comes before the first row of the page that has the range, and again."""
        server = self.serve()
        for client, wanted in (
            (self.client(server, require_complete=True), rueda.Range(after=2)),
            (self.client(server), rueda.Range(after=2, require_complete=True)),
        ):
            found = client.trades(GGAL, wanted)
            self.assertEqual(found.lost(), LOST[:1])
            for _ in range(2):
                with self.assertRaisesRegex(rueda.IncompleteHistory, "from N 3 to N 7") as caught:
                    next(found)
                self.assertEqual(caught.exception.lost, LOST[:1])
        self.assertEqual(len(server.asked), 2)
        client = self.client(server, require_complete=True)
        rows = client.trades(GGAL, rueda.Range(require_complete=False))
        self.assertEqual(rows.lost(), LOST[:1])
        self.assertEqual(len(list(rows)), 4)

    def test_require_complete_later(self) -> None:
        def page(path: str, query: Query) -> dict[str, Any]:
            found = two_pages(path, query)
            return found if "cursor" in query else {**found, "lost": []}

        rows = self.client(self.serve(page), require_complete=True).trades(GGAL)
        self.assertEqual([next(rows).n for _ in range(3)], [8, 9, 10])
        with self.assertRaises(rueda.IncompleteHistory):
            next(rows)

    def test_warning_as_error(self) -> None:
        client = self.client(self.serve())
        with warnings.catch_warnings():
            warnings.simplefilter("error", rueda.IncompleteHistoryWarning)
            with self.assertRaises(rueda.IncompleteHistoryWarning):
                list(client.trades(GGAL))

    def test_limit(self) -> None:
        """The last page has no more rows than are left, so that it lists no other ranges."""
        def page(path: str, query: Query) -> dict[str, Any]:
            begin = int(query.get("cursor", 1))
            end = begin + int(query["limit"])
            return {"trades": [message("T", n) for n in range(begin, end)], "next_cursor": str(end)}

        server = self.serve(page)
        rows = list(self.client(server).trades(GGAL, rueda.Range(limit=10_002)))
        self.assertEqual([t.n for t in rows], list(range(1, 10_003)))
        self.assertEqual([q["limit"] for q in server.asked], ["10000", "2"])

    def test_errors(self) -> None:
        """A page that fails is read again by the next call. It does not look like the end."""
        failing = ["", "second"]

        def page(path: str, query: Query) -> dict[str, Any]:
            if failing and query.get("cursor", "") == failing[0]:
                del failing[0]
                return {"failure": "internal"}
            return two_pages(path, query)

        rows = self.client(self.serve(page)).trades(GGAL)
        with self.assertRaises(rueda.Unavailable):
            rows.lost()
        self.assertEqual(rows.lost(), LOST[:1])
        self.assertEqual([next(rows).n for _ in range(3)], [8, 9, 10])
        with self.assertRaises(rueda.Unavailable):
            next(rows)
        self.assertEqual([t.n for t in rows], [13])
        self.assertEqual(rows.lost(), LOST)

    def test_wrong_row(self) -> None:
        wrong: list[Any] = [7, {}, message("Q", 1), {"type": "T"}]
        for row in wrong:
            client = self.client(self.serve(lambda *_: {"trades": [row]}))
            with self.subTest(row), self.assertRaises(rueda.ProtocolError):
                list(client.trades(GGAL))

    def test_types(self) -> None:
        """The rows are the iterators that they were before they had lost."""
        client = self.client(self.serve(complete))
        rows: Iterator[rueda.Trade] = client.trades(GGAL)
        others: AsyncIterator[rueda.Trade] = rueda.AsyncClient("http://127.0.0.1:9").trades(GGAL)
        self.assertIsInstance(others, AsyncIterator)
        self.assertIs(iter(rows), rows)
        self.assertEqual(next(rows).n, 1)
        self.assertEqual([t.n for t in itertools.islice(rows, 1)], [2])
        with contextlib.closing(client.trades(GGAL)) as closed:
            next(closed)
        self.assertEqual(list(closed), [])


class AsyncLostTest(Case):
    def run_with(self, part: Callable[[rueda.AsyncClient], Any], **options: Any) -> list[str]:
        server = self.serve()

        async def run() -> None:
            async with rueda.AsyncClient(server.url, "demo", "demo", **options) as client:
                await part(client)

        return self.warned(lambda: asyncio.run(run()))

    def test_before_the_first_row(self) -> None:
        async def part(client: rueda.AsyncClient) -> None:
            rows = client.trades(GGAL, rueda.Range(after=2))
            self.assertEqual(await rows.lost(), LOST[:1])
            self.assertEqual([t.n async for t in rows], [8, 9, 10, 13])
            self.assertEqual(await rows.lost(), LOST)

        self.assertEqual(self.run_with(part), [])

    def test_warning(self) -> None:
        async def part(client: rueda.AsyncClient) -> None:
            self.assertEqual([t.n async for t in client.trades(GGAL)], [8, 9, 10, 13])
            async for _ in client.bars(GGAL):
                break

        self.assertEqual(len(self.run_with(part)), 2)

    def test_require_complete(self) -> None:
        async def part(client: rueda.AsyncClient) -> None:
            with self.assertRaises(rueda.IncompleteHistory):
                await anext(client.quotes(GGAL))

        self.assertEqual(self.run_with(part, require_complete=True), [])

    def test_tasks(self) -> None:
        """Tasks that share an iterator get each row once."""
        async def part(client: rueda.AsyncClient) -> None:
            rows = client.trades(GGAL)
            await rows.lost()

            async def read() -> list[int]:
                return [t.n async for t in rows]

            parts = await asyncio.gather(*(read() for _ in range(3)))
            self.assertEqual(sorted(n for p in parts for n in p), [8, 9, 10, 13])

        self.run_with(part)

    def test_cancelled(self) -> None:
        """A wait that was cancelled is not the end of the rows."""
        async def part(client: rueda.AsyncClient) -> None:
            rows = client.trades(GGAL)
            waiting = asyncio.create_task(rows.lost())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            self.assertEqual([t.n async for t in rows], [8, 9, 10, 13])
            self.assertEqual(await rows.lost(), LOST)
            rows = client.trades(GGAL)
            await rows.lost()
            async with contextlib.aclosing(rows):
                pass
            self.assertEqual([t async for t in rows], [])

        self.run_with(part)

    def test_gaps(self) -> None:
        """A gap of the stream is filled without a warning or an error: the stream reports it."""
        async def part(client: rueda.AsyncClient) -> None:
            for channel, name in (("trades", GGAL), ("status", GGAL), ("bars", GGAL + "|5m")):
                rows = client._history((channel, name), 2, 13, "e")
                self.assertEqual([e.n async for e in rows], [8, 9, 10, 13])

        self.assertEqual(self.run_with(part, require_complete=True), [])


needs_pandas = unittest.skipUnless(
    importlib.util.find_spec("pandas"), "RUEDA_REQUIRE_ALL makes missing tools an error"
)


@needs_pandas
class PandasTest(Case):
    def test_attrs(self) -> None:
        import rueda.pandas

        server = self.serve()
        client = self.client(server)
        want = [{"channel": "trades", "instrument": GGAL, "first": 3, "last": 7,
                 "reason": "buffer_exceeded", "start": "", "end": KEPT},
                {"channel": "trades", "instrument": GGAL, "first": 11, "last": 12,
                 "reason": "buffer_exceeded", "start": AT, "end": AT}]

        def run() -> None:
            for frame in (
                rueda.pandas.trades(client, GGAL),
                rueda.pandas.trades_frame(client.trades(GGAL)),
            ):
                self.assertEqual((len(frame), frame.attrs["lost"]), (4, want))
                self.assertEqual(json.loads(json.dumps(frame.attrs))["lost"], want)
            for frame in (rueda.pandas.quotes(client, GGAL), rueda.pandas.bars(client, GGAL, "5m")):
                self.assertEqual([v["first"] for v in frame.attrs["lost"]], [3, 11])

        self.assertEqual(len(self.warned(run)), 4)
        with self.assertRaises(rueda.IncompleteHistory):
            rueda.pandas.trades(client, GGAL, rueda.Range(require_complete=True))

    def test_attrs_async(self) -> None:
        import rueda.pandas

        server = self.serve()

        async def part() -> None:
            async with rueda.AsyncClient(server.url, "demo", "demo") as client:
                for frame in (
                    await rueda.pandas.trades_async(client, GGAL),
                    await rueda.pandas.quotes_async(client, GGAL),
                    await rueda.pandas.bars_async(client, GGAL, "5m"),
                ):
                    self.assertEqual([v["first"] for v in frame.attrs["lost"]], [3, 11])

        self.assertEqual(len(self.warned(lambda: asyncio.run(part()))), 3)

    def test_complete(self) -> None:
        import rueda.pandas

        client = self.client(self.serve(complete))
        self.assertEqual(rueda.pandas.trades(client, GGAL).attrs["lost"], [])
        self.assertNotIn("lost", rueda.pandas.trades_frame([]).attrs)


class JournalTest(Case):
    """A gateway whose journal lacks its first day and a segment in the middle."""

    gateway: Gateway
    epoch: str
    INSTRUMENT = "MINE|TEST|CI"
    PER_DAY = 40
    NOT_KEPT = rueda.Lost("trades", INSTRUMENT, 1, 40, "buffer_exceeded", "",
                          f"{DAYS[1]}T14:30{ZERO}")
    DAMAGED = rueda.Lost("trades", INSTRUMENT, 81, 120, "buffer_exceeded",
                         f"{DAYS[1]}T15:09{ZERO}", f"{DAYS[3]}T14:30{ZERO}")

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        file, other = Path(folder.name, "days.jsonl"), Path(folder.name, "other.jsonl")
        file.write_text(recording(cls.INSTRUMENT, cls.PER_DAY))
        other.write_text(recording("OTHR|TEST|CI", 1))
        cls.gateway = Gateway("replay", str(file), "--speed", "max")
        cls.addClassCleanup(cls.gateway.stop)
        with rueda.Client(cls.gateway.url, "demo", "demo") as client:
            end = time.monotonic() + 60
            while len(list(client.trades(cls.INSTRUMENT))) < 5 * cls.PER_DAY:
                assert time.monotonic() < end
                time.sleep(0.1)
        cls.gateway.stop()
        journal = cls.gateway.folder / "data" / "journal"
        shutil.rmtree(journal / DAYS[0])
        for segment in (journal / DAYS[2]).glob("*.seg*"):
            segment.unlink()
        cls.gateway.arguments = ("replay", str(other), "--speed", "max")
        cls.gateway.url = cls.gateway.start("127.0.0.1:0")
        with rueda.Client(cls.gateway.url, "demo", "demo") as client:
            page = client.get("/market/trades", instrument=cls.INSTRUMENT, limit="1")
            cls.epoch = page["epoch"]

    def test_rows(self) -> None:
        kept = [*range(41, 81), *range(121, 201)]
        ranges = [
            (rueda.Range(), [self.DAMAGED]),
            (rueda.Range(epoch=self.epoch), [self.DAMAGED]),
            (rueda.Range(after=0), [self.NOT_KEPT, self.DAMAGED]),
            (rueda.Range(after=2), [replace(self.NOT_KEPT, first=3), self.DAMAGED]),
            (rueda.Range(after=2, newest=True), [replace(self.NOT_KEPT, first=3), self.DAMAGED]),
            (rueda.Range(start=date.fromisoformat(DAYS[0])), [self.NOT_KEPT, self.DAMAGED]),
        ]
        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            for wanted, lost in ranges:
                with self.subTest(wanted):
                    rows = client.trades(self.INSTRUMENT, wanted)
                    self.assertEqual(rows.lost(), lost)
                    self.assertEqual(sorted(t.n for t in rows), kept)
                    call = client.trades
                    self.assertEqual(
                        len(self.warned(lambda: list(call(self.INSTRUMENT, wanted)))), 1
                    )
                    with self.assertRaises(rueda.IncompleteHistory):
                        list(call(self.INSTRUMENT, replace(wanted, require_complete=True)))
            first_day = rueda.Range(start=datetime.fromisoformat(f"{DAYS[0]}T00:00:00+00:00"),
                                    end=date.fromisoformat(DAYS[1]), require_complete=True)
            self.assertEqual(client.trades(self.INSTRUMENT, first_day).lost(), [self.NOT_KEPT])
            with self.assertRaisesRegex(rueda.IncompleteHistory, "from N 1 to N 40 before"):
                list(client.trades(self.INSTRUMENT, first_day))
            complete = rueda.Range(after=120, require_complete=True)
            self.assertEqual(len(list(client.trades(self.INSTRUMENT, complete))), 80)
            bars = client.bars(self.INSTRUMENT, "1m", rueda.Range(after=0))
            self.assertEqual([v.instrument for v in bars.lost()], [self.INSTRUMENT + "|1m"] * 2)

    @needs_pandas
    def test_pandas(self) -> None:
        import rueda.pandas

        want = [asdict(v) for v in (self.NOT_KEPT, self.DAMAGED)]
        with rueda.Client(self.gateway.url, "demo", "demo") as client:

            def run() -> None:
                frame = rueda.pandas.trades(client, self.INSTRUMENT, rueda.Range(after=0))
                self.assertEqual((len(frame), frame.attrs["lost"]), (120, want))

            self.assertEqual(len(self.warned(run)), 1)


if __name__ == "__main__":
    unittest.main()
