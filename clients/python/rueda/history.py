"""Rows of history, page after page, and the ranges of them that are lost."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from collections import deque
from types import FrameType
from typing import (
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    TypeVar,
)

from .errors import ProtocolError, RuedaError
from .events import DataEvent, Lost, build
from .queue import Series
from .values import BROKEN, printable, text, whole

E = TypeVar("E", bound=DataEvent)
MAX_PAGE = 10_000
PACKAGE = os.path.join(os.path.dirname(__file__), "")


class IncompleteHistory(RuedaError):
    """Rows of history that were requested are lost. lost has the ranges that are known so far."""

    def __init__(self, msg: str, lost: Sequence[Lost]) -> None:
        super().__init__(msg)
        self.lost = list(lost)


class IncompleteHistoryWarning(UserWarning):
    """Rows of history that were requested are lost, and the program has not called lost."""


class AsyncRows(AsyncIterator[E]):
    """Iterates over past rows, and reports which of them are lost.

    A program that has not called lost when a page with lost ranges is read gets one
    IncompleteHistoryWarning. With require_complete of Range or of the client, the iteration raises
    IncompleteHistory before the first row of that page instead.
    """

    def __init__(
        self,
        get: Callable[[Mapping[str, str]], Awaitable[Any]],
        member: str,
        query: Mapping[str, str],
        limit: int,
        kind: type[E],
        series: Series,
        complete: bool,
        asked: bool,
    ) -> None:
        self._get = get  # requests a page
        self._member = member  # of a page, with its rows
        self._query = query
        self._left = limit if limit > 0 else None  # rows to read; None: all
        self._kind = kind
        self._series = series
        self._complete = complete
        self._reading = asyncio.Lock()
        self._rows: deque[Any] = deque()  # read, and not yet returned
        self._cursor: Optional[str] = ""  # of the next page; None: there is none
        self._lost: list[Lost] = []
        self._found = False  # a page has had lost ranges that were not reported
        self._asked = asked  # the program knows of lost, or has been warned

    def __aiter__(self) -> AsyncRows[E]:
        return self

    async def __anext__(self) -> E:
        while (row := self._take()) is None:
            if not await self._more():
                raise StopAsyncIteration
        return row

    async def lost(self) -> list[Lost]:
        """Returns the ranges of rows that cannot be delivered, of the pages that were read.

        If none was read, it reads the first one, which has the rows that are no longer kept. Later
        pages can have more ranges.
        """
        self._asked = True
        if self._cursor == "":
            await self._more()
        return list(self._lost)

    async def aclose(self) -> None:
        """Ends the iteration."""
        self._end()

    def _end(self) -> None:
        self._rows.clear()
        self._cursor = None

    def _take(self) -> Optional[E]:
        """Returns the next row that was read, None if there is none."""
        if self._found:
            text = text_of(self._lost)
            if self._complete:
                raise IncompleteHistory(text, self._lost)
            self._found = False
            if not self._asked:
                self._asked = True  # one warning
                text += ". The method lost has all ranges. require_complete makes it an error"
                warnings.warn(text, IncompleteHistoryWarning, outside())
        try:
            m = self._rows.popleft()
        except IndexError:
            return None
        event = build(m) if isinstance(m, dict) else None
        if not isinstance(event, self._kind):
            raise ProtocolError("a row of history is not a message of its kind")
        return event

    async def _more(self) -> bool:
        """Reads the next page; False: there is none. After an error, the next call tries again."""
        async with self._reading:
            if self._rows:
                return True  # read for another task
            if self._cursor is None:
                return False
            size = MAX_PAGE if self._left is None else min(self._left, MAX_PAGE)
            query = {**self._query, "limit": str(size)}
            if self._cursor:
                query["cursor"] = self._cursor
            page = await self._get(query)
            rows, lost = rows_of(page, self._member), _lost_of(page, self._series)
            self._cursor = page.get("next_cursor") or None
            if self._left is not None:
                rows = rows[: self._left]
                self._left -= len(rows)
                if self._left == 0:
                    self._cursor = None
            self._rows.extend(rows)
            self._lost += lost
            self._found = self._found or bool(lost)
            return True


class Rows(Iterator[E]):
    """Iterates over past rows, and reports which of them are lost, as AsyncRows does."""

    def __init__(self, call: Callable[[Coroutine[Any, Any, Any]], Any], rows: AsyncRows[E]) -> None:
        self._call = call
        self._rows = rows

    def __iter__(self) -> Rows[E]:
        return self

    def __next__(self) -> E:
        while (row := self._rows._take()) is None:
            if not self._call(self._rows._more()):
                raise StopIteration
        return row

    def lost(self) -> list[Lost]:
        """Returns the ranges of rows that cannot be delivered, of the pages that were read.

        If none was read, it reads the first one, which has the rows that are no longer kept. Later
        pages can have more ranges.
        """
        found: list[Lost] = self._call(self._rows.lost())
        return found

    def close(self) -> None:
        """Ends the iteration."""
        self._rows._end()


def rows_of(page: Any, member: str) -> list[Any]:
    """Returns the rows of a page. An error is a ProtocolError."""
    rows = page.get(member) if isinstance(page, dict) else None
    if not isinstance(rows, list):
        raise ProtocolError(f"an answer without {member}")
    return rows


def _lost_of(page: Mapping[str, Any], series: Series) -> list[Lost]:
    try:
        return [_lost(series, v) for v in page.get("lost", ())]
    except BROKEN as err:
        raise ProtocolError("a page with a wrong list of what is lost") from err


def lost_rows(table: str, header: str) -> list[Lost]:
    """Returns the rows that an export lacks, from its header. ProtocolError: it is not valid."""
    try:
        return [_lost((table, _name(v)), v) for v in json.loads(header or "[]")]
    except BROKEN as err:
        raise ProtocolError("an export with a wrong list of what is lost") from err


def _lost(series: Series, v: Mapping[str, Any]) -> Lost:
    return Lost(
        *series,
        whole(v.get("from", 0)),
        whole(v["to"]) if "to" in v else None,
        printable(text(v["reason"])),
        printable(text(v.get("start", ""))),
        printable(text(v.get("end", ""))),
    )


def _name(v: Mapping[str, Any]) -> str:
    """Returns the instrument of a lost range of an export, for bars with their interval."""
    parts = (printable(v.get("instrument")), printable(v.get("interval")))
    return "|".join(part for part in parts if part)


def text_of(lost: Sequence[Lost]) -> str:
    """Returns the first lost range, for people."""
    v = lost[0]
    words = ["rows"]
    if v.first:
        words.append(f"from N {v.first}")
    if v.last is not None:
        words.append(f"to N {v.last}")
    if v.start:
        words.append(f"after {v.start}")
    if v.end:
        words.append(f"before {v.end}")
    more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
    where = f"{v.channel} {v.instrument}"
    return f"{where}: history is incomplete: lost {' '.join(words)} ({v.reason}){more}"


def warn_of(lost: Sequence[Lost]) -> None:
    """Warns of lost rows, if there are any."""
    if lost:
        warnings.warn(text_of(lost), IncompleteHistoryWarning, outside())


def outside() -> int:
    """Returns the level of warnings.warn for the line of the program that uses this package."""
    level = 1
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
        level += 1
    return level
