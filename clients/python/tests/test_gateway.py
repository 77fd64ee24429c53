"""Both clients with a gateway: streams, requests, restarts, checkpoints."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
import unittest
from decimal import Decimal
from typing import Any, Callable, Coroutine
from unittest import mock

import rueda

from .gateway import FAKE, GGAL, Gateway, GatewayTest


def one_time(part: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await part

    asyncio.run(limited())


class AsyncTest(GatewayTest):
    def client(self, **options: Any) -> rueda.AsyncClient:
        return rueda.AsyncClient(self.gateway.url, "demo", "demo", **options)

    def test_stream(self) -> None:
        async def part() -> None:
            async with self.client() as client:
                everything = [GGAL]
                client.subscribe(rueda.Subscriptions(everything, everything, everything,
                                                     everything, everything, [GGAL + "|1s"]))
                self.assertEqual(client.subscriptions().bars, [GGAL + "|1s"])
                kinds: set[type] = set()
                wanted = {rueda.Trade, rueda.Quote, rueda.BookUpdate, rueda.Status,
                          rueda.Summary, rueda.Bar, rueda.StateChange}
                async for event in client.events():
                    kinds.add(type(event))
                    if wanted <= kinds:
                        break
                health = client.health()
                self.assertEqual(health.state, rueda.State.LIVE)
                self.assertLess(health.instruments[GGAL].age, 30)
                self.assertTrue(health.instruments[GGAL].book)
                bid, ask = client.book(GGAL).best()
                assert bid and ask
                self.assertLess(bid.price, ask.price)
                client.unsubscribe(rueda.Subscriptions(books=everything))
                await asyncio.sleep(0.5)
                with self.assertRaises(rueda.InvalidBook):
                    client.book(GGAL)

        one_time(part())

    def test_restart_of_the_gateway(self) -> None:
        """Each trade once and in order, or reported as lost, across a restart."""
        async def part() -> None:
            async with self.client() as client:
                client.subscribe(rueda.Subscriptions(trades=[GGAL]))
                numbers: list[int] = []
                restarted = False
                async for event in client.events():
                    if isinstance(event, rueda.Trade):
                        numbers.append(event.n)
                    self.assertNotIsInstance(event, rueda.Lost)
                    if len(numbers) >= 5 and not restarted:
                        restarted, before = True, len(numbers)
                        await asyncio.to_thread(self.gateway.restart)
                    elif restarted and len(numbers) >= before + 5:
                        break
                first = numbers[0]
                self.assertEqual(numbers, list(range(first, first + len(numbers))))

        one_time(part())

    def test_checkpoint(self) -> None:
        async def part() -> None:
            async with self.client() as client:
                client.subscribe(rueda.Subscriptions(trades=[GGAL]))
                async for event in client.events():
                    if isinstance(event, rueda.Trade):
                        newest = event.n
                        if client.checkpoint().sequences:
                            break
                stored = rueda.Checkpoint.from_dict(client.checkpoint().to_dict())
                self.assertEqual(stored.sequences[f"trades {GGAL}"], newest - 1)
                async for event in client.events():  # the loop goes on: it has processed the trade
                    self.assertGreaterEqual(client.checkpoint().sequences[f"trades {GGAL}"], newest)
                    break
            await asyncio.sleep(0.5)
            async with self.client(resume=stored) as client:
                client.subscribe(rueda.Subscriptions(trades=[GGAL]))
                async for event in client.events():
                    if isinstance(event, rueda.Trade):
                        self.assertEqual((event.n, event.replayed), (newest, True))
                        break

        one_time(part())

    def test_faults(self) -> None:
        """A missing trade is filled from history, and a wrong checksum is repaired."""
        async def part() -> None:
            async with self.client() as client:
                client.subscribe(rueda.Subscriptions(trades=[FAKE], books=[FAKE]))
                invalid = recovered = repaired = False
                numbers: list[int] = []
                asked: set[str] = set()
                async for event in client.events():
                    if isinstance(event, rueda.Trade):
                        numbers.append(event.n)
                    elif isinstance(event, rueda.BookInvalid):
                        self.assertEqual(event.reason, "checksum")
                        invalid = True
                    elif isinstance(event, rueda.Recovered):
                        recovered = event.from_history
                    elif isinstance(event, rueda.BookUpdate):
                        repaired = repaired or invalid and event.snapshot
                    if len(numbers) == 1 and not asked:
                        asked.add("gap")
                        link = getattr(client._engine.changed, "__self__")
                        link._send(action="sim", fault="gap", instrument=FAKE)
                        link._send(action="sim", fault="bad_checksum", instrument=FAKE)
                    if recovered and repaired and len(numbers) > 5:
                        break
                self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))

        one_time(part())

    def test_terminal(self) -> None:
        async def part() -> None:
            async with rueda.AsyncClient(self.gateway.url, "demo", "wrong") as client:
                states = []
                with self.assertRaises(rueda.InvalidCredentials):
                    async for event in client.events():
                        if isinstance(event, rueda.StateChange):
                            states.append(event.state)
                self.assertEqual(states, [rueda.State.CONNECTING, rueda.State.CLOSED])
            async with self.client(session="same") as first, self.client(session="same") as second:
                async for _ in first.events():
                    if first.health().state is rueda.State.LIVE:
                        break
                taking = asyncio.create_task(second.take(1))
                with self.assertRaises(rueda.Replaced):
                    async for _ in first.events():
                        pass
                await taking

        one_time(part())

    def test_second_address(self) -> None:
        async def part() -> None:
            urls = ["http://127.0.0.1:9", self.gateway.url]
            async with rueda.AsyncClient(urls, "demo", "demo") as client:
                self.assertTrue((await client.get("/market/time"))["time"])
                async for _ in client.events():
                    if client.health().state is rueda.State.LIVE:
                        break
                self.assertEqual(client.health().url, self.gateway.url)

        one_time(part())

    def test_no_proxy_to_this_machine(self) -> None:
        async def part() -> None:
            nothing = "http://127.0.0.1:9"
            with mock.patch.dict(os.environ, http_proxy=nothing, https_proxy=nothing, no_proxy=""):
                async with self.client() as client:
                    async for event in client.events():
                        if isinstance(event, rueda.StateChange):
                            self.assertIsNone(event.error)
                        if client.health().state is rueda.State.LIVE:
                            break

        one_time(part())

    def test_moves(self) -> None:
        """No trade is lost when the gateway restarts and moves, by a list of URLs, and by a name
        with two addresses, of which the first is dead."""
        for by_name in (False, True):
            with self.subTest(by_name=by_name):
                gateway = Gateway()
                self.addCleanup(gateway.stop)
                one_time(self.follow_moves(gateway, by_name))

    async def follow_moves(self, gateway: Gateway, by_name: bool) -> None:
        port = gateway.url.rpartition(":")[2]
        places = ["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.3"]
        dead, addresses, asked = "127.0.0.9", [places[0]], 0
        real = socket.getaddrinfo

        def resolve(host: Any, *args: Any, **kwargs: Any) -> list[Any]:
            nonlocal asked
            if host != "api.broker.test":
                return list(real(host, *args, **kwargs))
            asked += 1
            return [x for a in [dead, *addresses] for x in real(a, *args, **kwargs)]

        urls = [f"http://{host}:{port}" for host in dict.fromkeys(places)]
        if by_name:
            urls = [f"http://api.broker.test:{port}"]
        numbers: list[int] = []
        place, live, following = 0, False, 5
        with mock.patch("socket.getaddrinfo", resolve), mock.patch.dict(os.environ, no_proxy="*"):
            async with rueda.AsyncClient(urls, "demo", "demo", insecure=True) as client:
                client.subscribe(rueda.Subscriptions(trades=[GGAL]))
                async for event in client.events():
                    self.assertNotIsInstance(event, rueda.Lost)
                    if isinstance(event, rueda.StateChange):
                        live = live or event.state is rueda.State.LIVE
                    elif isinstance(event, rueda.Trade):
                        numbers.append(event.n)
                    if not live or len(numbers) < following:
                        continue
                    place += 1
                    if place == len(places):
                        break
                    addresses = [places[place]]
                    await asyncio.to_thread(gateway.move, places[place])
                    live, following = False, len(numbers) + 5
                if not by_name:
                    self.assertEqual(client.health().url, urls[-1])
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        self.assertEqual(asked > 0, by_name)

    def test_requests(self) -> None:
        async def part() -> None:
            async with self.client() as client:
                accounts = [a async for a in client.accounts()]
                self.assertEqual((await client.account(accounts[0].id)), accounts[0])
                with self.assertRaises(rueda.NotFound) as caught:
                    await client.account("../other")
                self.assertEqual(rueda.reason_of(caught.exception), "not_found")
                found = [i async for i in client.instruments(market="BYMA", text="ggal")]
                self.assertIn(GGAL, [i.id for i in found])
                self.assertIsInstance(found[0].tick_size(Decimal(7000)), Decimal)
                (snapshot,) = await client.snapshot(GGAL)
                self.assertEqual(snapshot.instrument, GGAL)
                self.assertIsNotNone(snapshot.quote)
                self.assertTrue((await client.order_book(GGAL, 5)).valid)
                with self.assertRaises(ValueError):
                    await anext(client.bars(GGAL, "2m"))

        one_time(part())

    def test_history(self) -> None:
        async def part() -> None:
            async with self.client() as client:
                rows: list[rueda.Trade] = []
                while len(rows) < 5:
                    rows = [t async for t in client.trades(GGAL, rueda.Range(limit=5))]
                    await asyncio.sleep(0.2)
                self.assertEqual([t.n for t in rows], [1, 2, 3, 4, 5])
                later = rueda.Range(after=3, limit=2)
                self.assertEqual([t.n async for t in client.trades(GGAL, later)], [4, 5])
                newest = rueda.Range(newest=True, limit=1)
                self.assertGreaterEqual([t.n async for t in client.trades(GGAL, newest)][0], 5)
                since = rueda.Range(start=rows[1].time, end=rows[4].time)
                past = [t.n async for t in client.trades(GGAL, since)]
                self.assertTrue(set(past) <= {1, 2, 3, 4, 5}, past)
                self.assertTrue([q async for q in client.quotes(GGAL, rueda.Range(limit=1))])
                with self.assertRaises(rueda.EpochChanged):
                    await anext(client.trades(GGAL, rueda.Range(epoch="none")))

        one_time(part())

    def test_logout(self) -> None:
        async def part() -> None:
            async with self.client() as client:
                async for _ in client.events():
                    if client.health().state is rueda.State.LIVE:
                        break
                tokens = await client.login()
                self.assertGreater(tokens.expires, time.time())
                await client.logout()
                with self.assertRaises(rueda.LoginEnded):
                    async for _ in client.events():
                        pass

        one_time(part())


class SyncTest(GatewayTest):
    def test_stream_and_requests(self) -> None:
        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            client.subscribe(rueda.Subscriptions(trades=[GGAL], books=[GGAL]))
            numbers: list[int] = []
            while len(numbers) < 10:  # each loop continues where the one before was left
                for event in client.events(timeout=30):
                    if isinstance(event, rueda.Trade):
                        numbers.append(event.n)
                        break
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + 10)))
            self.assertEqual(client.checkpoint().sequences[f"trades {GGAL}"], numbers[-1] - 1)
            self.assertTrue(client.book(GGAL).valid)
            self.assertEqual(client.health().state, rueda.State.LIVE)
            past = list(client.trades(GGAL, rueda.Range(limit=130)))
            self.assertEqual([t.n for t in past], list(range(1, len(past) + 1)))
            self.assertTrue(list(client.accounts()))
            client.unsubscribe(rueda.Subscriptions(trades=[GGAL], books=[GGAL]))
            began = time.monotonic()
            for _ in client.events(timeout=0.5):
                self.assertLess(time.monotonic() - began, 20)
        client.close()
        with self.assertRaises(rueda.RuedaError):
            client.health()

    def test_closed_by_another_thread(self) -> None:
        for i in range(40):
            client = rueda.Client(self.gateway.url, "demo", "demo")
            client.subscribe(rueda.Subscriptions(quotes=["*|BYMA|24hs"]))
            closers = [threading.Timer(i / 100, client.close) for _ in range(2)]
            for closer in closers:
                closer.start()
            for _ in client.events():
                pass
            for closer in closers:
                closer.join(10)
                self.assertFalse(closer.is_alive())
            with self.assertRaisesRegex(rueda.RuedaError, "the client is closed"):
                client.health()

    def test_no_secret_is_logged(self) -> None:
        with self.assertLogs(level="DEBUG") as logs:
            logging.debug("at least one")
            with rueda.Client(self.gateway.url, "demo", "demo-pass") as client:
                with self.assertRaises(rueda.InvalidCredentials) as caught:
                    client.login()
            with rueda.Client(self.gateway.url, "demo", "demo") as client:
                tokens = client.login()
                for _ in client.events():
                    if client.health().state is rueda.State.LIVE:
                        break
        text = "\n".join(logs.output) + repr(caught.exception) + repr(tokens)
        for secret in (tokens.access[:16], tokens.refresh[:16], "demo-pass", "auth_token"):
            self.assertNotIn(secret, text)

    def test_errors(self) -> None:
        with self.assertRaises(ValueError):
            rueda.Client("http://broker.example")
        with rueda.Client(self.gateway.url, "demo", "wrong") as client:
            calls: list[Callable[[], object]] = [client.login, lambda: list(client.events())]
            for call in calls:
                with self.assertRaises(rueda.InvalidCredentials):
                    call()


if __name__ == "__main__":
    unittest.main()
