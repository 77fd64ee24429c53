"""Decoding of messages, with the examples of docs/protocol.md."""

from __future__ import annotations

import json
import re
import time
import unittest
from decimal import Decimal
from pathlib import Path
from typing import Callable

import rueda
from rueda.events import parse, utc

PROTOCOL = Path(__file__).parents[3] / "docs" / "protocol.md"
TRADE = (
    '{"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":1042,"T":"2026-11-20T14:30:00.123456789Z",'
    '"D":184200,"P":7050.5,"Z":120,"X":"88123","G":"B","new":[1]}'
)


def decoded(text: str) -> rueda.DataEvent:
    event = rueda.decode(text)
    assert event is not None
    return event


class DecodeTest(unittest.TestCase):
    def test_trade(self) -> None:
        trade = decoded(TRADE)
        assert isinstance(trade, rueda.Trade)
        self.assertEqual(trade.price, Decimal("7050.5"))
        self.assertIsInstance(trade.size, Decimal)
        self.assertEqual((trade.id, trade.aggressor, trade.latency), ("88123", "B", 184200))
        self.assertEqual(trade.time_ns, 1795185000123456789)
        self.assertEqual(utc(trade.time), "2026-11-20T14:30:00.123456000Z")
        self.assertEqual(trade.raw["new"], [1])

    def test_examples_of_the_protocol(self) -> None:
        kinds: dict[str, int] = {}
        for line in PROTOCOL.read_text().splitlines():
            if re.match(r'\{"type":"[A-Z]",', line):
                event = decoded(line)
                kinds[type(event).__name__] = kinds.get(type(event).__name__, 0) + 1
                self.assertEqual(event.raw, parse(line))
        self.assertEqual(
            set(kinds), {"Trade", "Quote", "BookUpdate", "Status", "Summary", "Bar"}, kinds
        )
        self.assertGreaterEqual(kinds["Trade"], 3)  # with a cancel and a correction

    def test_exact(self) -> None:
        for text in ("0.00000001", "123456789012.345", "-1.5", "7050"):
            trade = decoded(TRADE.replace("7050.5", text))
            assert isinstance(trade, rueda.Trade)
            self.assertEqual(format(trade.price, "f"), text)

    def test_hostile(self) -> None:
        for text in (
            "",
            "[]",
            "7",
            "[" * 100_000,
            '{"type":"T"}',
            TRADE.replace("7050.5", '"7050.5"'),
            TRADE.replace("7050.5", "NaN"),
            TRADE.replace("7050.5", "true"),
            TRADE.replace("7050.5", "[1]"),
            TRADE.replace('"T":"2026', '"t":"2026'),
            '{"type":"O","I":"A|B|C","N":1,"T":"","R":true,"DL":5,"B":[[1]],"A":[],"K":1}',
            '{"type":"O","I":"A|B|C","N":1,"T":"","R":true,"DL":5,"B":7,"A":[],"K":1}',
        ):
            with self.subTest(text[:60]), self.assertRaises(rueda.ProtocolError):
                rueda.decode(text)
        for text in ('{"type":"Alive"}', '{"type":"??","N":1}', '{"action":"ping"}'):
            self.assertIsNone(rueda.decode(text))

    def test_speed(self) -> None:
        """The rate is at least half of that of json.loads alone, for each kind of message."""

        def rate(call: Callable[[str], object], text: str) -> float:
            began = time.thread_time()  # of the processor, which other programs use too
            for _ in range(5_000):
                call(text)
            return 5_000 / (time.thread_time() - began)

        examples = {}
        for line in PROTOCOL.read_text().splitlines():
            if re.match(r'\{"type":"[A-Z]",', line):
                examples[type(decoded(line)).__name__] = line
        for kind, text in examples.items():
            pairs = [(rate(rueda.decode, text), rate(json.loads, text)) for _ in range(7)]
            ratios = sorted(ours / alone for ours, alone in pairs)
            print(f"figure: {kind} at {ratios[3]:.2f} of json.loads, {pairs[3][0]:,.0f}/s")
            self.assertGreater(ratios[3], 0.5, kind)  # the median


if __name__ == "__main__":
    unittest.main()
