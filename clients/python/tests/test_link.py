"""One connection with a scripted gateway: what is sent, and which events the program gets."""

from __future__ import annotations

import asyncio
import json
import unittest
from typing import Any, AsyncIterator, Optional
from unittest import mock

import rueda
from rueda.connect import Connector
from rueda.engine import Checkpoint, Engine, Settings
from rueda.errors import gateway_error
from rueda.link import Link
from rueda.queue import EventQueue, Series
from rueda.rest import Rest, parse_url
from rueda.tokens import TokenKeeper

ID = "A|B|C"
SUCCESS = {"type": "Success", "code": 200, "limits": {"message_bytes": 65536}}


def trade(n: int) -> dict[str, Any]:
    at = "2026-11-20T14:30:00.000000000Z"
    return {"type": "T", "S": "A", "I": ID, "N": n, "T": at, "P": 1, "Z": 2}


class Socket:
    """What a Link uses of a connection."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[str] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.transport = mock.Mock()

    async def recv(self) -> str:
        return await self.incoming.get()

    async def send(self, text: str) -> None:
        self.sent.append(json.loads(text))

    async def close(self) -> None:
        pass


async def post(path: str, body: dict[str, str]) -> Any:
    return {"access_token": "a2", "expires_in": 100, "refresh_token": "r", "refresh_expires_in": 9}


class LinkTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.queue = EventQueue(100, rueda.Overflow.CONFLATE)
        settings = Settings("s", False, None, False, "t", None)
        tokens = TokenKeeper(post, "u", "p", None, None)
        await tokens.get()
        rest = Rest(["http://127.0.0.1:1"], "t", None)
        self.engine = Engine(rest, tokens, self.queue, settings)
        self.engine.history = self.history
        self.rows: list[dict[str, Any]] = []
        self.socket = Socket()
        self.running: Optional[asyncio.Task[None]] = None

    async def history(
        self, series: Series, after: int, last: int, epoch: str
    ) -> AsyncIterator[rueda.DataEvent]:
        self.asked = (series, after, last, epoch)
        for row in self.rows:
            event = rueda.decode(json.dumps(row))
            assert event is not None
            yield event

    async def test_replaced_by_own(self) -> None:
        """A client connects again if its own broken connection may have taken the session over."""
        replaced = gateway_error(409, "replaced")
        replaced.closed = True
        broken = rueda.ConnectionBroken("reset")
        errors = iter([broken, replaced, replaced, broken])
        connect = mock.AsyncMock(side_effect=lambda: next(errors))
        connector = Connector(self.engine)
        with mock.patch.object(connector, "_connect", connect):
            with mock.patch("rueda.connect.FIRST_BACKOFF", 0.0):
                with self.assertRaises(rueda.Replaced):
                    await connector.run()
        self.assertEqual(connect.await_count, 3)

    async def asyncTearDown(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.wait([self.running])

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def connect(self, *messages: dict[str, Any], scope: str = "") -> None:
        self.link = Link(self.engine, self.socket, rueda.Tokens("a1", scope=scope))
        self.engine.changed = self.link.reconcile
        self.running = asyncio.create_task(self.link.run())
        await self.give(SUCCESS, *messages)

    async def give(self, *messages: dict[str, Any]) -> None:
        for m in messages:
            self.socket.incoming.put_nowait(json.dumps(m))
        await self.settle()

    async def ended(self) -> BaseException:
        assert self.running is not None
        await asyncio.wait([self.running], timeout=1)
        error = self.running.exception()
        assert error is not None
        return error

    def want(self, **lists: Any) -> None:
        self.engine.desired.update(rueda.Subscriptions(**lists).items())
        self.engine.changed()

    def events(self) -> list[rueda.Event]:
        found: list[rueda.Event] = []
        while (entry := self.queue.take()) is not None:
            if entry.event is not None and not isinstance(entry.event, rueda.StateChange):
                found.append(entry.event)
        return found

    def numbers(self) -> list[Any]:
        return [e.n if isinstance(e, rueda.Trade) else e for e in self.events()]

    def answer(self, id: int, **members: Any) -> dict[str, Any]:
        m = {"type": "Subscription", "code": 200, "id": id, "epoch": "e", "position": "e:1"}
        return {**m, **members}

    async def test_set(self) -> None:
        self.want(trades=[ID, "X|B|C"], books=[ID], depth=10)
        await self.connect()
        auth, trades, books = self.socket.sent
        if "order_book" in trades:
            trades, books = books, trades
        self.assertEqual((auth["action"], auth["session"]), ("auth_token", "s"))
        self.assertEqual(auth["token"], "a1")
        self.assertEqual((trades["trades"], trades["alive"]), ([ID, "X|B|C"], True))
        self.assertEqual((books["order_book"], books["depth"]), ([ID], 10))
        await self.give(self.answer(1), self.answer(2))
        self.assertEqual(self.engine.pulse.state, rueda.State.LIVE)
        del self.engine.desired["trades", "X|B|C"]
        self.engine.changed()
        self.want(books=[ID], depth=5)
        await self.settle()
        actions = [(m["action"], m.get("depth")) for m in self.socket.sent[3:]]
        self.assertEqual(actions, [("unsubscribe", None), ("subscribe", 5)])

    async def test_resume(self) -> None:
        self.engine.restore(Checkpoint("e", "e:5", {f"trades {ID}": 5}))
        self.want(trades=[ID])
        await self.connect()
        resume = {"epoch": "e", "position": "e:5", "trades": {ID: 5}}
        self.assertEqual(self.socket.sent[1]["resume"], resume)
        resumed = {"trades": {ID: 7}}
        await self.give(self.answer(1, resumed=resumed), trade(5), trade(6), trade(7), trade(8))
        await self.give({"type": "CaughtUp", "code": 200, "id": 1, "epoch": "e", "position": "e:9"})
        *trades, recovered = self.events()
        self.assertEqual([(e.n, e.replayed) for e in trades if isinstance(e, rueda.Trade)],
                         [(6, True), (7, True), (8, False)])
        self.assertEqual(recovered, rueda.Recovered("trades", ID, 6, 7))
        self.assertEqual(self.engine.position, "e:9")

    async def test_resume_by_position_alone(self) -> None:
        """What was missed of an instrument without a trade so far is marked, too."""
        self.engine.restore(Checkpoint("e", "e:5", {}))
        self.want(trades=[ID])
        await self.connect(self.answer(1, resumed={"trades": {ID: 2}}), trade(1), trade(2), trade(3))
        await self.give({"type": "CaughtUp", "code": 200, "id": 1, "epoch": "e", "position": "e:9"})
        *trades, recovered = self.events()
        self.assertEqual([(e.n, e.replayed) for e in trades if isinstance(e, rueda.Trade)],
                         [(1, True), (2, True), (3, False)])
        self.assertEqual(recovered, rueda.Recovered("trades", ID, 1, 2))

    async def test_nothing_is_repeated_after_a_new_subscription(self) -> None:
        """A position may be before what was sent."""
        self.want(trades=[ID, "X|B|C"])
        await self.connect(self.answer(1), trade(1), trade(2))
        del self.engine.desired["trades", ID]
        self.engine.changed()
        await self.give(self.answer(2))
        self.want(trades=[ID])
        await self.give(self.answer(3))
        self.assertNotIn(("trades", ID), self.engine.series)
        assert self.running is not None
        self.running.cancel()
        self.socket = Socket()
        await self.connect(self.answer(1), trade(1), trade(2), trade(3))
        self.assertEqual(self.socket.sent[1]["resume"], {"epoch": "e", "position": "e:1"})
        self.assertEqual(self.numbers(), [1, 2, 3])

    async def test_lost(self) -> None:
        self.engine.restore(Checkpoint("e", "e:5", {f"trades {ID}": 5}))
        self.want(trades=[ID])
        lost = {"trades": {ID: {"from": 6, "to": 9, "reason": "buffer_exceeded"}}}
        missing = {"trades": {ID: {"from": 12, "to": 13, "reason": "buffer_exceeded"}}}
        rows_lost = {"type": "Subscription", "msg": "Rows lost", "epoch": "e", "lost": missing}
        await self.connect(self.answer(1, lost=lost), trade(10), trade(11), rows_lost, trade(14))
        expected = [
            rueda.Lost("trades", ID, 6, 9, "buffer_exceeded"), 10, 11,
            rueda.Recovered("trades", ID, 10, 11, False),
            rueda.Lost("trades", ID, 12, 13, "buffer_exceeded"), 14,
        ]
        self.assertEqual(self.numbers(), expected)

    async def test_epoch(self) -> None:
        self.engine.restore(Checkpoint("old", "old:5", {f"trades {ID}": 5}))
        self.want(trades=[ID])
        await self.connect(self.answer(1), trade(1))
        self.assertEqual(self.numbers(), [rueda.Lost("trades", ID, 6, None, "epoch_changed"), 1])

    async def test_gap_filled(self) -> None:
        self.want(trades=[ID])
        self.rows = [trade(2), trade(3)]
        await self.connect(self.answer(1), trade(1), trade(4), trade(5), scope="marketdata:history")
        recovered = rueda.Recovered("trades", ID, 2, 3, True)
        self.assertEqual(self.numbers(), [1, 2, 3, recovered, 4, 5])
        self.assertEqual(self.asked, (("trades", ID), 1, 3, "e"))

    async def test_gap_without_history(self) -> None:
        self.want(trades=[ID])
        await self.connect(self.answer(1), trade(1), trade(4))
        self.assertIsInstance(await self.ended(), rueda.ConnectionBroken)
        self.engine.restored = True
        self.socket = Socket()
        caught_up = {"type": "CaughtUp", "code": 200, "epoch": "e"}
        await self.connect(self.answer(1), caught_up, trade(4))
        lost = rueda.Lost("trades", ID, 2, 3, "missing")
        self.assertEqual(self.numbers(), [1, lost, 4])

    async def test_alive_shows_a_loss(self) -> None:
        self.want(trades=[ID])
        self.rows = [trade(2)]
        await self.connect(self.answer(1), trade(1), scope="marketdata:history")
        await self.give({"type": "Alive", "epoch": "e", "last": {"trades": {ID: 2}}})
        self.assertEqual(self.numbers(), [1, 2, rueda.Recovered("trades", ID, 2, 2, True)])

    async def test_rejected(self) -> None:
        self.want(trades=[ID])
        row = {"channel": "trades", "instrument": ID, "code": 403, "reason": "not_entitled"}
        error = {"type": "Error", "code": 403, "reason": "not_entitled", "id": 1, "retry": False}
        await self.connect({**error, "rejected": [row]})
        self.assertEqual(self.events(), [rueda.Rejected("trades", ID, "not_entitled")])
        self.engine.changed()
        await self.settle()
        self.assertEqual(len(self.socket.sent), 2)  # it is not requested again

    async def test_book_is_resynced(self) -> None:
        self.want(books=[ID])
        book = {**trade(1), "type": "O", "R": True, "DL": 5, "B": [], "A": [], "K": 7}
        await self.connect(self.answer(1), book)
        self.assertEqual(self.events(), [rueda.BookInvalid(ID, "checksum")])
        self.assertEqual(self.socket.sent[-1]["action"], "resync")

    async def test_silence(self) -> None:
        self.engine.settings.heartbeat = 0.05
        await self.connect()
        self.assertEqual(str(await self.ended()), "the connection is silent")
        self.assertEqual(self.socket.sent[-1]["action"], "ping")

    @mock.patch("rueda.tokens.RENEW_AGAIN", 0.0)
    async def test_reauthentication(self) -> None:
        await self.connect({"type": "Warning", "code": 200, "reason": "token_expiring",
                            "msg": "", "expires_in": 0})
        await asyncio.sleep(0.1)
        await self.settle()
        self.assertEqual(self.socket.sent[-1], {"action": "auth_token", "token": "a2"})
        assert self.running is not None
        self.assertFalse(self.running.done())

    async def test_ignores_what_it_does_not_know(self) -> None:
        await self.connect({"type": "New", "x": 1}, {"action": "new"}, {}, {"action": "ping"})
        self.assertEqual(self.socket.sent[-1], {"action": "pong"})

    async def test_hostile(self) -> None:
        hostile: list[dict[str, Any]] = [
                  {"type": "Subscription"}, {"type": "Alive", "last": 7}, {"type": "T"},
                  {"type": "Error", "reason": [], "code": 1}, {**trade(1), "N": "x"}]
        for m in hostile:
            with self.subTest(m):
                self.socket = Socket()
                await self.connect(m)
                self.assertIsInstance(await self.ended(), rueda.ProtocolError)

    async def test_pause(self) -> None:
        with mock.patch("random.random", return_value=1.0):
            broken = rueda.ConnectionBroken()
            waits = [Connector(self.engine)._pause(broken) for _ in range(9)]
            self.assertEqual(waits, [0.5, 1, 2, 4, 8, 16, 30, 30, 30])
            self.assertEqual(Connector(self.engine)._pause(gateway_error(429, "", retry_after=9)), 39)


    async def test_books_of_a_pattern(self) -> None:
        """A pattern of books is the books of listed instruments. An exact one has its own options."""
        listed: dict[str, list[str]] = {"*|B|*": [ID, "X|B|C"], "*|N|*": []}
        asked: list[str] = []

        async def books_of(pattern: str) -> AsyncIterator[str]:
            asked.append(pattern)
            for name in listed[pattern]:
                yield name

        self.engine.books_of = books_of
        self.want(books=["*|B|*"])
        self.want(books=["X|B|C"], depth=1)
        await self.connect()
        books = [(m["order_book"], m["depth"]) for m in self.socket.sent[1:]]
        self.assertEqual(books, [(["X|B|C"], 1), ([ID], 5)])
        self.engine.desired.pop(("order_book", "X|B|C"))  # the pattern has it too
        self.want(books=["*|N|*"])
        await self.settle()
        self.assertEqual(asked, ["*|B|*", "*|N|*"])
        last = self.socket.sent[-1]
        self.assertEqual((last["order_book"], last["depth"]), (["X|B|C"], 5))
        (rejected,) = self.events()
        assert isinstance(rejected, rueda.Rejected)
        self.assertEqual((rejected.instrument, rejected.reason), ("*|N|*", "unknown_instrument"))
        self.engine.desired.clear()
        self.engine.changed()
        await asyncio.sleep(0.15)
        self.assertEqual(self.socket.sent[-1]["order_book"], [ID, "X|B|C"])
        self.assertEqual(self.socket.sent[-1]["action"], "unsubscribe")

    async def test_books_of_a_pattern_are_refused(self) -> None:
        async def books_of(pattern: str) -> AsyncIterator[str]:
            raise gateway_error(code, reason, "No")
            yield ""

        self.engine.books_of = books_of
        code, reason = 403, "forbidden"
        self.want(books=["*|B|*"])
        await self.connect()
        (rejected,) = self.events()
        assert isinstance(rejected, rueda.Rejected)
        self.assertEqual((rejected.reason, rejected.msg), ("forbidden", "No"))
        code, reason = 503, "unavailable"
        self.want(books=["*|D|*"])
        self.assertIsInstance(await self.ended(), rueda.Unavailable)


class AddressTest(unittest.TestCase):
    def test_addresses(self) -> None:
        for text, want in {
            "http://127.0.0.1:8080/": "http://127.0.0.1:8080",
            "wss://api.broker.example/stream": "https://api.broker.example",
            "https://broker.example/api/": "https://broker.example/api",
            "http://[::1]:1": "http://[::1]:1",
        }.items():
            self.assertEqual(parse_url(text, False), want)
        for text in ("", "broker", "ftp://x", "https://u:p@x", "https://x?token=1", "http://x"):
            with self.assertRaises(ValueError):
                parse_url(text, False)
        self.assertEqual(parse_url("http://x", True), "http://x")

    def test_identifiers(self) -> None:
        for lists in ({"trades": ["A|B"]}, {"bars": [ID]}, {"bars": [ID + "|2m"]},
                      {"trades": ID}, {"depth": 3}, {"conflate": "5s"}, {"quotes": ["A||C"]}):
            with self.subTest(lists), self.assertRaises(ValueError):
                rueda.Subscriptions(**lists).items()  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
