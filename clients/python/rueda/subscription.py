"""The set of subscriptions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable, NamedTuple, Optional

from .queue import Series

CHANNELS = ("trades", "quotes", "order_book", "status", "summary", "bars")
INTERVALS = ("1s", "1m", "5m", "15m", "1h", "1d")
CONFLATIONS = (None, "100ms", "250ms", "1s")
_WORD = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,15}")
_PARTS = (re.compile(r"[!#-)+\-.-:<-\[\]-{}~]{1,32}"), _WORD, _WORD)
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
    interval as a fourth part: GGAL|BYMA|24hs|5m. A pattern of books stands for the instruments that
    are listed when the client connects or subscribes, as the gateway sends books of single
    instruments only. depth is how many levels books have on each side:
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
            raise ValueError(f"depth is {self.depth}: must be 1, 5, 10, 25 or ALL_LEVELS")
        if self.conflate not in CONFLATIONS:
            raise ValueError(f"conflate is {self.conflate!r}: must be 100ms, 250ms or 1s")
        lists = (self.trades, self.quotes, self.books, self.status, self.summary, self.bars)
        found: dict[Series, Options] = {}
        for channel, identifiers in zip(CHANNELS, lists):
            if isinstance(identifiers, str):
                raise ValueError(f"{identifiers!r} in {channel}: write a list, [{identifiers!r}]")
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
    """Raises ValueError if an identifier does not have the form for its channel."""
    where = f"{identifier!r} in {'books' if channel == 'order_book' else channel}"
    check_string(identifier, where)
    parts = identifier.split("|")
    if channel == "bars" and len(parts) == 3:
        raise ValueError(f"{where} has no interval: write {identifier}|1m")
    if len(parts) != (4 if channel == "bars" else 3):
        more = "|INTERVAL" if channel == "bars" else ""
        raise ValueError(f"{where} is not of the form SYMBOL|MARKET|TERM{more}")
    for name, form, part in zip(("symbol", "market", "term"), _PARTS, parts):
        if part != "*" and not form.fullmatch(part):
            raise ValueError(f"{where}: {part!r} is not a {name}")
    if channel == "bars":
        check_interval(parts[3], f"{where}: ")


def check_string(identifier: object, where: str = "") -> None:
    """Raises TypeError if an identifier is not a string."""
    if not isinstance(identifier, str):
        raise TypeError(f"{where or repr(identifier)} must be a string such as 'GGAL|BYMA|24hs'")


def check_interval(interval: str, where: str = "") -> None:
    """Raises ValueError if a string is not an interval of bars."""
    if interval not in INTERVALS:
        raise ValueError(f"{where}{interval} is not one of {', '.join(INTERVALS)}")


def items_of(subscriptions: Subscriptions) -> dict[Series, Options]:
    """Returns the items of a set. TypeError: it is not Subscriptions."""
    if not isinstance(subscriptions, Subscriptions):
        raise TypeError(f"a set must be Subscriptions(trades=[...]), not {subscriptions!r}")
    return subscriptions.items()


def is_pattern(identifier: str) -> bool:
    """Whether an identifier has a * for a part."""
    return "*" in identifier.split("|")


def matches(pattern: str, identifier: str) -> bool:
    """Whether a pattern or identifier includes an instrument."""
    if pattern == identifier:
        return True
    p, i = pattern.split("|"), identifier.split("|")
    return len(p) == len(i) and all(a == "*" or a == b for a, b in zip(p, i))
