"""The client for programs without asyncio. It runs an AsyncClient on a thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from datetime import date
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Coroutine, Iterator, Optional, TypeVar, Union

from ._threads import check_process
from .book import Book
from .client import (
    ALL,
    IN_USE,
    Account,
    AsyncClient,
    Health,
    Instrument,
    InstrumentSnapshot,
    Range,
)
from .engine import Checkpoint
from .errors import RuedaError
from .events import Bar, Event, Lost, Moment, Quote, Status, Trade
from .history import Rows, warn_of
from .queue import Entry
from .subscription import ALL_LEVELS, Subscriptions
from .tokens import Tokens

T = TypeVar("T")
BATCH = 64  # events that change the thread together


class _Closed(RuedaError):
    """The client is closed."""


class Client:
    """A user's access to a gateway, with the arguments of AsyncClient.

    Its methods may be called from any thread, and wait for their result. One thread at a time may
    iterate over events. Close it, or use it in a with block: it has a thread. A process that was
    forked makes a client of its own: that of its parent raises RuntimeError there.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rueda", daemon=True)
        self._lock = threading.Lock()
        self._ended = False  # guarded by the lock
        self._waits = False  # a loop over events waits for one
        self._thread.start()

        async def make() -> AsyncClient:
            return AsyncClient(*args, **kwargs)

        try:
            self._client = self._call(make())
        except BaseException:
            self._end()
            raise

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        loop.run_forever()
        waiting = asyncio.all_tasks(loop)  # calls of other threads
        for task in waiting:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*waiting, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _end(self) -> None:
        with self._lock:  # no call is scheduled after the end of the loop
            if not self._ended:
                self._ended = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _call(self, part: Coroutine[Any, Any, T]) -> T:
        try:
            check_process(self._process)  # the thread, and perhaps the lock, are of that process
        except RuntimeError:
            part.close()
            raise
        with self._lock:
            if self._ended:
                part.close()
                raise _Closed("the client is closed")
            future = asyncio.run_coroutine_threadsafe(part, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise _Closed("the client is closed") from None
        except BaseException:
            future.cancel()
            raise

    def _do(self, call: Callable[[], T]) -> T:
        async def part() -> T:
            return call()

        return self._call(part())

    def _iterate(self, rows: AsyncIterator[T]) -> Iterator[T]:
        async def batch() -> tuple[list[T], Optional[Exception]]:
            found: list[T] = []
            try:
                async for row in rows:
                    found.append(row)
                    if len(found) == BATCH:
                        break
            except Exception as error:  # after the rows before it
                return found, error
            return found, None

        while True:
            found, error = self._call(batch())
            yield from found
            if error is not None:
                raise error
            if len(found) < BATCH:
                return

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream and the thread. In a process that was forked it does nothing."""
        if os.getpid() != self._process:
            return
        try:
            self._call(self._client.close())
        except _Closed:
            pass  # by another thread
        self._end()

    def events(self, timeout: Optional[float] = None) -> Iterator[Event]:
        """Iterates over the events of the stream, as AsyncClient.events does.

        With a timeout in seconds it ends when no event has come for that long. A later call
        continues.
        """
        check_process(self._process)
        with self._lock:
            if self._waits:
                raise RuntimeError(IN_USE)
            reader = self._client.reader = object()
        while True:
            self._client.proceed(reader)
            self._waits = True
            try:
                entries = self._call(self._take(timeout))
            except (TimeoutError, _Closed):
                return
            finally:
                self._waits = False
            if not entries:
                return
            for i, entry in enumerate(entries):
                self._client.begin(entry)
                if entry.event is not None:
                    try:
                        yield entry.event
                    except GeneratorExit:
                        self._client.back = entries[i + 1 :]
                        raise

    async def _take(self, timeout: Optional[float]) -> list[Entry]:
        async with asyncio.timeout(timeout):
            return await self._client.take(BATCH)

    def checkpoint(self) -> Checkpoint:
        """Returns what the loop over events has processed, as AsyncClient.checkpoint does."""
        return self._client.checkpoint()

    def subscribe(self, subscriptions: Subscriptions) -> None:
        """Adds to the set of subscriptions, as AsyncClient.subscribe does."""
        self._do(lambda: self._client.subscribe(subscriptions))

    def unsubscribe(self, subscriptions: Subscriptions) -> None:
        """Removes from the set exactly these identifiers."""
        self._do(lambda: self._client.unsubscribe(subscriptions))

    def subscriptions(self) -> Subscriptions:
        """Returns the set, sorted, without its options."""
        return self._do(self._client.subscriptions)

    def book(self, instrument: str) -> Book:
        """Returns a copy of the newest book of an instrument, as AsyncClient.book does."""
        return self._do(lambda: self._client.book(instrument))

    def health(self) -> Health:
        """Returns the health of the stream."""
        return self._do(self._client.health)

    def get(self, path: str, **query: str) -> Any:
        """Requests a path with the access token, and returns the data of the answer."""
        return self._call(self._client.get(path, **query))

    def login(self) -> Tokens:
        """Makes sure that there is a valid access token."""
        return self._call(self._client.login())

    def logout(self) -> None:
        """Ends the login with its tokens, and so the streams that use it."""
        self._call(self._client.logout())

    def accounts(self) -> Iterator[Account]:
        """Iterates over the accounts of the user."""
        return self._iterate(self._client.accounts())

    def account(self, account_id: str) -> Account:
        """Returns an account of the user."""
        return self._call(self._client.account(account_id))

    def instruments(
        self, *, market: str = "", term: str = "", kind: str = "", text: str = ""
    ) -> Iterator[Instrument]:
        """Iterates over the catalogue. text is a part of the symbol, name or ISIN."""
        return self._iterate(
            self._client.instruments(market=market, term=term, kind=kind, text=text)
        )

    def snapshot(self, *instruments: str) -> list[InstrumentSnapshot]:
        """Returns the newest trade, quote, summary and status of each instrument, as in
        snapshot("GGAL|BYMA|24hs", "AL30|BYMA|24hs")."""
        return self._call(self._client.snapshot(*instruments))

    def order_book(
        self,
        instrument: str,
        depth: int = ALL_LEVELS,
        at: Optional[Moment] = None,
    ) -> Book:
        """Returns the book of an instrument now, or at a time, as in Range."""
        return self._call(self._client.order_book(instrument, depth, at))

    def download(
        self,
        table: str,
        day: Union[date, str],
        file: Union[str, os.PathLike[str]],
        *,
        market: str = "",
        progress: Optional[Callable[[int], None]] = None,
    ) -> list[Lost]:
        """Writes a table of a closed day to a file, as AsyncClient.download does."""
        lost = self._call(self._client.save_export(table, day, file, market, progress))
        warn_of(lost)
        return lost

    def trades(self, instrument: str, rows: Range = ALL) -> Rows[Trade]:
        """Iterates over past trades, cancels and corrections in order of N."""
        return Rows(self._call, self._client.trades(instrument, rows))

    def quotes(self, instrument: str, rows: Range = ALL) -> Rows[Quote]:
        """Iterates over past quotes."""
        return Rows(self._call, self._client.quotes(instrument, rows))

    def statuses(self, instrument: str, rows: Range = ALL) -> Rows[Status]:
        """Iterates over past statuses."""
        return Rows(self._call, self._client.statuses(instrument, rows))

    def bars(self, instrument: str, interval: str = "1m", rows: Range = ALL) -> Rows[Bar]:
        """Iterates over past bars, with their revisions."""
        return Rows(self._call, self._client.bars(instrument, interval, rows))
