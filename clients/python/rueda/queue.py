"""The bounded queue between a stream and its program."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from typing import Optional

from .events import Event, Lost

Series = tuple[str, str]
"""A channel and an instrument; of bars with its interval: ("bars", "GGAL|BYMA|24hs|5m")."""

NUMBERED = frozenset(("trades", "status", "bars"))
"""Channels whose N has no gaps, and which a resume replays."""


class Overflow(enum.Enum):
    """What happens when events wait for a program. None of them loses a trade silently."""

    CONFLATE = "conflate"
    """The newest quote, book or summary replaces the one that waits. Trades, statuses and bars
    wait: when the queue is full, the client stops reading. If the gateway disconnects it, it
    resumes later and nothing is lost."""
    BLOCK = "block"
    """Every event waits, as trades do."""
    DROP = "drop"
    """As CONFLATE, but trades, statuses and bars are dropped when the queue is full. The exact
    range is reported as Lost."""


class Entry:
    """A waiting event. Without one it is a mark of progress, or was replaced."""

    __slots__ = ("event", "series", "n", "merged", "epoch", "position")

    def __init__(
        self, event: Optional[Event], series: Optional[Series] = None, n: int = 0
    ) -> None:
        self.event = event
        self.series = series
        self.n = n
        self.merged = False  # a book that replaces others: its state is made when it is taken
        self.epoch: Optional[str] = None  # of a mark
        self.position = ""


class EventQueue:
    """Events that the program has not taken. It belongs to one event loop."""

    def __init__(self, most: int, policy: Overflow) -> None:
        self.most = most
        self.policy = policy
        self.count = 0
        self.ready = asyncio.Event()
        self._space = asyncio.Event()
        self._waiting: deque[Entry] = deque()
        self._newest: dict[Series, Entry] = {}
        self._dropped: dict[Series, Lost] = {}

    @property
    def full(self) -> bool:
        """Whether the stream must wait before it adds more."""
        return self.count >= self.most and self.policy is not Overflow.DROP

    async def space(self) -> None:
        """Waits until the queue is not full."""
        while self.full:
            self._space.clear()
            await self._space.wait()

    def data(self, series: Series, n: int, event: Event) -> None:
        """Adds market data, as the policy says."""
        entry = Entry(event, series, n)
        if self.policy is not Overflow.BLOCK and series[0] not in NUMBERED:
            old = self._newest.get(series)
            if old is not None and old.event is not None:
                old.event = None
                self.count -= 1
                entry.merged = series[0] == "order_book"
            self._newest[series] = entry
        elif self.policy is Overflow.DROP and self.count >= self.most:
            lost = self._dropped.get(series)
            if lost is None:
                self._dropped[series] = Lost(series[0], series[1], n, n, "overflow")
            elif n:
                lost.last = n
            return
        dropped = self._dropped.pop(series, None)
        if dropped is not None:
            self.add(Entry(dropped))
        self.add(entry)

    def add(self, entry: Entry) -> None:
        """Adds an entry, whether or not there is space."""
        if len(self._waiting) > 2 * self.count + 1024:
            self._waiting = deque(
                e for e in self._waiting if e.event is not None or e.epoch is not None
            )
        self._waiting.append(entry)
        if entry.event is not None:
            self.count += 1
        self.ready.set()

    def take(self) -> Optional[Entry]:
        """Removes the next entry, None if there is none."""
        while self._waiting:
            entry = self._waiting.popleft()
            if entry.event is not None:
                self.count -= 1
                if self.count < self.most:
                    self._space.set()
                if entry.series is not None and self._newest.get(entry.series) is entry:
                    del self._newest[entry.series]
                return entry
            if entry.epoch is not None:
                return entry
        for series in self._dropped:
            return Entry(self._dropped.pop(series))
        self.ready.clear()
        return None
