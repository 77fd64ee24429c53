"""Keeps the stream connected. It has what is known over all connections."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import random
import ssl
import time
import urllib.parse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from .book import Book
from .errors import ConnectionBroken, GatewayError, Replaced, reason_of, response_error
from .events import BookInvalid, BookUpdate, Event, Lost, State, StateChange
from .queue import NUMBERED, Entry, EventQueue, Series
from .subscription import Options, check
from .rest import Rest, is_loopback
from .tokens import TokenKeeper

if TYPE_CHECKING:
    from .link import Link

FIRST_BACKOFF = 0.5
OWN_DELAY = 60.0  # how long after a connection broke off its messages may reach the gateway
MAX_BACKOFF = 30.0
DIAL_TIMEOUT = 15.0
MAX_MESSAGE = 16 << 20

# At the level debug, websockets logs what is sent: tokens.
_quiet = logging.getLogger("rueda.websockets")
_quiet.setLevel(logging.INFO)


@dataclass
class Settings:
    """Options of a stream."""

    session: str
    strict: bool
    heartbeat: Optional[float]
    compress: bool
    agent: str
    ssl: Optional[ssl.SSLContext]


@dataclass
class Cursor:
    """Progress in a series without gaps."""

    floor: int = 0  # newest N of an earlier subscription, up to which nothing comes again
    n: int = 0  # newest N
    known: bool = False  # the next N must follow n
    since: int = 0  # n at the beginning of the connection
    to: int = 0  # N at which the replay of the connection ends; 0: unknown
    fill: Optional[Any] = None  # a gap that is being filled
    tried: int = 0  # first N of a gap that history did not fill
    named: bool = False  # the next connection names the instrument, to resume after n


@dataclass
class Seen:
    """What is known of an instrument."""

    at: float
    phase: str = ""


@dataclass
class Pulse:
    """What is known of the health, with times of the monotonic clock."""

    state: State = State.IDLE
    url: str = ""
    since: float = field(default_factory=time.monotonic)
    link: Optional[float] = None
    data: Optional[float] = None
    down: set[str] = field(default_factory=set)
    instruments: dict[str, Seen] = field(default_factory=dict)
    round_trip: Optional[float] = None
    clock_offset: Optional[float] = None


@dataclass
class Checkpoint:
    """What a program has processed. Stored on disk, it lets a later run continue without a loss.

    sequences has the newest N by series, such as "trades GGAL|BYMA|24hs", as in the Go client.
    """

    epoch: str = ""
    position: str = ""
    sequences: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Returns it for JSON."""
        return {"epoch": self.epoch, "position": self.position, "sequences": self.sequences}

    @classmethod
    def from_dict(cls, v: Mapping[str, Any]) -> Checkpoint:
        """Returns one from JSON. ValueError: it is not valid."""
        epoch, position, sequences = v.get("epoch"), v.get("position"), v.get("sequences")
        if not isinstance(epoch, str) or not isinstance(position, str):
            raise ValueError("a checkpoint has an epoch and a position")
        if not isinstance(sequences, dict) or not all(
            isinstance(n, int) and n >= 0 for n in sequences.values()
        ):
            raise ValueError("a checkpoint has sequences")
        return cls(epoch, position, dict(sequences))


class Engine:
    """Connects again and again. It belongs to one event loop."""

    def __init__(
        self, rest: Rest, tokens: TokenKeeper, queue: EventQueue, settings: Settings
    ) -> None:
        self.rest = rest
        self.tokens = tokens
        self.queue = queue
        self.settings = settings
        self.desired: dict[Series, Options] = {}
        self.books: dict[str, Book] = {}
        self.pulse = Pulse()
        self.series: dict[Series, Cursor] = {}
        self.past: dict[Series, int] = {}  # newest N of series that the set has no more
        self.had: set[Series] = set()  # the next connection resumes them
        self.restored = False  # from a checkpoint: the next connection resumes everything
        self.epoch = ""
        self.position = ""
        self.bound = 0.0  # of the next wait
        self.reconnect_at = 0.0  # as the gateway has asked; 0: it has not
        self.broke: Optional[float] = None  # when a connection ended that the gateway left open
        self.link: Optional[Link] = None
        self.history: Optional[Callable[..., Any]] = None

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continues from a checkpoint. ValueError: it has an unknown series."""
        for name, n in checkpoint.sequences.items():
            channel, _, instrument = name.partition(" ")
            if channel not in NUMBERED:
                raise ValueError(f"series {name!r} of the checkpoint")
            check(channel, instrument)
            self.series[channel, instrument] = Cursor(n=n, known=True)
        self.epoch, self.position = checkpoint.epoch, checkpoint.position
        self.restored = checkpoint.epoch != ""

    def changed(self) -> None:
        """Sends the difference after a change of the desired set."""
        if self.link is not None:
            self.link.reconcile()

    def cursor(self, series: Series) -> Cursor:
        """Returns the progress of a series."""
        found = self.series.get(series)
        if found is None:
            found = self.series[series] = Cursor(floor=self.past.get(series, 0))
        return found

    def drop(self, series: Series) -> None:
        """Forgets the progress of a series that the set has no more, except what was delivered: a
        resume by position may repeat it."""
        cursor = self.series.pop(series)
        n = max(cursor.n, cursor.floor)
        if n > 0 and series[0] in NUMBERED:
            self.past[series] = n

    def report(self, event: Event) -> None:
        """Queues an event of the client itself."""
        self.queue.add(Entry(event))

    def enter(self, state: State, error: Optional[BaseException] = None, wait: float = 0.0) -> None:
        """Reports a state."""
        if state is self.pulse.state and error is None:
            return
        url = self.rest.url
        self.pulse.state, self.pulse.url, self.pulse.since = state, url, time.monotonic()
        self.report(StateChange(state, url, error, wait))

    async def run(self) -> None:
        """Connects until it is cancelled, or raises what another attempt cannot change."""
        try:
            while True:
                error = await self._connect()
                self._disconnected()
                own = self._replaced_by_own(error)
                if isinstance(error, GatewayError) and error.final and not own:
                    self.enter(State.CLOSED, error)
                    raise error
                wait = self._pause(error)
                self.enter(State.WAITING, error, wait)
                self.rest.at += 1
                await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self._disconnected()
            self.enter(State.IDLE)
            raise

    def _replaced_by_own(self, error: BaseException) -> bool:
        """Notes how a connection ended. Returns whether an earlier connection of this client may
        have taken over the session: it broke off, and the network delivered its token late."""
        broke, self.broke = self.broke, None
        if not isinstance(error, GatewayError) or not error.closed:
            self.broke = time.monotonic()
        recent = broke is not None and time.monotonic() - broke < OWN_DELAY
        return isinstance(error, Replaced) and recent

    def _pause(self, error: BaseException) -> float:
        """Returns how long to wait: as the gateway has asked, or a random part of a bound that
        doubles. So clients of a gateway that was down do not all come at once."""
        until = self.reconnect_at - time.monotonic()
        self.reconnect_at = 0.0
        if until > 0:
            return until
        self.bound = min(max(2 * self.bound, FIRST_BACKOFF), MAX_BACKOFF)
        asked = error.retry_after if isinstance(error, GatewayError) else 0.0
        return random.random() * self.bound + asked

    async def _connect(self) -> BaseException:
        """Makes one connection, and returns what has ended it."""
        from .link import Link

        self.enter(State.CONNECTING)
        access = ""
        try:
            tokens = await self.tokens.get()
            access = tokens.access
            socket = await self._dial()
            self.enter(State.AUTHENTICATING)
            self.link = Link(self, socket, tokens)
            await self.link.run()
        except Exception as error:
            if reason_of(error) in ("invalid_token", "token_expired"):
                self.tokens.invalidate(access)
            return error
        finally:
            self.link = None
        raise AssertionError("a connection ends with an error")

    async def _dial(self) -> Any:
        """Opens the stream, with what the legacy and the current websockets have in common."""
        websockets: Any = importlib.import_module("websockets")
        exceptions: Any = importlib.import_module("websockets.exceptions")
        url = "ws" + self.rest.url.removeprefix("http") + "/stream"
        options: dict[str, Any] = {}
        if url.startswith("wss:") and self.settings.ssl is not None:
            options["ssl"] = self.settings.ssl
        host = urllib.parse.urlsplit(url).hostname or ""
        if is_loopback(host) and "proxy" in inspect.signature(websockets.connect).parameters:
            options["proxy"] = None  # websockets 15 or later takes that of the environment
        try:
            async with asyncio.timeout(DIAL_TIMEOUT):
                return await _without_redirects(websockets.connect, exceptions)(
                    url,
                    compression="deflate" if self.settings.compress else None,
                    open_timeout=None,
                    close_timeout=1,
                    ping_interval=None,  # the gateway's own pings are answered
                    max_size=MAX_MESSAGE,
                    max_queue=256,
                    logger=_quiet,
                    **options,
                )
        except (OSError, EOFError) as err:
            raise ConnectionBroken(f"connection broken: {err or 'no answer'}") from err
        except exceptions.InvalidHandshake as err:
            raise _refused(err) from err
        except exceptions.WebSocketException as err:
            raise ConnectionBroken(f"connection broken: {err}") from err

    def _disconnected(self) -> None:
        """Forgets what ends with a connection. Books are not known until their next snapshot."""
        for cursor in self.series.values():
            cursor.fill, cursor.to = None, 0
        self.pulse.link = self.pulse.data = None
        for instrument, book in self.books.items():
            if book.valid:
                book.invalidate()
                self.report(BookInvalid(instrument, "disconnected"))

    def new_epoch(self, epoch: str) -> None:
        """Begins a new series of numbers. What was missed in the old one is lost."""
        if self.epoch:
            for (channel, instrument), cursor in self.series.items():
                if cursor.known:
                    self.report(Lost(channel, instrument, cursor.n + 1, None, "epoch_changed"))
            self.series.clear()
            self.past.clear()
            self.position = ""
        self.epoch = epoch
        self._mark("")

    def move_to(self, position: str) -> None:
        """Stores a position from which the next connection can resume."""
        if position:
            self.position = position
            self._mark(position)

    def _mark(self, position: str) -> None:
        mark = Entry(None)
        mark.epoch, mark.position = self.epoch, position
        self.queue.add(mark)

    def materialize(self, entry: Entry) -> bool:
        """Gives an update of a book that replaces others its state. False: the book has changed
        since, and another event follows."""
        update = entry.event
        assert isinstance(update, BookUpdate)
        book = self.books.get(update.instrument)
        if book is None or not book.valid or book.n != update.n:
            return False
        update.snapshot, update.depth, update.previous = True, book.depth, 0
        update.bids, update.asks = book.bids(), book.asks()
        return True


def _without_redirects(connect: Any, exceptions: Any) -> Any:
    """Returns connect of websockets, of which a redirect is an error: the token, which is the first
    message, is sent to no other address."""

    def handle_redirect(_: Any, uri: str) -> None:  # of the legacy websockets
        raise exceptions.SecurityError("the gateway redirects the stream")

    def process_redirect(_: Any, error: Exception) -> Exception:  # of the current ones
        return error

    methods = {"handle_redirect": handle_redirect, "process_redirect": process_redirect}
    return type("ConnectWithoutRedirects", (connect,), methods)


def _refused(err: Any) -> Exception:
    """Returns the error of a refused handshake, of the legacy or the current websockets."""
    response = getattr(err, "response", None)
    if response is not None:
        return response_error(response.status_code, response.headers, response.body or b"")
    if hasattr(err, "status_code"):
        return response_error(err.status_code, err.headers, b"")
    return ConnectionBroken(f"connection broken: {err}")


