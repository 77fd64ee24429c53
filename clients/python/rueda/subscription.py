"""The set of subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, NamedTuple, Optional

from .queue import Series

CHANNELS = ("trades", "quotes", "order_book", "status", "summary", "bars")
INTERVALS = ("1s", "1m", "5m", "15m", "1h", "1d")
CONFLATIONS = (None, "100ms", "250ms", "1s")
ALL_LEVELS = 0
"""The depth of whole books."""


class Options(NamedTuple):
    """Options of one subscription, as on the wire."""

    depth: Optional[int] = None
    conflate: Optional[str] = None


NO_OPTIONS = Options()


@dataclass(frozen=True)
class Subscriptions:
    """A set of subscriptions.

    An identifier is SYMBOL|MARKET|TERM, and * may stand for a whole part. Those of bars have an
    interval as a fourth part: GGAL|BYMA|24hs|5m. depth is how many levels books have on each side:
    1, 5, 10, 25 or ALL_LEVELS. conflate is the interval in which the newest quote and book is
    sent: 100ms, 250ms or 1s; None: every change.
    """

    trades: Iterable[str] = ()
    quotes: Iterable[str] = ()
    books: Iterable[str] = ()
    status: Iterable[str] = ()
    summary: Iterable[str] = ()
    bars: Iterable[str] = ()
    depth: int = 5
    conflate: Optional[str] = None

    def items(self) -> dict[Series, Options]:
        """Returns each subscription with its options. ValueError: one is not valid."""
        if self.depth not in (1, 5, 10, 25, ALL_LEVELS):
            raise ValueError(f"depth {self.depth}: it is 1, 5, 10, 25 or ALL_LEVELS")
        if self.conflate not in CONFLATIONS:
            raise ValueError(f"conflate {self.conflate!r}: it is 100ms, 250ms or 1s")
        lists = (self.trades, self.quotes, self.books, self.status, self.summary, self.bars)
        found: dict[Series, Options] = {}
        for channel, identifiers in zip(CHANNELS, lists):
            if isinstance(identifiers, str):
                raise ValueError(f"{channel}: a list of identifiers, not a text")
            options = NO_OPTIONS
            if channel == "order_book":
                options = Options(self.depth, self.conflate)
            elif channel == "quotes":
                options = Options(None, self.conflate)
            for identifier in identifiers:
                check(channel, identifier)
                found[channel, identifier] = options
        return found


def check(channel: str, identifier: str) -> None:
    """Raises ValueError if an identifier of a channel has not its form."""
    parts = identifier.split("|")
    form = "SYMBOL|MARKET|TERM"
    if channel == "bars":
        form += "|INTERVAL"
        if parts.pop() not in INTERVALS:
            raise ValueError(f"{identifier!r} in {channel} is not of the form {form}")
    if len(parts) != 3 or not all(part and part.isascii() for part in parts):
        raise ValueError(f"{identifier!r} in {channel} is not of the form {form}")


def is_pattern(identifier: str) -> bool:
    """Whether an identifier has a * for a part."""
    return "*" in identifier.split("|")


def matches(pattern: str, identifier: str) -> bool:
    """Whether a pattern or identifier includes an instrument."""
    if pattern == identifier:
        return True
    p, i = pattern.split("|"), identifier.split("|")
    return len(p) == len(i) and all(a == "*" or a == b for a, b in zip(p, i))
