"""The bounded queue and its policies."""

from __future__ import annotations

import asyncio
import unittest
from typing import Any

import rueda
from rueda.queue import Entry, EventQueue

TRADES = ("trades", "A|B|C")
QUOTES = ("quotes", "A|B|C")


def event(name: str) -> Any:
    return rueda.Notice(name)


def names(queue: EventQueue) -> list[Any]:
    found: list[Any] = []
    while (entry := queue.take()) is not None:
        if entry.event is not None:
            lost = isinstance(entry.event, rueda.Lost)
            found.append(entry.event if lost else getattr(entry.event, "reason"))
    return found


class QueueTest(unittest.IsolatedAsyncioTestCase):
    async def test_conflate(self) -> None:
        queue = EventQueue(2, rueda.Overflow.CONFLATE)
        for name in ("q1", "q2", "q3"):
            queue.data(QUOTES, 1, event(name))
        queue.data(TRADES, 1, event("t1"))
        self.assertTrue(queue.full)
        waiting = asyncio.create_task(queue.space())
        await asyncio.sleep(0)
        self.assertFalse(waiting.done())
        self.assertEqual(names(queue), ["q3", "t1"])
        await asyncio.wait_for(waiting, 1)
        queue.data(QUOTES, 4, event("q4"))
        self.assertEqual(names(queue), ["q4"])

    async def test_block(self) -> None:
        queue = EventQueue(2, rueda.Overflow.BLOCK)
        queue.data(QUOTES, 1, event("q1"))
        queue.data(QUOTES, 2, event("q2"))
        self.assertTrue(queue.full)
        self.assertEqual(names(queue), ["q1", "q2"])

    async def test_drop(self) -> None:
        queue = EventQueue(2, rueda.Overflow.DROP)
        for n in range(1, 6):
            queue.data(TRADES, n, event(f"t{n}"))
        self.assertFalse(queue.full)
        first = queue.take()
        assert first is not None
        queue.data(TRADES, 6, event("t6"))
        lost = rueda.Lost(*TRADES, 3, 5, "overflow")
        self.assertEqual(names(queue), ["t2", lost, "t6"])
        for n in range(7, 10):
            queue.data(TRADES, n, event(f"t{n}"))
        self.assertEqual(names(queue), ["t7", "t8", rueda.Lost(*TRADES, 9, 9, "overflow")])

    async def test_memory(self) -> None:
        """Replaced events do not stay in memory while the program takes nothing."""
        queue = EventQueue(10, rueda.Overflow.CONFLATE)
        mark = Entry(None)
        mark.epoch = "e"
        queue.add(mark)
        for n in range(50_000):
            queue.data(QUOTES, n, event(str(n)))
        self.assertLess(len(queue._waiting), 2_000)
        self.assertIs(queue.take(), mark)
        self.assertEqual(names(queue), ["49999"])


if __name__ == "__main__":
    unittest.main()
