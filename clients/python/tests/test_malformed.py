"""Answers that no gateway sends: each is an error of this package, or is understood.

With RUEDA_SOAK there are 100,000 of them.
"""

from __future__ import annotations

import asyncio
import email.message
import io
import json
import os
import random
import re
import resource
import time
import unittest
import urllib.error
import urllib.request
import warnings
from typing import Any, AsyncIterator
from unittest import mock

import rueda
from rueda.engine import Engine, Settings, nothing
from rueda.link import Link
from rueda.queue import EventQueue, Series
from rueda.rest import Rest
from rueda.tokens import TokenKeeper, Tokens

SHARE = 1 if os.environ.get("RUEDA_SOAK") else 40
ID = "GGAL|BYMA|24hs"
AT = "2000-01-01T00:00:00.000000000Z"

HOSTILE = [
    *"-1 0 1 0.5 1e300 -1e300 1e-300 1e999999999 -1.5e999999 9999999999 9223372037".split(),
    *"9223372036854775807 9223372036854775808 18446744073709551616 -9223372036854775808".split(),
    *"NaN Infinity null true false [] {} [[]] [null] [[1,2],[3]]".split(),
    "9" * 4000,
    "9" * 5000,
    "0." + "9" * 5000,
    '{"a":1}',
    "[" * 100_000,
    *'"" "text" "-1" "1e300" "\\ud800" "*|*|*" "GGAL*" "feed_down" "unavailable"'.split(),
    *'"replaced" "internal" "9999-99-99T99:99:99.999999999Z" "2031-01-01T00:00:00Z"'.split(),
    '"\\u001b]0;owned\\u0007"',
    '"\\u0000\\r\\n\\u009b"',
    '"AL30|BYMA|CI"',
    '"' + "x" * 100_000 + '"',
]
VALUE = re.compile(r'"(?:[^"\\]|\\.)*":?|-?\d+(?:\.\d+)?|true|false|null')
LIST = re.compile(r"[\[{][^\[\]{}]*[\]}]")  # without another one inside


def malform(r: random.Random, text: str) -> str:
    """Replaces a value, removes a member, or damages characters."""
    for _ in range(r.randint(1, 2)):
        found = list((LIST if r.random() < 0.2 else VALUE).finditer(text))
        if not found:
            break
        at = r.choice(found)
        new = '"x":' if at[0].endswith(":") else r.choice(HOSTILE)
        text = text[: at.start()] + new + text[at.end() :]
    if r.random() < 0.12 and text:
        at_char = r.randrange(len(text))
        text = text[:at_char] + chr(r.choice((0, 27, 34, 91, 125, 255))) + text[at_char + 1 :]
        text = text[: r.randrange(len(text))] if r.random() < 0.5 else text
    return text


def row(**members: Any) -> dict[str, Any]:
    return {"S": "GGAL", "I": ID, "T": AT, **members}


BAR: dict[str, Any] = {"OP": 1, "HI": 2, "LO": 1, "CL": 2, "TV": 10, "EV": 20, "TC": 2, "VW": 1.5}
ROWS: list[dict[str, Any]] = [
    row(type="T", N=1, D=5, P=7050.5, Z=1, X="a", G="B", C=["odd_lot"]),
    row(type="C", N=2, P=7050.5, Z=1, XN=1, XP=7051, XZ=2),
    row(type="Q", N=3, BP=7049, BZ=1, BC=1, AP=7050, AZ=2, AC=2),
    row(type="O", N=4, R=True, DL=5, B=[[7049, 1, 1]], A=[[7050.5, 2, 1]], K=1),
    row(type="O", N=5, L=4, B=[[7049, 0]], A=[], K=1),
    row(type="H", N=6, E="open", Y="x", U=AT),
    row(type="D", N=7, LA=2, SE=1, OI=4, **BAR),
    row(type="K", N=8, IV="1m", TD="2000-01-01", **BAR),
]
REFUSED: dict[str, Any] = {"channel": "trades", "instrument": ID}
REFUSED.update(reason="forbidden", msg="No", hint="x")
SUBSCRIPTION: dict[str, Any] = {"type": "Subscription", "id": 1, "epoch": "e1", "position": "e1:1"}
LOST: dict[str, Any] = {"from": 1, "to": 4, "reason": "expired"}
WARNING: dict[str, Any] = {"type": "Warning", "msg": "Soon", "hint": "x"}
ERROR: dict[str, Any] = {"type": "Error", "msg": "No", "hint": "x", "id": 1}
SUCCESS: dict[str, Any] = {"type": "Success", "limits": {"message_bytes": 65536}}
SUCCESS["heartbeat"] = {"interval": 20}
MESSAGES: list[dict[str, Any]] = [
    *ROWS,
    SUCCESS,
    {"action": "ping"},
    {"action": "pong", "time": AT},
    SUBSCRIPTION,
    {**SUBSCRIPTION, "lost": {"trades": {ID: LOST}}, "resumed": {"trades": {ID: 3}}},
    {**SUBSCRIPTION, "rejected": [REFUSED], "removed": [REFUSED]},
    {**SUBSCRIPTION, "moved": [{**REFUSED, "delay": 9}]},
    {"type": "CaughtUp", "id": 1, "epoch": "e1", "position": "e1:9"},
    {"type": "Alive", "position": "e1:5", "last": {"trades": {ID: 4}, "bars": {ID + "|1m": 2}}},
    {**WARNING, "reason": "token_expiring", "expires_in": 60},
    {**WARNING, "reason": "shutting_down", "reconnect_in_ms": 500},
    {**ERROR, "code": 429, "reason": "rate_limited", "retry": True, "retry_after": 1},
    {**ERROR, "code": 404, "reason": "unknown_instrument"},
]
ACCOUNT = dict.fromkeys(("account_id", "number", "type", "status", "currency"), "1")
INSTRUMENT: dict[str, Any] = dict.fromkeys(("symbol", "market", "term", "name", "status"), "x")
INSTRUMENT.update(instrument=ID, price_decimals=2, size_decimals=0, tick=[[0, 0.5]], channels=["x"])
TOKENS: dict[str, Any] = {"access_token": "a", "refresh_token": "r", "scope": "marketdata:read"}
TOKENS.update(expires_in=86400, refresh_expires_in=2592000)
PAGE: dict[str, Any] = {"lost": [{**LOST, "start": AT, "end": AT}], "epoch": "e1"}
ANSWERS: dict[str, Any] = {
    "/auth/token": TOKENS,
    "/auth/revoke": {},
    "/broker/accounts": {"accounts": [ACCOUNT]},
    "/broker/accounts/1": ACCOUNT,
    "/market/instruments": {"instruments": [INSTRUMENT]},
    "/market/snapshot": {"instruments": [{"instrument": ID, "trade": ROWS[0], "quote": ROWS[2]}]},
    "/market/book": ROWS[3],
    "/market/trades": {"trades": ROWS[:2], **PAGE},
    "/market/quotes": {"quotes": ROWS[2:3], **PAGE},
    "/market/statuses": {"statuses": ROWS[5:6], **PAGE},
    "/market/bars": {"bars": ROWS[7:], **PAGE},
}


class Liar:
    """An opener of urllib, of which most answers are malformed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def open(self, request: urllib.request.Request, timeout: float) -> Any:
        r = self.random
        path = request.selector.split("?")[0]
        text = json.dumps({"success": True, "data": ANSWERS[path]})
        code = 200
        if r.random() < 0.1:
            code = r.choice((302, 400, 401, 403, 429, 500, 503, 999))
            detail = {"reason": "rate_limited", "msg": "Wait", "hint": "x", "request_id": "1"}
            text = json.dumps({"success": False, "error": detail})
        if r.random() < 0.75:
            text = malform(r, text)
            self.count += 1
        body = io.BytesIO(text.encode("utf-8", "surrogatepass"))
        if code == 200:
            return body
        headers = email.message.Message()
        headers["Retry-After"] = r.choice(("1", "-1", "1e300", "9" * 30, "x", "", "٣"))
        raise urllib.error.HTTPError(request.full_url, code, "no", headers, body)


def read(event: Any) -> None:
    """Reads everything that an event has."""
    for name in dir(type(event)):
        if isinstance(getattr(type(event), name), property):
            try:
                getattr(event, name)
            except rueda.ProtocolError:
                pass
    repr(event)


class MalformedTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.calls = self.failed = 0
        self.before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def judge(self, err: BaseException) -> None:
        """Checks that a program that catches RuedaError goes on, and can print the error."""
        self.failed += 1
        self.assertIsInstance(err, rueda.RuedaError)
        text = str(err) + getattr(err, "hint", "") + getattr(err, "request_id", "")
        self.assertTrue(text.isprintable(), text)
        self.assertLess(len(text), 5000)

    def report(self, count: int, what: str) -> None:
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.before) >> 10
        print(f"{count} malformed {what} to {self.calls} calls, {self.failed} errors, +{grown} MiB")
        self.assertLess(grown, 200)
        self.assertGreater(self.failed, 0)
        self.assertLess(self.failed, self.calls)

    async def call(self, what: Any) -> Any:
        self.calls += 1
        try:
            if hasattr(what, "__anext__"):
                async for event in what:
                    read(event)
                return None
            return await what
        except Exception as err:
            self.judge(err)

    async def test_rest(self) -> None:
        liar, pause = Liar(SHARE), asyncio.sleep

        async def at_once(_: float) -> None:
            await pause(0)

        with mock.patch("asyncio.sleep", at_once), warnings.catch_warnings():
            warnings.simplefilter("ignore", rueda.IncompleteHistoryWarning)
            async with asyncio.timeout(900):
                while liar.count < 60_000 / SHARE:
                    await self.ask(liar)
        self.report(liar.count, "answers")

    async def ask(self, liar: Liar) -> None:
        client = rueda.AsyncClient("http://127.0.0.1:1", "ana", "canary")
        client._rest._direct = liar  # type: ignore[assignment]
        tokens = await self.call(client.login())
        if tokens is not None:
            life = 10 * 365 * 86_400 + 1
            for at in (tokens.expires, tokens.refresh_expires):
                self.assertTrue(-60 < at - time.time() <= life, at)
        await self.call(client.accounts())
        await self.call(client.account("1"))

        async def ticks() -> None:
            async for instrument in client.instruments():
                instrument.tick_size(rueda.Level(*ROWS[3]["B"][0]).price)

        await self.call(ticks())
        await self.call(client.snapshot(ID))
        await self.call(client.order_book(ID))
        for rows in (client.trades(ID), client.quotes(ID), client.statuses(ID), client.bars(ID)):
            await self.call(rows)
        await self.call(client.logout())
        await client.close()

    async def test_stream(self) -> None:
        r, count, most = random.Random(SHARE), 0, 40_000 / SHARE
        queue = EventQueue(100, rueda.Overflow.CONFLATE)

        async def post(path: str, body: dict[str, str]) -> Any:
            return TOKENS

        async def history(
            series: Series, after: int, last: int, epoch: str
        ) -> AsyncIterator[rueda.DataEvent]:
            event = rueda.decode(malform(r, json.dumps(ROWS[0])))
            if event is not None:
                yield event

        tokens = TokenKeeper(post, "u", "p", None, None)
        settings = Settings("s", False, None, False, "t", None)
        engine = Engine(Rest(["http://127.0.0.1:1"], "t", None), tokens, queue, settings)
        engine.history = history
        names = rueda.Subscriptions([ID], [ID], [ID], ["*|BYMA|*"], [ID], [ID + "|1m"])
        engine.desired.update(names.items())
        async with asyncio.timeout(900):
            while count < most:
                socket = Socket()
                if r.random() < 0.9:
                    socket.put(json.dumps(SUCCESS))
                for _ in range(r.randint(1, 50)):
                    text = json.dumps(r.choice(MESSAGES))
                    if r.random() < 0.75:
                        text, count = malform(r, text), count + 1
                    socket.put(text)
                await self.connect(engine, socket)
                while (entry := queue.take()) is not None:
                    read(entry.event)
        self.report(count, "messages")

    async def connect(self, engine: Engine, socket: Socket) -> None:
        """Runs a connection until it ends, or has read everything."""
        self.calls += 1
        link = Link(engine, socket, Tokens("a", scope="marketdata:history"))
        engine.changed = link.reconcile
        running = asyncio.create_task(link.run())
        end = asyncio.create_task(socket.read.wait())
        await asyncio.wait([running, end], return_when=asyncio.FIRST_COMPLETED)
        end.cancel()
        if not running.done():
            running.cancel()
        await asyncio.wait([running])
        if not running.cancelled():
            err = running.exception()
            assert err is not None
            self.judge(err)
        engine.changed = nothing
        engine.disconnected()


class Socket:
    """What a Link uses of a connection."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[str] = asyncio.Queue()
        self.read = asyncio.Event()  # everything
        self.transport = mock.Mock()

    def put(self, text: str) -> None:
        self.incoming.put_nowait(text)

    async def recv(self) -> str:
        if self.incoming.empty():
            await asyncio.sleep(0.002)  # what was received is handled
            self.read.set()
        return await self.incoming.get()

    async def send(self, text: str) -> None:
        json.loads(text)

    async def close(self) -> None:
        pass


class NoLifeTest(unittest.IsolatedAsyncioTestCase):
    async def test_renewals(self) -> None:
        """A stream renews tokens that live no time twice a second at most."""
        asked = 0

        async def post(path: str, body: dict[str, str]) -> Any:
            nonlocal asked
            asked += 1
            return {**TOKENS, "access_token": f"a{asked}", "expires_in": -1}

        tokens = TokenKeeper(post, "u", "p", None, None)
        settings = Settings("s", False, None, False, "t", None)
        queue = EventQueue(100, rueda.Overflow.CONFLATE)
        engine = Engine(Rest(["http://127.0.0.1:1"], "t", None), tokens, queue, settings)
        socket = Socket()
        socket.put(json.dumps(SUCCESS))
        running = asyncio.create_task(Link(engine, socket, await tokens.get()).run())
        await asyncio.sleep(2.5)
        running.cancel()
        await asyncio.wait([running])
        self.assertIn(asked, (4, 5, 6, 7))
