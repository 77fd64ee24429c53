"""Tokens: renewed once for all, at 80 % of their life, and stored before they are used."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Optional
from unittest import mock

import rueda
from rueda.errors import gateway_error
from rueda.tokens import TokenKeeper


class Server:
    """Answers requests for tokens."""

    def __init__(self, life: float = 100.0) -> None:
        self.life = life
        self.asked: list[dict[str, str]] = []
        self.error: Optional[Exception] = None

    async def post(self, path: str, body: dict[str, str]) -> Any:
        self.asked.append(dict(body))
        await asyncio.sleep(0.01)
        if self.error is not None:
            raise self.error
        n = len(self.asked)
        return {
            "access_token": f"a{n}",
            "expires_in": self.life,
            "refresh_token": f"r{n}",
            "refresh_expires_in": 1000,
            "scope": "marketdata:read",
        }


class KeeperTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store = rueda.FileStore(Path(folder.name, "tokens.json"))
        self.server = Server()

    def keeper(self, password: str = "p", store: bool = True) -> TokenKeeper:
        return TokenKeeper(self.server.post, "u", password, None, self.store if store else None)

    async def test_single_flight(self) -> None:
        keeper = self.keeper()
        first = asyncio.create_task(keeper.get())
        others = [asyncio.create_task(keeper.get()) for _ in range(20)]
        await asyncio.sleep(0)
        first.cancel()  # the others still get theirs
        self.assertEqual({t.access for t in await asyncio.gather(*others)}, {"a1"})
        self.assertEqual(len(self.server.asked), 1)
        self.assertTrue(80 <= keeper.until_renewal + 0.1 <= 85.2, keeper.until_renewal)
        self.assertEqual(self.store.load().refresh, keeper.current.refresh)

    async def test_end(self) -> None:
        self.store.save(rueda.Tokens("", 0.0, "stored", time.time() + 1000))
        await self.keeper().end()  # before its first use
        self.assertEqual(self.server.asked, [{"token": "stored"}])
        self.assertEqual(self.store.load().refresh, "")
        keeper = self.keeper()
        renewal = asyncio.create_task(keeper.get())
        await asyncio.sleep(0)
        await keeper.end()  # while tokens are renewed
        await renewal
        self.assertEqual(self.server.asked[2:], [{"token": "r2"}])
        self.assertEqual(self.store.load().refresh, "")
        await keeper.end()
        self.assertEqual(len(self.server.asked), 3)

    async def test_successor(self) -> None:
        keeper = self.keeper()
        await keeper.get()
        keeper.renew_within(0)
        await keeper.get()
        self.assertEqual(self.server.asked[1]["refresh_token"], "r1")
        with mock.patch.object(self.store, "save", side_effect=OSError("disk full")):
            keeper.renew_within(0)
            with self.assertLogs("rueda"):
                tokens = await keeper.get()
        self.assertEqual((tokens.access, tokens.refresh), ("a3", "r2"))  # r3 is not stored
        self.assertEqual(self.store.load().refresh, "r2")

    async def test_next_run(self) -> None:
        await self.keeper().get()
        self.assertEqual((await self.keeper(password="").get()).access, "a1")
        self.assertEqual(len(self.server.asked), 1)
        old = self.store.load()
        self.store.save(rueda.Tokens("a", time.time() + 5, old.refresh, old.refresh_expires))
        self.assertEqual((await self.keeper(password="").get()).access, "a2")
        self.assertEqual(self.server.asked[1]["grant_type"], "refresh_token")

    async def test_failures(self) -> None:
        keeper = self.keeper(store=False)
        await keeper.get()
        keeper.renew_within(0)
        self.server.error = gateway_error(503, "unavailable")
        self.assertEqual((await keeper.get()).access, "a1")  # still valid
        self.assertGreater(keeper.until_renewal, 5)
        keeper.renew_within(0)
        self.server.error = gateway_error(401, "invalid_refresh_token")
        with self.assertRaises(rueda.LoginEnded):
            await keeper.get()
        self.assertEqual(self.server.asked[-1]["grant_type"], "password")

    async def test_one_time_password(self) -> None:
        async def otp() -> str:
            self.server.error = None
            return "123456"

        keeper = TokenKeeper(self.server.post, "u", "p", otp, None)
        self.server.error = gateway_error(403, "mfa_required")
        await keeper.get()
        self.assertEqual(self.server.asked[1]["otp"], "123456")


class FileStoreTest(unittest.TestCase):
    def test_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            store = rueda.FileStore(Path(folder, "tokens.json"))
            self.assertEqual(store.load(), rueda.Tokens())
            tokens = rueda.Tokens("secret-a", 1.5e9, "secret-r", 1.6e9, "s")
            self.assertNotIn("secret", repr(tokens))
            store.save(tokens)
            self.assertEqual(store.load(), tokens)
            self.assertEqual(stat.S_IMODE(os.stat(store.path).st_mode), 0o600)
            for call in ("fsync", "replace"):
                with mock.patch(f"os.{call}", side_effect=OSError), self.assertRaises(OSError):
                    store.save(rueda.Tokens("b"))
                self.assertEqual(os.listdir(folder), ["tokens.json"])
                self.assertEqual(store.load(), tokens)
            go = json.loads(store.path.read_text())
            go["expires"] = "2026-11-20T14:30:00.123456789-03:00"
            store.path.write_text(json.dumps(go))
            self.assertAlmostEqual(store.load().expires, 1795195800.123456, 3)
            for text in ("", "[]", "{}", '{"access_token":"a"}'):
                store.path.write_text(text)
                with self.assertRaises(rueda.RuedaError):
                    store.load()


if __name__ == "__main__":
    unittest.main()
