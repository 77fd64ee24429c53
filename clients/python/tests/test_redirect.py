"""A redirect is an error: passwords and tokens are sent to no other address."""

from __future__ import annotations

import asyncio
import unittest
from unittest import mock

import rueda
from rueda.connect import Connector
from rueda.engine import Engine, Settings
from rueda.errors import ConnectionBroken, GatewayError
from rueda.queue import EventQueue
from rueda.rest import Rest


class RedirectTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.led = 0  # connections to the other address
        elsewhere = await asyncio.start_server(self.count, "127.0.0.1", 0)
        self.addCleanup(elsewhere.close)
        self.other = elsewhere.sockets[0].getsockname()[1]
        gateway = await asyncio.start_server(self.redirect, "127.0.0.1", 0)
        self.addCleanup(gateway.close)
        port = gateway.sockets[0].getsockname()[1]
        self.rest = Rest([f"http://127.0.0.1:{port}"], "t", None)

    async def count(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.led += 1
        writer.close()

    async def redirect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        to = f"Location: ws://127.0.0.1:{self.other}/stream\r\n"
        writer.write(f"HTTP/1.1 302 Found\r\n{to}Content-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async def test_stream(self) -> None:
        queue = EventQueue(100, rueda.Overflow.CONFLATE)
        settings = Settings("s", False, None, False, "t", None)
        engine = Engine(self.rest, mock.Mock(), queue, settings)
        with self.assertRaises((ConnectionBroken, GatewayError)):
            await Connector(engine)._dial()
        self.assertEqual(self.led, 0)
