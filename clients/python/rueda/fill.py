"""Series without gaps: in order, each message once. A gap is filled from history."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Coroutine, Optional, Protocol

from .engine import Cursor, Engine
from .errors import ConnectionBroken, GatewayError, RuedaError
from .events import Lost, Recovered
from .queue import Series
from .subscription import Options

MAX_FILL = 1_000_000
MAX_HELD = 100_000  # messages that came meanwhile

log = logging.getLogger("rueda")


@dataclass
class _Fill:
    first: int
    last: int
    held: deque[tuple[Any, bool]] = field(default_factory=deque)  # what came after it


class Connection(Protocol):
    """What a Filler uses of a Link."""

    engine: Engine
    scope: list[str]
    sent: dict[Series, Options]
    rejected: set[Series]
    resumed: set[Series]
    replays: int

    def covered(self, series: Series, besides: Optional[Series] = None) -> bool:
        """Whether an item of the set includes a series."""

    def spawn(self, part: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine, whose error ends the connection."""

    async def space(self) -> None:
        """Waits while the queue is full."""


class Filler:
    """Orders the series of one connection."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self._engine = link.engine

    def numbered(self, series: Series, event: Any, snapshot: bool) -> None:
        """Handles an event. snapshot: a status that may repeat a number, or skip some."""
        cursor, n = self._engine.cursor(series), event.n
        if n <= cursor.floor and not snapshot:
            return
        if cursor.fill is not None:
            if len(cursor.fill.held) >= MAX_HELD:
                raise ConnectionBroken("messages are missing")
            cursor.fill.held.append((event, snapshot))
            return
        if cursor.known and n <= cursor.n:
            if snapshot:  # the state, not a new event
                self._engine.queue.data(series, 0, event)
            return
        stray = series[0] == "status" and not self._link.covered(series)
        if cursor.known and n != cursor.n + 1 and not stray:
            if snapshot:
                self._engine.report(Lost(*series, cursor.n + 1, n - 1, "not_replayed"))
            else:
                self.gap(series, cursor, n - 1)
                self.numbered(series, event, snapshot)  # it waits, or follows what is lost
                return
        self._deliver(series, cursor, event)

    def _deliver(self, series: Series, cursor: Cursor, event: Any) -> None:
        """Queues the next event of a series."""
        link = self._link
        cursor.n, cursor.known = event.n, True
        # What is subscribed by name is resumed if its number was known, or if the answer says so.
        resumed = cursor.first > 0 or cursor.to > 0 or series not in link.sent
        if link.replays > 0 and resumed and (cursor.to == 0 or event.n <= cursor.to):
            event.replayed = True
            cursor.first = cursor.first or event.n
        self._engine.queue.data(series, event.n, event)

    def gap(self, series: Series, cursor: Cursor, last: int) -> None:
        """Begins to fill a gap up to a number. Without the right to history, or if history does
        not have it, the error ends the connection, and the next one resumes after the newest."""
        first = cursor.n + 1
        if cursor.tried == first:
            if series not in self._link.rejected and series not in self._link.resumed:
                cursor.named = True
                raise ConnectionBroken("messages are missing")  # it is not resumed yet
            # Neither history nor a resume has it.
            self._engine.report(Lost(*series, first, last, "missing"))
            cursor.n = last
            return
        if "marketdata:history" not in self._link.scope or last - first >= MAX_FILL:
            cursor.tried, cursor.named = first, True
            raise ConnectionBroken("messages are missing")
        cursor.fill = _Fill(first, last)
        self._link.spawn(self._fill(series, cursor, cursor.fill))

    async def _fill(self, series: Series, cursor: Cursor, fill: _Fill) -> None:
        """Delivers what history has of a gap, and then what came after it."""
        assert self._engine.history is not None
        rows = self._engine.history(series, fill.first - 1, fill.last, self._engine.epoch)
        known = True
        try:
            async for event in rows:
                if not self._is_current(series, cursor, fill):
                    return
                if event.n == cursor.n + 1 and event.n <= fill.last:
                    event.replayed = True
                    self._deliver(series, cursor, event)
                    await self._link.space()
        except RuedaError as err:
            known = isinstance(err, GatewayError)  # otherwise the connection broke
            log.warning("gap not filled from history", exc_info=True)
        if not self._is_current(series, cursor, fill):
            return
        if cursor.n >= fill.first:
            self._engine.report(Recovered(*series, fill.first, cursor.n, True))
        if cursor.n < fill.last:
            cursor.named = True
            if known:
                cursor.tried = cursor.n + 1
            raise ConnectionBroken("messages are missing")
        cursor.fill = None
        while fill.held and cursor.fill is None:
            event, snapshot = fill.held.popleft()
            self.numbered(series, event, snapshot)
        if cursor.fill is not None:  # another gap
            cursor.fill.held.extend(fill.held)

    def _is_current(self, series: Series, cursor: Cursor, fill: _Fill) -> bool:
        """Whether the series is still in the set."""
        return self._engine.series.get(series) is cursor and cursor.fill is fill
