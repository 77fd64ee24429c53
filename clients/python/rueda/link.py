"""One connection of the stream: authentication, subscriptions, liveness and messages."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime
from typing import Any, Coroutine, NamedTuple, Optional

from .book import Book
from .engine import Cursor, Engine, Seen
from .errors import (
    CLOSING,
    ChainError,
    ConnectionBroken,
    GatewayError,
    InvalidBook,
    ProtocolError,
    gateway_error,
    may_help,
)
from .events import (
    BookInvalid,
    BookUpdate,
    DataEvent,
    Delayed,
    Lost,
    Notice,
    Quote,
    Raw,
    Recovered,
    Rejected,
    State,
    Status,
    Summary,
    Trade,
    build,
    parse,
)
from .fill import Filler
from .queue import NUMBERED, Series
from .subscription import NO_OPTIONS, Options, is_pattern, matches
from .tokens import Tokens
from .values import BROKEN, MAX_LIFE, MAX_REQUESTED, printable, seconds, text, whole

DIAL_TIMEOUT = 15.0
WRITE_TIMEOUT = 10.0
STREAM_SILENCE = 25.0  # an Alive mark comes every 15 s
RESYNC_AGAIN = 5.0
REMOVE_PAUSE = 0.1  # between two messages that remove identifiers
UNAVAILABLE = 5.0  # until an identifier is requested again
MAX_ITEMS = 300  # in a message
MAX_ITEM_BYTES = 200  # of an item, with its place in resume
LAG = 1.0  # the program has blocked the event loop


class _Ask(NamedTuple):
    """A request without an answer."""

    items: list[Series]
    remove: bool = False
    resume: bool = False


class _Group(NamedTuple):
    """Items that one message can subscribe to."""

    options: Options
    resume: bool


class Link:
    """A connection. All of its state changes in one event loop, without an await in between."""

    def __init__(self, engine: Engine, socket: Any, tokens: Tokens) -> None:
        self.engine = engine
        self.socket = socket
        self.access = tokens.access
        self.scope = tokens.scope.split()
        self.ready = False
        self.sent: dict[Series, Options] = {}  # what the gateway was asked for
        self.rejected: set[Series] = set()
        self.resumed: set[Series] = set()  # the gateway has accepted to resume them
        self.asks: dict[int, _Ask] = {}
        self.replays = 0  # resumes that are not complete
        self._last_id = 0
        self._most = MAX_ITEMS
        self._error: Optional[GatewayError] = None  # which explains the close that follows
        self._began = self._arrived = self._data = time.monotonic()
        self._heartbeat = engine.settings.heartbeat or 10.0
        self._pinged: Optional[float] = None  # a ping without an answer
        self._pinged_at: Optional[float] = None  # the newest ping, for the round trip
        self._renewing = False
        self._removed = 0.0
        self._paused = 0.0
        self._again: Optional[float] = None  # when to compare the sets again
        self._resynced: dict[str, float] = {}
        self._behind = False  # the program has a full queue
        self._listed: dict[str, list[str]] = {}  # instruments of patterns of books
        self._listing = False
        self._outbox: asyncio.Queue[str] = asyncio.Queue()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._filler = Filler(self)

    async def run(self) -> None:
        """Authenticates and handles messages until the connection ends, always with an error."""
        slow = "strict" if self.engine.settings.strict else "conflate"
        self._send(
            action="auth_token",
            token=self.access,
            session=self.engine.settings.session,
            slow=slow,
        )
        for part in (self._read(), self._write(), self._watch()):
            self.spawn(part)
        graceful = False
        try:
            await self._failed
        except asyncio.CancelledError:
            graceful = True
            raise
        finally:
            while self._tasks:  # again, because a library may swallow it
                for task in self._tasks:
                    task.cancel()
                await asyncio.wait(self._tasks, timeout=1)
            await self._close(graceful)

    async def _close(self, graceful: bool) -> None:
        if graceful:
            try:
                async with asyncio.timeout(1):
                    await self.socket.close()
            except Exception:
                pass  # it is aborted below
        if self.socket.transport is not None:
            self.socket.transport.abort()

    def spawn(self, part: Coroutine[Any, Any, None]) -> None:
        """Runs a part of the connection, whose error ends it."""
        task = asyncio.create_task(part)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and not self._failed.done():
            self._failed.set_exception(task.exception() or AssertionError())

    async def _read(self) -> None:
        websockets_closed = _closed_class()
        while True:
            try:
                text = await self.socket.recv()
            except websockets_closed as err:
                raise self._close_error(err) from None
            except OSError as err:
                raise ConnectionBroken(f"connection broken: {err}") from None
            if not isinstance(text, str):
                raise ProtocolError("a message is binary")
            self._receive(text)
            await self.space()

    async def space(self) -> None:
        """Waits while the queue is full. The connection is not silent meanwhile: the program is
        slow."""
        if not self.engine.queue.full:
            return
        self._behind = True
        await self.engine.queue.space()
        self._behind = False
        self._arrived = self._data = time.monotonic()
        self._pinged = None

    def _close_error(self, err: Any) -> Exception:
        """Returns what ended a connection: the Error that the gateway sent before the close, or
        its close code, or the error of the network."""
        frame = err.rcvd
        if frame is None or frame.code < 4000:
            if self._error is not None and self._error.reason in CLOSING:
                return self._error  # its close frame was lost
            return ConnectionBroken(f"connection broken: {err}")
        code = frame.code - 4000
        if self._error is None or self._error.code != code:
            return gateway_error(code, frame.reason, closed=True)
        self._error.closed = True
        return self._error

    async def _write(self) -> None:
        """Sends what waits. If that fails, the reader reports what broke the connection."""
        while True:
            text = await self._outbox.get()
            try:
                async with asyncio.timeout(WRITE_TIMEOUT):
                    await self.socket.send(text)
            except TimeoutError:
                raise ConnectionBroken("connection broken: nothing can be sent") from None
            except (OSError, _closed_class()):
                return

    def _send(self, **members: Any) -> None:
        self._outbox.put_nowait(json.dumps(members, separators=(",", ":")))

    async def _watch(self) -> None:
        """Acts on what is due."""
        while True:
            wait = self._until_deadline()
            due = time.monotonic() + wait
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            if time.monotonic() - due > LAG:  # the program was busy, not the network
                self._arrived = self._data = time.monotonic()
                self._pinged = None
            elif not self._behind:
                self._run_deadlines()

    def _until_deadline(self) -> float:
        at = self._arrived + self._heartbeat
        if not self.ready:
            at = self._began + DIAL_TIMEOUT
        if self._pinged is not None:
            at = self._pinged + self._heartbeat
        if self.sent:
            at = min(at, self._data + STREAM_SILENCE)
        if self._again is not None:
            at = min(at, self._again)
        wait = at - time.monotonic()
        if self.ready and not self._renewing:
            wait = min(wait, self.engine.tokens.until_renewal)
        return max(wait, 0.01)

    def _run_deadlines(self) -> None:
        now = time.monotonic()
        if not self.ready and now - self._began >= DIAL_TIMEOUT:
            raise ConnectionBroken("the connection is silent")
        if self._pinged is not None and now - self._pinged >= self._heartbeat:
            raise ConnectionBroken("the connection is silent")
        if self.sent and now - self._data >= STREAM_SILENCE:
            raise ConnectionBroken("the stream is silent")
        if self.ready and self._pinged is None and now - self._arrived >= self._heartbeat:
            self._pinged = self._pinged_at = now
            self._send(action="ping")
        if self._again is not None and now >= self._again:
            self._again = None
            self.reconcile()
        if self.ready and not self._renewing and self.engine.tokens.until_renewal <= 0:
            self._renewing = True
            self.spawn(self._renew())

    async def _renew(self) -> None:
        """Renews the tokens, and then authenticates the connection again."""
        tokens = await self.engine.tokens.get()
        self._renewing = False
        self._wake.set()
        if tokens.access != self.access:
            self.access, self.scope = tokens.access, tokens.scope.split()
            self._send(action="auth_token", token=tokens.access)

    # Subscriptions.

    def reconcile(self) -> None:
        """Asks the gateway for what the program wants and does not have, and to stop the rest."""
        now = time.monotonic()
        if not self.ready:
            return
        self._wake.set()
        if now < self._paused:
            self._again = self._paused
            return
        want = dict(self.engine.desired)
        if want:
            for series, cursor in self.engine.series.items():
                if cursor.named:
                    want.setdefault(series, NO_OPTIONS)
        self._expand(want)
        remove = sorted(item for item in self.sent if item not in want)
        if remove and self.replays == 0:  # else it would end their replay; CaughtUp comes back
            if now - self._removed < REMOVE_PAUSE:
                self._again = self._removed + REMOVE_PAUSE
            else:
                self._removed = now
                for i in range(0, len(remove), self._most):
                    self._unsubscribe(remove[i : i + self._most])
        groups: dict[_Group, list[Series]] = {}
        for item, options in want.items():
            if self.sent.get(item) != options:
                cursor_of = self.engine.series.get(item)
                resume = item in self.engine.had or self.engine.restored
                resume = resume or cursor_of is not None and cursor_of.named
                groups.setdefault(_Group(options, resume), []).append(item)
        self.engine.restored = False
        for group, items in groups.items():
            items.sort()
            for i in range(0, len(items), self._most):
                self._subscribe(items[i : i + self._most], group)

    def _expand(self, want: dict[Series, Options]) -> None:
        """Replaces patterns of books by the listed instruments that match, because a gateway sends
        books of single instruments only. For patterns that are new on the connection, it requests
        the instruments first."""
        patterns = [s for s in want if s[0] == "order_book" and is_pattern(s[1])]
        missing = [name for _, name in patterns if name not in self._listed]
        if missing and not self._listing:
            self._listing = True
            self.spawn(self._list(missing))
        for pattern in patterns:
            options = want.pop(pattern)
            for name in self._listed.get(pattern[1], ()):
                want.setdefault(("order_book", name), options)

    async def _list(self, patterns: list[str]) -> None:
        """Lists the instruments of patterns of books, and subscribes to them."""
        assert self.engine.books_of is not None
        refused = ("unknown_instrument", "No listed instrument with a book matches", "")
        for name in patterns:
            try:
                self._listed[name] = [i async for i in self.engine.books_of(name)]
            except GatewayError as err:
                if may_help(err):
                    raise
                self._listed[name], refused = [], (err.reason, err.msg, err.hint)
            if not self._listed[name]:
                self.engine.report(Rejected("order_book", name, *refused))
        self._listing = False
        self.reconcile()
        self._settle()

    def _subscribe(self, items: list[Series], group: _Group) -> None:
        message: dict[str, Any] = {"action": "subscribe", "alive": True}
        resume: dict[str, Any] = {"epoch": self.engine.epoch}
        if self.engine.position:
            resume["position"] = self.engine.position
        replays = False
        for item in items:
            channel, name = item
            message.setdefault(channel, []).append(name)
            self.sent[item] = group.options
            self.rejected.discard(item)
            self.resumed.discard(item)
            if channel not in NUMBERED:
                continue
            replays = True
            cursor = self.engine.series.get(item)
            if cursor is not None and cursor.known and not is_pattern(name):
                resume.setdefault(channel, {})[name] = cursor.n
        if group.options.depth is not None:
            message["depth"] = group.options.depth
        if group.options.conflate is not None:
            message["conflate"] = group.options.conflate
        resumes = group.resume and replays and self.engine.epoch != "" and len(resume) > 1
        if resumes:
            message["resume"] = resume
            self.replays += 1
        self._ask(message, _Ask(items, resume=resumes))

    def _unsubscribe(self, items: list[Series]) -> None:
        message: dict[str, Any] = {"action": "unsubscribe"}
        for item in items:
            message.setdefault(item[0], []).append(item[1])
            self.sent.pop(item, None)
            self.rejected.discard(item)
            self.engine.had.discard(item)
        self._ask(message, _Ask(items, remove=True))

    def _ask(self, message: dict[str, Any], ask: _Ask) -> None:
        self._last_id += 1
        self.asks[self._last_id] = ask
        self._send(**message, id=self._last_id)

    def covered(self, series: Series, besides: Optional[Series] = None) -> bool:
        """Whether an item of the set includes a series. The item besides does not count."""
        if series in self.sent and series not in self.rejected and series != besides:
            return True
        return any(
            item[0] == series[0]
            and item != besides
            and item not in self.rejected
            and is_pattern(item[1])
            and matches(item[1], series[1])
            for item in self.sent
        )

    def _wanted(self, series: Series) -> bool:
        """Whether the desired set includes a series."""
        desired = self.engine.desired
        return series in desired or any(
            item[0] == series[0] and matches(item[1], series[1])
            for item in desired
            if is_pattern(item[1])
        )

    def _prune(self) -> None:
        """Forgets what the program has removed from the set since the last connection."""
        engine, wanted = self.engine, self._wanted
        if engine.restored:
            return  # the set may not be complete yet
        engine.had = {item for item in engine.had if item in engine.desired}
        for series in [s for s in engine.series if not wanted(s)]:
            engine.drop(series)
        engine.books = {i: b for i, b in engine.books.items() if wanted(("order_book", i))}

    def _forget(self, item: Series) -> None:
        """Drops the progress of what an item covered alone."""
        engine = self.engine
        for series in [s for s in engine.series if s[0] == item[0] and matches(item[1], s[1])]:
            # What is wanted may wait for a limit, and is resumed then.
            if not self.covered(series, item) and not self._wanted(series):
                engine.drop(series)
        if item[0] == "order_book":
            for instrument in [i for i in engine.books if matches(item[1], i)]:
                if not self.covered(("order_book", instrument), item):
                    del engine.books[instrument]

    def _resync(self, instrument: str) -> None:
        """Requests a new snapshot of a book."""
        now = time.monotonic()
        if now - self._resynced.get(instrument, -RESYNC_AGAIN) < RESYNC_AGAIN:
            return
        self._resynced[instrument] = now
        exact = ("order_book", instrument)
        names = [
            name
            for channel, name in self.sent
            if channel == "order_book"
            and (name == instrument if exact in self.sent else matches(name, instrument))
        ]
        if names:
            self._ask({"action": "resync", "order_book": names}, _Ask([]))

    # Messages.

    def _receive(self, text: str) -> None:
        """Handles a message. An error ends the connection."""
        now = self._arrived = time.monotonic()
        self._pinged = None
        pulse = self.engine.pulse
        pulse.link = now
        m = parse(text)
        event = build(m)
        if event is not None:
            pulse.data = self._data = now
            self._event(event, now)
            return
        kind = m.get("type")
        if m.get("action") == "ping":
            self._send(action="pong")
        elif m.get("action") == "pong":
            self._pong(m, now)
        elif isinstance(kind, str) and kind in _CONTROL:
            if kind in ("Alive", "Subscription", "CaughtUp"):
                pulse.data = self._data = now
            try:
                _CONTROL[kind](self, m)
            except BROKEN as err:
                raise ProtocolError(f"the message {kind} has a wrong member") from err

    def _event(self, event: DataEvent, now: float) -> None:
        instrument = event.instrument
        if "*" not in instrument:
            seen = self.engine.pulse.instruments.get(instrument)
            if seen is None:
                self.engine.pulse.instruments[instrument] = Seen(now)
            else:
                seen.at = now
        if event.__class__ is Trade:
            self._filler.numbered(("trades", instrument), event, False)
        elif isinstance(event, BookUpdate):
            self._book(event)
        elif isinstance(event, (Quote, Summary)):
            channel = "quotes" if isinstance(event, Quote) else "summary"
            cursor = self.engine.cursor((channel, instrument))
            if event.snapshot or event.n > cursor.n:
                cursor.n = event.n
                self.engine.queue.data((channel, instrument), event.n, event)
        elif isinstance(event, Status):
            self._status(event)
            self._filler.numbered(("status", instrument), event, event.snapshot)
        else:
            self._filler.numbered(("bars", f"{instrument}|{event.raw['IV']}"), event, False)

    def _status(self, event: Status) -> None:
        """Records a status. While a feed is interrupted, its books are not known."""
        engine, market = self.engine, event.instrument.split("|")[1:2]
        seen = engine.pulse.instruments.get(event.instrument)  # None: of the whole market
        if event.phase == "feed_down" and seen is None:
            engine.pulse.down.update(market)
        elif event.phase == "feed_up" and seen is None:
            engine.pulse.down.difference_update(market)
        elif event.phase not in ("gap", "feed_down", "feed_up") and seen is not None:
            seen.phase = event.phase
        if event.phase != "feed_down":
            return
        for instrument, book in engine.books.items():
            if book.valid and matches(event.instrument, instrument):
                book.invalidate()
                engine.report(BookInvalid(instrument, event.phase))

    def _book(self, update: BookUpdate) -> None:
        """Applies an update and queues it."""
        instrument = update.instrument
        book = self.engine.books.setdefault(instrument, Book())
        was = book.valid
        try:
            book.apply(update)
        except InvalidBook as err:
            if was or update.snapshot:
                reason = "chain" if isinstance(err, ChainError) else "checksum"
                self.engine.report(BookInvalid(instrument, reason))
            self._resync(instrument)
            return
        self.engine.queue.data(("order_book", instrument), update.n, update)

    def _pong(self, m: Raw, now: float) -> None:
        at = m.get("time")
        if self._pinged_at is None or not isinstance(at, str):
            return
        trip = now - self._pinged_at
        try:
            server = datetime.fromisoformat(at[:26] + "+00:00").timestamp()
        except ValueError:
            return
        self.engine.pulse.round_trip = trip
        self.engine.pulse.clock_offset = server - (time.time() - trip / 2)

    def _success(self, m: Raw) -> None:
        if self.ready:
            return  # a re-authentication
        self.ready = True
        if self.engine.settings.heartbeat is None:
            interval = seconds(m.get("heartbeat", {}).get("interval", 20), 60.0)
            self._heartbeat = max(interval / 2, 1.0)
        size = whole(m.get("limits", {}).get("message_bytes", 0))
        if size > 0:
            self._most = min(MAX_ITEMS, max(size // MAX_ITEM_BYTES, 1))
        self._prune()
        for cursor in self.engine.series.values():
            cursor.first = cursor.n + 1 if cursor.n > 0 else 0
        self.engine.enter(State.SYNCING)
        self.reconcile()
        self._settle()

    def _settle(self) -> None:
        """Enters LIVE when nothing is missing any more."""
        if not self.asks and self.replays == 0 and not self._listing:
            self.engine.bound = 0.0
            self.engine.enter(State.LIVE)

    def _acknowledged(self, m: Raw) -> None:
        ask = self.asks.pop(m.get("id", 0), None)
        engine = self.engine
        if text(m["epoch"]) != engine.epoch:
            engine.new_epoch(m["epoch"])
        if self.replays == 0:
            engine.move_to(text(m.get("position", "")))
        self._reject(m.get("rejected", ()), False)
        self._reject(m.get("removed", ()), True)
        for v in m.get("moved", ()):
            delay = int(seconds(v["delay"], MAX_LIFE))
            engine.report(Delayed(printable(v["channel"]), printable(v["instrument"]), delay))
        for channel, ranges in m.get("lost", {}).items():
            for name, v in ranges.items():
                first, last = whole(v.get("from", 0)), whole(v.get("to", 0))
                self._lost((channel, name), first, last, printable(text(v["reason"])))
        for channel, numbers in m.get("resumed", {}).items():
            for name, n in numbers.items():
                series = (channel, name)
                cursor = engine.series.get(series)
                if cursor is None and series in self.sent and not is_pattern(name):
                    cursor = engine.cursor(series)  # nothing of it was received so far
                if cursor is not None and whole(n) > cursor.n:
                    cursor.to = n
        for item in ask.items if ask is not None else ():
            if ask is not None and ask.remove:
                self._forget(item)
            elif item in self.sent and item not in self.rejected:
                engine.had.add(item)
                if ask is not None and ask.resume:
                    self.resumed.add(item)
        self._settle()

    def _reject(self, rows: Any, removed: bool) -> None:
        """Reports refused or removed identifiers."""
        for v in rows:
            item, reason = (text(v["channel"]), text(v["instrument"])), printable(text(v["reason"]))
            msg, hint = printable(v.get("msg")), printable(v.get("hint"))
            self.engine.report(
                Rejected(printable(item[0]), printable(item[1]), reason, msg, hint, removed)
            )
            if item not in self.sent:
                continue
            if reason == "unavailable":  # for the moment
                del self.sent[item]
                self._paused = self._again = time.monotonic() + UNAVAILABLE
                self._wake.set()
            else:
                self.rejected.add(item)

    def _lost(self, series: Series, first: int, last: int, reason: str) -> None:
        """Reports messages that the gateway cannot replay. With a new epoch, that was done
        already. A pattern stands for all its series."""
        engine = self.engine
        if not is_pattern(series[1]) or series[0] == "status" and series in engine.series:
            cursor = engine.series.get(series)
            if cursor is None:
                return
            self._recovered(series, cursor, cursor.n)
            first = max(first, cursor.n + 1)
            if cursor.known and (last == 0 or first <= last):
                engine.report(Lost(*series, first, last or None, reason))
            cursor.n = max(last, cursor.n)
            cursor.first = cursor.n + 1 if cursor.n > 0 else 0
            cursor.known, cursor.named = last > 0, False
            return
        for other, cursor in engine.series.items():
            if other[0] == series[0] and cursor.known and matches(series[1], other[1]):
                engine.report(Lost(*other, cursor.n + 1, None, reason))
                cursor.known = False

    def _caught_up(self, m: Raw) -> None:
        self.caught_up(text(m.get("position", "")))

    def caught_up(self, position: str) -> None:
        """Ends the replay of a resume. After the last one, what was missed is delivered."""
        self.replays -= 1
        if self.replays > 0:
            return
        self.replays = 0
        for series, cursor in list(self.engine.series.items()):
            if cursor.fill is None and cursor.known and cursor.n < cursor.to:
                self._filler.gap(series, cursor, cursor.to)
                continue
            self._recovered(series, cursor, cursor.to or cursor.n)
            cursor.first, cursor.to, cursor.named = 0, 0, False
        self.engine.move_to(position)
        self._settle()
        self.reconcile()

    def _recovered(self, series: Series, cursor: Cursor, last: int) -> None:
        if 0 < cursor.first <= last and cursor.fill is None:
            self.engine.report(Recovered(*series, cursor.first, last))

    def _alive(self, m: Raw) -> None:
        """Handles an Alive mark. It shows messages that were lost without a later one."""
        for channel, numbers in m.get("last", {}).items():
            for name, n in numbers.items():
                whole(n)
                instrument = name.rsplit("|", 1)[0] if channel == "bars" else name
                if not is_pattern(instrument):
                    seen = self.engine.pulse.instruments.setdefault(instrument, Seen(0.0))
                    seen.at = self._arrived
                series = (channel, name)
                if channel not in NUMBERED or not self.covered(series):
                    continue
                cursor = self.engine.cursor(series)
                if not cursor.known:
                    cursor.n, cursor.known = n, True
                elif n > cursor.n and cursor.fill is None and self.replays == 0:
                    self._filler.gap(series, cursor, n)
        if self.replays == 0:
            self.engine.move_to(text(m.get("position", "")))

    def _warning(self, m: Raw) -> None:
        reason = printable(text(m["reason"]))
        if reason == "shutting_down":
            wait = seconds(m.get("reconnect_in_ms", 0), 1000 * MAX_REQUESTED) / 1000
            self.engine.reconnect_at = time.monotonic() + wait
        elif reason == "token_expiring":
            self.engine.tokens.renew_within(seconds(m.get("expires_in", 0), MAX_LIFE) * 0.8)
            self._wake.set()
        self.engine.report(Notice(reason, printable(m.get("msg")), printable(m.get("hint"))))

    def _refused(self, m: Raw) -> None:
        """Handles an Error. One without an answer to a request explains the close that follows."""
        reason, msg = printable(text(m["reason"])), printable(m.get("msg"))
        hint = printable(m.get("hint"))
        wait = seconds(m.get("retry_after", 0), MAX_REQUESTED)
        again = m.get("retry") is True
        self._error = gateway_error(whole(m["code"]), reason, msg, hint, wait, retry=again)
        ask = self.asks.pop(m.get("id", 0), None)
        if "id" in m and reason == "internal":  # in place of a CaughtUp
            raise ConnectionBroken("the gateway could not complete a resume")
        if ask is None:
            if reason in CLOSING:
                return  # the close follows
            if not self.ready:
                raise self._error  # in place of a Success
            self.engine.report(Notice(reason, msg, hint))
            return
        rows = m.get("rejected")
        if again and rows is None:
            self._later(ask, wait)
            return
        self._reject(rows or (), False)
        if rows is None:
            for item in ask.items:
                if item in self.sent and item not in self.rejected:
                    self.rejected.add(item)
                    self.engine.report(Rejected(*item, reason, msg, hint))
        if ask.resume:
            self.caught_up("")
        else:
            self._settle()

    def _later(self, ask: _Ask, wait: float) -> None:
        """Makes a request again after a wait."""
        for item in ask.items:
            if ask.remove:
                self.sent[item] = Options(-1)  # unlike any wanted ones
            else:
                self.sent.pop(item, None)
        self._paused = self._again = time.monotonic() + max(wait, 1.0)
        self._wake.set()
        if ask.resume:
            self.replays -= 1


_CONTROL = {
    "Success": Link._success,
    "Subscription": Link._acknowledged,
    "CaughtUp": Link._caught_up,
    "Alive": Link._alive,
    "Warning": Link._warning,
    "Error": Link._refused,
}


def _closed_class() -> Any:
    import websockets.exceptions

    return websockets.exceptions.ConnectionClosed
