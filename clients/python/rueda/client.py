"""The client for asyncio."""

from __future__ import annotations

import asyncio
import secrets
import ssl as ssl_module
import time
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from types import TracebackType
from typing import Any, AsyncIterator, Awaitable, Mapping, Optional, Sequence, Union

from ._version import __version__
from .book import Book
from .engine import Checkpoint, Engine, Settings
from .errors import InvalidBook, ProtocolError
from .events import (
    Bar,
    BookUpdate,
    Event,
    Quote,
    State,
    Status,
    Summary,
    Trade,
    build,
    utc,
)
from .history import MAX_PAGE, AsyncRows, E, rows_of
from .queue import NUMBERED, Entry, EventQueue, Overflow, Series
from .rest import Rest, parse_url, path_part
from .subscription import ALL_LEVELS, CHANNELS, INTERVALS, Subscriptions
from .tokens import OTP, TokenKeeper, Tokens, TokenStore
from .values import BROKEN, number, printable, text, whole



@dataclass(frozen=True)
class InstrumentHealth:
    """Health of an instrument of which something was received.

    age: seconds since it was last known to be complete, by a message or an Alive mark. phase: the
    newest trading status, "" unknown. book: its book is valid.
    """

    age: float
    phase: str
    book: bool


@dataclass(frozen=True)
class Health:
    """What is alive: the connection (link), the stream with its feeds, and each instrument.

    link: seconds since anything arrived on the connection, None: there is none. stream: seconds
    since market data or an Alive mark arrived. down: markets whose feed is interrupted. round_trip
    and clock_offset (gateway minus this machine) are in seconds. queued: events that wait.
    """

    state: State
    url: str
    since: float
    link: Optional[float]
    stream: Optional[float]
    down: tuple[str, ...]
    instruments: Mapping[str, InstrumentHealth]
    round_trip: Optional[float]
    clock_offset: Optional[float]
    queued: int


@dataclass(frozen=True)
class Account:
    """An account of the user. raw has all members of the answer."""

    id: str
    number: str
    type: str
    status: str
    currency: str
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class Instrument:
    """An instrument of the catalogue. raw has all members of the answer."""

    id: str
    symbol: str
    market: str
    term: str
    name: str
    currency: str
    price_decimals: int
    size_decimals: int
    status: str
    channels: tuple[str, ...]
    raw: Mapping[str, Any]

    def tick_size(self, price: Decimal) -> Optional[Decimal]:
        """Returns the step between prices at a price, None if the gateway has stated none."""
        found = None
        for first, step in self.raw.get("tick", ()):
            if price >= first:
                found = Decimal(step)
        return found


@dataclass(frozen=True)
class InstrumentSnapshot:
    """The newest messages of an instrument. None: there is none, or the user has no right."""

    instrument: str
    trade: Optional[Trade] = None
    quote: Optional[Quote] = None
    summary: Optional[Summary] = None
    status: Optional[Status] = None


@dataclass(frozen=True)
class Range:
    """Selects rows of history; all by default.

    start (inclusive) and end (exclusive) are event times: a datetime with a zone, or a date for the
    start of that trading day in the market. after: rows above this N of the current epoch. epoch:
    rows of this epoch, or an error EpochChanged. newest: the newest rows first. limit: number of
    rows, 0 for all. require_complete: lost rows are an error IncompleteHistory; None: the option of
    the client decides. ValueError: a time has no zone. TypeError: it is no time.
    """

    start: Union[datetime, date, None] = None
    end: Union[datetime, date, None] = None
    after: Optional[int] = None
    epoch: str = ""
    newest: bool = False
    limit: int = 0
    require_complete: Optional[bool] = None

    def __post_init__(self) -> None:
        for at in (self.start, self.end):
            if at is not None:
                utc(at)

    def query(self, instrument: str) -> dict[str, str]:
        """Returns the parameters of a request."""
        page = min(self.limit, MAX_PAGE) if self.limit > 0 else MAX_PAGE
        q = {"instrument": instrument, "limit": str(page)}
        if self.start is not None:
            q["start"] = utc(self.start)
        if self.end is not None:
            q["end"] = utc(self.end)
        if self.after is not None:
            q["after_sequence"] = str(self.after)
        if self.epoch:
            q["epoch"] = self.epoch
        if self.newest:
            q["order"] = "desc"
        return q


ALL = Range()


class AsyncClient:
    """A user's access to a gateway, for one event loop.

    It connects to nothing until events or a request need it. The stream begins with the first event
    that is taken, and ends with close or the end of an async with block.

    urls: one or more addresses such as https://api.broker.example. otp returns a one-time password
    when a login needs one. tokens keeps tokens between runs, for example a FileStore; then no
    password is needed. session is the name of the connection: a client that connects takes over the
    connection with its name. strict asks the gateway to close a connection that reads too slowly,
    instead of conflating. queue is how many events may wait, overflow what happens to more.
    heartbeat is how many seconds the connection may be silent before the client sends a ping; None:
    half of the interval of the gateway's own pings. Without an answer in the same time again, it
    connects again. compress asks for compressed messages. ssl has the authorities of a broker, or a
    certificate of your own. insecure allows http:// to other machines. resume continues where an
    earlier client stopped. require_complete makes lost rows of history an error IncompleteHistory.
    user_agent is the name and version of the program. ValueError: a URL or option is not valid.
    """

    def __init__(
        self,
        urls: Union[str, Sequence[str]],
        username: str = "",
        password: str = "",
        *,
        otp: Optional[OTP] = None,
        tokens: Optional[TokenStore] = None,
        session: str = "",
        strict: bool = False,
        queue: int = 8192,
        overflow: Overflow = Overflow.CONFLATE,
        heartbeat: Optional[float] = None,
        compress: bool = False,
        ssl: Optional[ssl_module.SSLContext] = None,
        insecure: bool = False,
        resume: Optional[Checkpoint] = None,
        require_complete: bool = False,
        user_agent: str = "rueda-python/" + __version__,
    ) -> None:
        if isinstance(urls, str):
            urls = [urls]
        if not urls:
            raise ValueError("no URL")
        if queue < 1 or heartbeat is not None and heartbeat <= 0:
            raise ValueError("queue and heartbeat are above 0")
        self._rest = Rest([parse_url(u, insecure) for u in urls], user_agent, ssl)
        self._tokens = TokenKeeper(self._rest.post, username, password, otp, tokens)
        self._rest.tokens = self._tokens
        self._queue = EventQueue(queue, overflow)
        session = session or "py-" + secrets.token_hex(8)
        settings = Settings(session, strict, heartbeat, compress, user_agent, ssl)
        self._engine = Engine(self._rest, self._tokens, self._queue, settings)
        self._engine.history = self._history
        self._require_complete = require_complete
        self._done = Checkpoint()
        self._current: Optional[Entry] = None  # in progress
        if resume is not None:
            self._engine.restore(resume)
            self._done = Checkpoint(resume.epoch, resume.position, dict(resume.sequences))
        self._task: Optional[asyncio.Task[None]] = None
        self._closed = False

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the stream. Events that wait can still be taken."""
        self._closed = True
        while self._task is not None and not self._task.done():
            self._task.cancel()  # again, because a library may swallow it
            await asyncio.wait([self._task], timeout=1)
        await self._tokens.close()
        self._queue.ready.set()

    # The stream.

    async def events(self) -> AsyncIterator[Event]:
        """Iterates over the events of the stream, until the client is closed.

        It raises the GatewayError after which another attempt cannot help, such as LoginEnded. A
        later call continues where this one was left.
        """
        while True:
            self.begin(None)
            entries = await self.take(1)
            if not entries:
                return
            self.begin(entries[0])
            if entries[0].event is not None:
                yield entries[0].event

    async def take(self, most: int) -> list[Entry]:
        """Waits for events and removes up to a number from the queue; none: the end. events and
        the synchronous client use it."""
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._engine.run())
            self._task.add_done_callback(lambda _: self._queue.ready.set())
        taken: list[Entry] = []
        while True:
            while len(taken) < most:
                entry = self._queue.take()
                if entry is None:
                    break
                if not entry.merged or self._engine.materialize(entry):
                    taken.append(entry)
            if taken:
                return taken
            if self._task is None or self._task.cancelled():
                return taken
            if self._task.done():
                error = self._task.exception()
                if error is not None:
                    raise error
                return taken
            await self._queue.ready.wait()

    def begin(self, next_entry: Optional[Entry]) -> None:
        """Records for checkpoint that the program has processed the entry before. events and the
        synchronous client use it."""
        entry, self._current = self._current, next_entry
        if entry is None:
            return
        if entry.epoch is not None:
            if self._done.epoch != entry.epoch:
                self._done = Checkpoint(entry.epoch)
            self._done.position = entry.position or self._done.position
        elif entry.n > 0 and entry.series is not None and entry.series[0] in NUMBERED:
            self._done.sequences[f"{entry.series[0]} {entry.series[1]}"] = entry.n

    def checkpoint(self) -> Checkpoint:
        """Returns what the loop over events has processed, without the event in progress."""
        return Checkpoint(self._done.epoch, self._done.position, dict(self._done.sequences))

    def subscribe(self, subscriptions: Subscriptions) -> None:
        """Adds to the set of subscriptions, and replaces the options of those that it has.

        It may be called at any time. ValueError: an identifier is not valid; nothing has changed.
        """
        self._engine.desired.update(subscriptions.items())
        self._engine.changed()

    def unsubscribe(self, subscriptions: Subscriptions) -> None:
        """Removes from the set exactly these identifiers. Events that were sent may still come."""
        for item in subscriptions.items():
            self._engine.desired.pop(item, None)
        self._engine.changed()

    def subscriptions(self) -> Subscriptions:
        """Returns the set, sorted, without its options."""
        lists: dict[str, list[str]] = {channel: [] for channel in CHANNELS}
        for channel, name in sorted(self._engine.desired):
            lists[channel].append(name)
        return Subscriptions(
            lists["trades"],
            lists["quotes"],
            lists["order_book"],
            lists["status"],
            lists["summary"],
            lists["bars"],
        )

    def book(self, instrument: str) -> Book:
        """Returns a copy of the book of an instrument in the set, as new as what was received.
        InvalidBook: it is not known at present."""
        book = self._engine.books.get(instrument)
        if book is None or not book.valid:
            raise InvalidBook("the book is not known at present")
        return book.copy()

    def health(self) -> Health:
        """Returns the health of the stream."""
        now, pulse = time.monotonic(), self._engine.pulse

        def age(at: Optional[float]) -> Optional[float]:
            return None if at is None else now - at

        instruments = {}
        for name, seen in pulse.instruments.items():
            book = self._engine.books.get(name)
            valid = book is not None and book.valid
            instruments[name] = InstrumentHealth(now - seen.at, seen.phase, valid)
        return Health(
            pulse.state,
            pulse.url,
            now - pulse.since,
            age(pulse.link),
            age(pulse.data),
            tuple(sorted(pulse.down)),
            instruments,
            pulse.round_trip,
            pulse.clock_offset,
            self._queue.count,
        )

    # Requests.

    async def get(self, path: str, **query: str) -> Any:
        """Requests a path such as /market/status with the access token, and returns the data of
        the answer. Numbers with a point are Decimals."""
        return await self._rest.get(path, query)

    async def login(self) -> Tokens:
        """Makes sure that there is a valid access token. Other methods do that themselves."""
        return await self._tokens.get()

    async def logout(self) -> None:
        """Ends the login with its tokens, and so the streams that use it.

        It is the login of the store if the client has not used it yet.
        """
        await self._tokens.end()

    async def accounts(self) -> AsyncIterator[Account]:
        """Iterates over the accounts of the user."""
        async for v in self._pages("/broker/accounts", "accounts", {"limit": "1000"}):
            yield _account(v)

    async def account(self, account_id: str) -> Account:
        """Returns an account of the user."""
        return _account(await self._rest.get("/broker/accounts/" + path_part(account_id)))

    async def instruments(
        self, *, market: str = "", term: str = "", kind: str = "", text: str = ""
    ) -> AsyncIterator[Instrument]:
        """Iterates over the catalogue. text is a part of the symbol, name or ISIN."""
        query = {"market": market, "term": term, "kind": kind, "q": text, "limit": "1000"}
        query = {name: value for name, value in query.items() if value}
        async for v in self._pages("/market/instruments", "instruments", query):
            yield _instrument(v)

    async def snapshot(self, *instruments: str) -> list[InstrumentSnapshot]:
        """Returns the newest trade, quote, summary and status of each instrument."""
        v = await self._rest.get("/market/snapshot", {"instruments": ",".join(instruments)})
        found = []
        for row in rows_of(v, "instruments"):
            if not isinstance(row, dict):
                raise ProtocolError("an instrument without members")
            events = [build(m) for m in row.values() if isinstance(m, dict)]
            names = {Trade: "trade", Quote: "quote", Summary: "summary", Status: "status"}
            members: dict[str, Any] = {names[type(e)]: e for e in events if type(e) in names}
            names_of = (e.instrument for e in events if e)
            name = printable(row.get("instrument")) or next(names_of, "")
            found.append(InstrumentSnapshot(name, **members))
        return found

    async def order_book(
        self,
        instrument: str,
        depth: int = ALL_LEVELS,
        at: Union[datetime, date, None] = None,
    ) -> Book:
        """Returns the book of an instrument now, or at a time, as in Range."""
        query = {"instrument": instrument, "depth": str(depth)}
        if at is not None:
            query["at"] = utc(at)
        update = build(await self._rest.get("/market/book", query))
        if not isinstance(update, BookUpdate):
            raise ProtocolError("the answer is not a book")
        book = Book()
        book.apply(update)
        return book

    def trades(self, instrument: str, rows: Range = ALL) -> AsyncRows[Trade]:
        """Iterates over past trades, cancels and corrections in order of N.

        History needs the scope marketdata:history, and a gateway with a journal.
        """
        return self._past(Trade, ("trades", instrument), rows)

    def quotes(self, instrument: str, rows: Range = ALL) -> AsyncRows[Quote]:
        """Iterates over past quotes."""
        return self._past(Quote, ("quotes", instrument), rows)

    def statuses(self, instrument: str, rows: Range = ALL) -> AsyncRows[Status]:
        """Iterates over past statuses. Those of a market as a whole are of *|MARKET|*."""
        return self._past(Status, ("status", instrument), rows)

    def bars(self, instrument: str, interval: str = "1m", rows: Range = ALL) -> AsyncRows[Bar]:
        """Iterates over past bars, with their revisions."""
        if interval not in INTERVALS:
            raise ValueError(f"interval {interval!r}: it is one of {', '.join(INTERVALS)}")
        return self._past(Bar, ("bars", f"{instrument}|{interval}"), rows)

    def _past(
        self, kind: type[E], series: Series, rows: Range, asked: bool = False
    ) -> AsyncRows[E]:
        channel, instrument = series
        interval = {}
        if channel == "bars":
            instrument, _, interval["interval"] = instrument.rpartition("|")
        member = "statuses" if channel == "status" else channel
        complete = rows.require_complete
        if complete is None:
            complete = self._require_complete

        def get(query: Mapping[str, str]) -> Awaitable[Any]:
            return self._rest.get("/market/" + member, query)

        query = {**rows.query(instrument), **interval}
        return AsyncRows(get, member, query, rows.limit, kind, series, complete, asked)

    async def _pages(
        self, path: str, name: str, query: Mapping[str, str]
    ) -> AsyncIterator[Any]:
        """Iterates over the rows of a list that comes in pages."""
        cursor = ""
        while True:
            page = await self._rest.get(path, {**query, "cursor": cursor} if cursor else query)
            for row in rows_of(page, name):
                yield row
            cursor = page.get("next_cursor", "")
            if not cursor:
                return

    def _history(
        self, series: Series, after: int, last: int, epoch: str
    ) -> AsyncIterator[Any]:
        """Iterates over the messages of a gap. The stream reports those that are lost."""
        kind: type[Any] = {"bars": Bar, "status": Status}.get(series[0], Trade)
        rows = Range(after=after, epoch=epoch, limit=last - after, require_complete=False)
        return self._past(kind, series, rows, asked=True)


def _account(v: Any) -> Account:
    try:
        return Account(
            text(v["account_id"]),
            text(v["number"]),
            text(v["type"]),
            text(v["status"]),
            text(v["currency"]),
            v,
        )
    except BROKEN as err:
        raise ProtocolError("an account without a member") from err


def _instrument(v: Any) -> Instrument:
    try:
        for price, step in v.get("tick", ()):
            number(price), number(step)
        return Instrument(
            text(v["instrument"]),
            text(v["symbol"]),
            text(v["market"]),
            text(v["term"]),
            text(v.get("name", "")),
            text(v.get("currency", "")),
            whole(v.get("price_decimals", 0)),
            whole(v.get("size_decimals", 0)),
            text(v.get("status", "")),
            tuple(map(text, v.get("channels", ()))),
            v,
        )
    except BROKEN as err:
        raise ProtocolError("an instrument without a member") from err
