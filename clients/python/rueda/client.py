"""The client for asyncio."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import ssl as ssl_module
import time
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, AsyncIterator, Awaitable, Callable, Mapping, Optional, Sequence, Union

from ._threads import check_process
from ._version import __version__
from .book import Book
from .connect import Connector
from .engine import Checkpoint, Engine, Settings
from .errors import InvalidBook, ProtocolError
from .events import (
    Bar,
    BookUpdate,
    Event,
    Lost,
    Moment,
    Quote,
    State,
    Status,
    Summary,
    Trade,
    build,
    utc,
)
from .history import (
    MAX_PAGE,
    AsyncRows,
    E,
    IncompleteHistory,
    lost_rows,
    rows_of,
    text_of,
    warn_of,
)
from .queue import NUMBERED, Entry, EventQueue, Overflow, Series
from .rest import Rest, parse_url, path_part
from .subscription import (
    ALL_LEVELS,
    CHANNELS,
    Subscriptions,
    check,
    check_interval,
    check_string,
    items_of,
    matches,
)
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
    start of that trading day in the market. A string is either of them in ISO 8601, such as
    2026-11-22 or 2026-11-22T10:00, where a time without a zone is in UTC. 7d stands for seven days
    ago by the clock of this machine, and s, m and h for shorter units. after: rows above this N of
    the current epoch. epoch: rows of this epoch, or an error EpochChanged. newest: the newest rows
    first. limit: number of rows, 0 for all. require_complete: lost rows are an error
    IncompleteHistory; None: the option of the client decides. ValueError: a datetime has no zone, a
    string is not a time, or a number is below 0. TypeError: start or end has another type.
    """

    start: Optional[Moment] = None
    end: Optional[Moment] = None
    after: Optional[int] = None
    epoch: str = ""
    newest: bool = False
    limit: int = 0
    require_complete: Optional[bool] = None

    def __post_init__(self) -> None:
        if self.start is not None:
            utc(self.start, "Range.start")
        if self.end is not None:
            utc(self.end, "Range.end")
        if self.limit < 0 or self.after is not None and self.after < 0:
            name = "limit" if self.limit < 0 else "after"
            raise ValueError(f"Range.{name} is {getattr(self, name)}: must be 0 or more")

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
SESSION = re.compile(r"[A-Za-z0-9._-]{1,36}")
IN_USE = "another loop reads the events of this client: make another client for a second loop"


class AsyncClient:
    """A user's access to a gateway, for one event loop of asyncio and one process.

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
        if queue < 1:
            raise ValueError(f"queue is {queue}: must be above 0")
        if heartbeat is not None and heartbeat <= 0:
            raise ValueError(f"heartbeat is {heartbeat}: must be above 0")
        if not isinstance(overflow, Overflow):
            raise TypeError(f"overflow is {overflow!r}: must be Overflow.CONFLATE, BLOCK or DROP")
        if session and not SESSION.fullmatch(session):
            raise ValueError(f"session is {session!r}: must be 1 to 36 of A-Z a-z 0-9 . _ -")
        if password and not username:
            raise ValueError("a password without a username")
        self._rest = Rest([parse_url(u, insecure) for u in urls], user_agent, ssl)
        self._tokens = TokenKeeper(self._rest.post, username, password, otp, tokens)
        self._rest.tokens = self._tokens
        self._queue = EventQueue(queue, overflow)
        session = session or "py-" + secrets.token_hex(8)
        settings = Settings(session, strict, heartbeat, compress, user_agent, ssl)
        self._engine = Engine(self._rest, self._tokens, self._queue, settings)
        self._engine.history = self._history
        self._engine.books_of = self._books_of
        self._require_complete = require_complete
        self._done = Checkpoint()
        self._current: Optional[Entry] = None  # in progress
        if resume is not None and not isinstance(resume, Checkpoint):
            raise TypeError(
                "resume must be a Checkpoint: write rueda.Checkpoint.from_dict(...) for JSON"
            )
        if resume is not None:
            self._engine.restore(resume)
            self._done = Checkpoint(resume.epoch, resume.position, dict(resume.sequences))
        self._task: Optional[asyncio.Task[None]] = None
        self._closed = False
        self._process = os.getpid()
        self.reader: Optional[object] = None  # the newest loop over events
        self.back: list[Entry] = []  # events that the synchronous client took but did not use
        self._waits = False  # a loop waits for an event

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

        It raises the error after which another attempt cannot help, such as LoginEnded. A later
        call continues where this one was left. RuntimeError: another loop over events is in use, or
        the client belongs to another event loop or process.
        """
        if self._waits:
            raise RuntimeError(IN_USE)
        reader = self.reader = object()
        while True:
            self.proceed(reader)
            self._waits = True
            try:
                entries = await self.take(1)
            finally:
                self._waits = False
            if not entries:
                return
            self.begin(entries[0])
            if entries[0].event is not None:
                yield entries[0].event

    def proceed(self, reader: object) -> None:
        """Records that a loop over events has processed what it took. RuntimeError: a newer loop
        has begun. events and the synchronous client use it."""
        if self.reader is not reader:
            raise RuntimeError(IN_USE)
        self.begin(None)

    async def take(self, most: int) -> list[Entry]:
        """Waits for events and removes up to a number from the queue; none: the end. events and
        the synchronous client use it."""
        check_process(self._process)
        if self.back:
            entries, self.back = self.back, []
            return entries
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(Connector(self._engine).run())
            self._task.add_done_callback(self._ended)
        if self._task is not None and self._task.get_loop() is not asyncio.get_running_loop():
            raise RuntimeError(
                "this client belongs to another event loop: make an AsyncClient in each asyncio.run"
            )
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

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # take raises it, unless the program has left the loop
        self._queue.ready.set()

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
        """Returns what the loop over events has processed, without the event in progress.

        An event is in progress until the loop asks for the next one. After a break, that is when
        the program calls events again.
        """
        return Checkpoint(self._done.epoch, self._done.position, dict(self._done.sequences))

    def subscribe(self, subscriptions: Subscriptions) -> None:
        """Adds to the set of subscriptions, and replaces the options of those that it has.

        It may be called at any time. ValueError: an identifier is not valid; nothing has changed.
        """
        items = items_of(subscriptions)
        self._engine.desired.update(items)
        self._engine.asked.update(name for channel, name in items if channel == "order_book")
        self._engine.changed()

    def unsubscribe(self, subscriptions: Subscriptions) -> None:
        """Removes from the set exactly these identifiers. Events that were sent may still come."""
        for item in items_of(subscriptions):
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
        InvalidBook: it is not known at present. ValueError: the book has never been in the set."""
        check("order_book", instrument)
        book = self._engine.books.get(instrument)
        if book is not None and book.valid:
            return book.copy()
        if not any(matches(asked, instrument) for asked in self._engine.asked):
            raise ValueError(
                f"{instrument!r} is not in the set of books: subscribe to it first"
            )
        raise InvalidBook("the book is not known at present")

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
        """Returns the newest trade, quote, summary and status of each instrument, as in
        snapshot("GGAL|BYMA|24hs", "AL30|BYMA|24hs")."""
        for instrument in instruments:
            check_string(instrument)
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
        at: Optional[Moment] = None,
    ) -> Book:
        """Returns the book of an instrument now, or at a time, as in Range."""
        check_string(instrument)
        query = {"instrument": instrument, "depth": str(depth)}
        if at is not None:
            query["at"] = utc(at, "at")
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
        check_string(instrument)
        check_interval(interval)
        return self._past(Bar, ("bars", f"{instrument}|{interval}"), rows)

    async def download(
        self,
        table: str,
        day: Union[date, str],
        file: Union[str, os.PathLike[str]],
        *,
        market: str = "",
        progress: Optional[Callable[[int], None]] = None,
    ) -> list[Lost]:
        """Writes a table of a closed day to a file, and returns the rows that the file lacks.

        table: trades, quotes, bars or depth. day: a date, of UTC for all markets, also as a string.
        file ends with .parquet, .csv or .ndjson. The file appears only when it is complete, and
        replaces an older one. A download that is cut off begins again, up to twice. progress is
        called with the number of bytes so far, on another thread. Lost rows are an
        IncompleteHistoryWarning or, with require_complete of the client, an error IncompleteHistory
        and no file. ValueError: the ending is not valid.
        """
        lost = await self.save_export(table, day, file, market, progress)
        warn_of(lost)
        return lost

    async def save_export(
        self,
        table: str,
        day: Union[date, str],
        file: Union[str, os.PathLike[str]],
        market: str,
        progress: Optional[Callable[[int], None]],
    ) -> list[Lost]:
        """Does what download does, without a warning. The synchronous client uses it."""
        path = Path(file)
        if path.suffix not in (".parquet", ".csv", ".ndjson"):
            raise ValueError(f"{path} does not end with .parquet, .csv or .ndjson")
        day = day if isinstance(day, str) else day.isoformat()
        query = {"type": table, "date": day, "format": path.suffix[1:]}
        if market:
            query["market"] = market
        lost: list[Lost] = []

        def accept(headers: Mapping[str, str]) -> None:
            lost[:] = lost_rows(table, headers.get("Rueda-Lost", ""))
            if lost and self._require_complete:
                raise IncompleteHistory(text_of(lost), lost)

        await self._rest.save("/market/export", query, path, accept, progress)
        return lost

    def _past(
        self, kind: type[E], series: Series, rows: Range, asked: bool = False
    ) -> AsyncRows[E]:
        if not isinstance(rows, Range):
            raise TypeError(f"rows must be a Range, such as Range(start='7d'), not {rows!r}")
        channel, instrument = series
        check_string(instrument)
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

    async def _books_of(self, pattern: str) -> AsyncIterator[str]:
        """Iterates over the listed instruments with a book that a pattern includes."""
        _, market, term = (part if part != "*" else "" for part in pattern.split("|"))
        async for i in self.instruments(market=market, term=term):
            if matches(pattern, i.id) and "order_book" in i.channels:
                yield i.id

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
