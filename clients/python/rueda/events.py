"""What a program gets from a stream, as dataclasses. Prices and sizes are exact (Decimal)."""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union

from .errors import ProtocolError
from .values import BROKEN, MAX_INT, MAX_N, constant, decimal_of, number, text, whole

Raw = dict[str, Any]
V = TypeVar("V")


def _read(convert: Callable[[Any], V], value: Any) -> V:
    """Converts a member when a program asks for it. An error is a ProtocolError."""
    try:
        return convert(value)
    except BROKEN as err:
        raise ProtocolError("a message has a wrong member") from err


class State(enum.Enum):
    """State of the stream."""

    IDLE = "idle"
    CONNECTING = "connecting"
    AUTHENTICATING = "authenticating"
    SYNCING = "syncing"
    LIVE = "live"
    WAITING = "waiting"
    CLOSED = "closed"


class Level(NamedTuple):
    """A level of a book. orders is None if the market does not count them."""

    price: Decimal
    size: Decimal
    orders: Optional[int] = None


@dataclass(slots=True)
class MarketEvent:
    """Members that all market data has.

    timestamp is the event time as text, in UTC with nanoseconds. latency is the time from it to the
    publication in nanoseconds, delay that of delayed data in seconds. replayed: it was missed
    before, and is not new. raw is the message, with members that this version does not know.
    """

    instrument: str
    n: int
    timestamp: str
    raw: Raw = field(repr=False, compare=False)

    @property
    def time(self) -> datetime:
        """The event time, to microseconds."""
        return _read(lambda at: datetime.fromisoformat(at[:26] + "+00:00"), self.timestamp)

    @property
    def time_ns(self) -> int:
        """The event time in nanoseconds since 1970."""
        return _read(_nanoseconds, self.timestamp)

    @property
    def latency(self) -> Optional[int]:
        """Nanoseconds from the event time to the publication; None: unknown."""
        return self.raw.get("D")

    @property
    def delay(self) -> int:
        """Seconds of the delay; 0: real time."""
        value: int = self.raw.get("DE", 0)
        return value


@dataclass(slots=True)
class Trade(MarketEvent):
    """A trade; by its kind "X" a cancel, or "C" a correction of an earlier one."""

    price: Decimal
    size: Decimal
    kind: str = "T"
    replayed: bool = False

    @property
    def id(self) -> str:
        """The trade id of the market, "" if it has none."""
        value: str = self.raw.get("X", "")
        return value

    @property
    def aggressor(self) -> str:
        """B the buyer, S the seller, "" unknown."""
        value: str = self.raw.get("G", "")
        return value

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions, as the market names them."""
        return _read(lambda list_: tuple(map(text, list_)), self.raw.get("C", ()))

    @property
    def original_n(self) -> Optional[int]:
        """The N of the trade that is cancelled or corrected; None: unknown."""
        return self.raw.get("XN")

    @property
    def old_price(self) -> Optional[Decimal]:
        """The price before a correction."""
        return _read(_optional, self.raw.get("XP"))

    @property
    def old_size(self) -> Optional[Decimal]:
        """The size before a correction."""
        return _read(_optional, self.raw.get("XZ"))


@dataclass(slots=True)
class Quote(MarketEvent):
    """The best bid and offer. A side without orders is None."""

    bid: Optional[Decimal]
    bid_size: Optional[Decimal]
    ask: Optional[Decimal]
    ask_size: Optional[Decimal]
    snapshot: bool = False


@dataclass(slots=True)
class BookUpdate(MarketEvent):
    """A book (snapshot), or changes to it: a level of size 0 is removed."""

    bids: list[Level]
    asks: list[Level]
    checksum: int
    previous: int
    depth: int = 0
    snapshot: bool = False


@dataclass(slots=True)
class Status(MarketEvent):
    """A phase of trading, or the state of a feed: feed_down, feed_up, gap."""

    phase: str
    snapshot: bool = False
    replayed: bool = False

    @property
    def reason(self) -> str:
        """The reason that the market or feed states, or ""."""
        value: str = self.raw.get("Y", "")
        return value

    @property
    def until(self) -> str:
        """The time of the next expected change as text, or ""."""
        value: str = self.raw.get("U", "")
        return value


@dataclass(slots=True)
class Summary(MarketEvent):
    """The trading day so far. Prices are None without trades, and others if unknown."""

    open: Optional[Decimal]
    high: Optional[Decimal]
    low: Optional[Decimal]
    last: Optional[Decimal]
    close: Optional[Decimal]
    volume: Decimal
    turnover: Decimal
    trades: int
    average: Optional[Decimal]
    settlement: Optional[Decimal]
    open_interest: Optional[Decimal]
    snapshot: bool = False


@dataclass(slots=True)
class Bar(MarketEvent):
    """The trades of an interval, which begins at its time. Without trades, prices are None."""

    interval: str
    open: Optional[Decimal]
    high: Optional[Decimal]
    low: Optional[Decimal]
    close: Optional[Decimal]
    volume: Decimal
    turnover: Decimal
    trades: int
    average: Optional[Decimal]
    revised: bool = False
    replayed: bool = False

    @property
    def trading_date(self) -> Optional[date]:
        """The date of the trading day that it belongs to. None: unknown."""
        day = self.raw.get("TD")
        return None if day is None else _read(date.fromisoformat, day)


@dataclass(slots=True)
class StateChange:
    """The stream is in another state. wait is in seconds, until the next attempt."""

    state: State
    url: str
    error: Optional[BaseException] = None
    wait: float = 0.0


@dataclass(slots=True)
class Recovered:
    """A range that was missed has been delivered, both ends included."""

    channel: str
    instrument: str
    first: int
    last: int
    from_history: bool = False


@dataclass(slots=True)
class Lost:
    """A range that cannot be delivered, both ends included. last None: up to an unknown number.

    With the reason epoch_changed the numbers of the instrument begin again. In history, first is 0
    if it is unknown, and start and end are the event times of the rows before and after the range,
    as text, "" if they are unknown.
    """

    channel: str
    instrument: str
    first: int
    last: Optional[int]
    reason: str
    start: str = ""
    end: str = ""


@dataclass(slots=True)
class BookInvalid:
    """A book is not known until its next snapshot."""

    instrument: str
    reason: str


@dataclass(slots=True)
class Rejected:
    """The gateway refuses an identifier or, if removed, has ended its subscription."""

    channel: str
    instrument: str
    reason: str
    msg: str = ""
    hint: str = ""
    removed: bool = False


@dataclass(slots=True)
class Delayed:
    """The data of an instrument has another delay, in seconds; 0 is real time."""

    channel: str
    instrument: str
    delay: int


@dataclass(slots=True)
class Notice:
    """A warning of the gateway, such as slow_client."""

    reason: str
    msg: str = ""
    hint: str = ""


DataEvent = Union[Trade, Quote, BookUpdate, Status, Summary, Bar]
Event = Union[DataEvent, StateChange, Recovered, Lost, BookInvalid, Rejected, Delayed, Notice]


_scan = json.JSONDecoder(parse_float=decimal_of, parse_constant=constant).raw_decode
_new_level = tuple.__new__


def _nanoseconds(at: str) -> int:
    seconds = datetime.fromisoformat(at[:19] + "+00:00").timestamp()
    return int(seconds) * 1_000_000_000 + int(at[20:29])


def _optional(value: Any) -> Optional[Decimal]:
    if value is None or value.__class__ is Decimal:
        return value  # type: ignore[no-any-return]
    if value.__class__ is int and -MAX_INT < value < MAX_INT:  # as number, without a call
        return Decimal(value)
    raise TypeError("not a number")


def _levels(m: Raw, name: str) -> list[Level]:
    out = []
    for level in m.get(name, ()):
        price, size = level[0], level[1]
        if price.__class__ is not Decimal:
            price = number(price)
        if size.__class__ is not Decimal:
            size = number(size)
        out.append(_new_level(Level, (price, size, level[2] if len(level) > 2 else None)))
    return out


def _trade(m: Raw) -> Trade:
    price, size = m["P"], m["Z"]
    if price.__class__ is not Decimal:
        price = number(price)
    if size.__class__ is not Decimal:
        size = number(size)
    return Trade(m["I"], m["N"], m["T"], m, price, size, m["type"])


def _quote(m: Raw) -> Quote:
    get = m.get
    bid, bid_size = _optional(get("BP")), _optional(get("BZ"))
    ask, ask_size = _optional(get("AP")), _optional(get("AZ"))
    return Quote(m["I"], m["N"], m["T"], m, bid, bid_size, ask, ask_size, get("R", False))


def _book(m: Raw) -> BookUpdate:
    snapshot = m.get("R", False)
    previous = 0 if snapshot else m["L"]
    depth = m["DL"] if snapshot else 0
    if depth.__class__ is not int or m["K"].__class__ is not int:
        raise TypeError("not a number")
    bids, asks = _levels(m, "B"), _levels(m, "A")
    return BookUpdate(
        m["I"], m["N"], m["T"], m, bids, asks, m["K"], previous, depth, snapshot
    )


def _status(m: Raw) -> Status:
    return Status(m["I"], m["N"], m["T"], m, text(m["E"]), m.get("R", False))


def _summary(m: Raw) -> Summary:
    get = m.get
    return Summary(
        m["I"],
        m["N"],
        m["T"],
        m,
        _optional(get("OP")),
        _optional(get("HI")),
        _optional(get("LO")),
        _optional(get("LA")),
        _optional(get("CL")),
        number(m["TV"]),
        number(m["EV"]),
        whole(m["TC"]),
        _optional(get("VW")),
        _optional(get("SE")),
        _optional(get("OI")),
        get("R", False),
    )


def _bar(m: Raw) -> Bar:
    get = m.get
    return Bar(
        m["I"],
        m["N"],
        m["T"],
        m,
        "" + m["IV"],
        _optional(get("OP")),
        _optional(get("HI")),
        _optional(get("LO")),
        _optional(get("CL")),
        number(m["TV"]),
        number(m["EV"]),
        whole(m["TC"]),
        _optional(get("VW")),
        get("R", False),
    )


_BUILD: dict[str, Callable[[Raw], DataEvent]] = {
    "T": _trade,
    "X": _trade,
    "C": _trade,
    "Q": _quote,
    "O": _book,
    "H": _status,
    "D": _summary,
    "K": _bar,
}

def parse(message: str) -> Raw:
    """Parses a message. Numbers with a point are Decimals. An error is a ProtocolError."""
    try:
        m, _ = _scan(message)
    except (ValueError, ArithmeticError, RecursionError) as err:
        raise ProtocolError("a message is not JSON") from err
    if m.__class__ is not dict:
        raise ProtocolError("a message is not an object")
    return m  # type: ignore[no-any-return]


def build(m: Raw) -> Optional[DataEvent]:
    """Returns the event of a data message, None for any other message."""
    try:
        make = _BUILD.get(m.get("type", ""))
        if make is None:
            return None
        n = m["N"]
        header = n.__class__ is int and m["I"].__class__ is m["T"].__class__ is str
        if not header or not 0 <= n <= MAX_N:
            raise TypeError("not a header")
        return make(m)
    except BROKEN as err:
        raise ProtocolError("a message has a wrong member") from err


def decode(message: str) -> Optional[DataEvent]:
    """Decodes a message of the stream or of history, None if it is not market data."""
    return build(parse(message))


Moment = Union[datetime, date, str]
"""A time that a program passes, see Range."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ADVICE = (
    "write a datetime with a zone, a date, a string such as 2026-11-22 or 2026-11-22T10:00 (UTC),"
    " or 7d for seven days ago"
)


def utc(at: Moment, name: str = "the time") -> str:
    """Returns a time as the protocol writes it, and a date as it is.

    ValueError: a datetime has no zone, or a string is not a time. TypeError: it is something else.
    """
    if isinstance(at, str):
        return _utc_text(at, name)
    if isinstance(at, datetime):
        if at.utcoffset() is None:
            raise ValueError(
                f"{name}: {at} has no zone: add tzinfo=timezone.utc, or .astimezone() if it is"
                " local to this machine"
            )
        nanoseconds = getattr(at, "nanosecond", 0)  # pandas.Timestamp has them
        at = at.astimezone(timezone.utc)
        return at.strftime("%Y-%m-%dT%H:%M:%S.%f") + f"{nanoseconds:03}Z"
    if isinstance(at, date):
        return at.isoformat()
    raise TypeError(f"{name}: {at!r} is not a time: {_ADVICE}")


def _utc_text(text: str, name: str) -> str:
    """Returns a string as utc does. Without a zone it is in UTC."""
    ago = re.fullmatch(r"([0-9]{1,5})([smhd])", text)
    if ago is not None:
        back = timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        return utc(datetime.now(timezone.utc) - back)
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        pass  # perhaps a time
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{name}: {text!r} is not a time: {_ADVICE}") from None
    if re.fullmatch(r"[^.]{19}\.[0-9]{9}Z", text):  # of an event; a datetime has no nanoseconds
        return text
    return utc(at if at.utcoffset() is not None else at.replace(tzinfo=timezone.utc))
