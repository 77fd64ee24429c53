"""What the client knows of the stream, whichever connection it has."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass, field
from typing import Any, AsyncIterator, Callable, Mapping, Optional

from .book import Book
from .events import BookInvalid, BookUpdate, Event, Lost, State, StateChange
from .queue import NUMBERED, Entry, EventQueue, Series
from .rest import Rest
from .subscription import Options, check
from .tokens import TokenKeeper


def nothing() -> None:
    """Does nothing. It is called while there is no connection."""


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
    first: int = 0  # N at which the replay of the connection begins; 0: unknown
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
    """The progress of a stream and what it has for the program. It belongs to one event loop."""

    def __init__(
        self, rest: Rest, tokens: TokenKeeper, queue: EventQueue, settings: Settings
    ) -> None:
        self.rest = rest
        self.tokens = tokens
        self.queue = queue
        self.settings = settings
        self.desired: dict[Series, Options] = {}
        self.asked: set[str] = set()  # identifiers of books that are, or have been, in the set
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
        self.changed: Callable[[], None] = nothing  # sends a change of the desired set
        self.history: Optional[Callable[..., Any]] = None
        self.books_of: Optional[Callable[[str], AsyncIterator[str]]] = None

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

    def disconnected(self) -> None:
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
