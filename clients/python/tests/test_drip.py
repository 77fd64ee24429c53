"""An answer that never ends is an error, although a part of it comes now and then."""

from __future__ import annotations

import asyncio
import unittest
from unittest import mock

import rueda.rest
from rueda.errors import ConnectionBroken
from rueda.rest import Rest


class DripTest(unittest.IsolatedAsyncioTestCase):
    async def drip(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.head)
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)
        except OSError:
            pass
        finally:
            writer.close()

    async def ends(self, head: bytes) -> None:
        self.head = head
        server = await asyncio.start_server(self.drip, "127.0.0.1", 0)
        self.addCleanup(server.close)
        rest = Rest([f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"], "t", None)
        with mock.patch.object(rueda.rest, "WHOLE_TIMEOUT", 0.1):
            with self.assertRaises(ConnectionBroken):
                async with asyncio.timeout(20):
                    await rest.post("/auth/token", {})

    async def test_body(self) -> None:
        await self.ends(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")

    async def test_head(self) -> None:
        await self.ends(b"HTTP/1.1 200 OK\r\nX-Never: ")
