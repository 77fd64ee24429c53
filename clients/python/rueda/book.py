"""The order book of an instrument, verified by chain and checksum."""

from __future__ import annotations

from bisect import bisect_left
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Optional
from zlib import crc32

from .errors import ChainError, ChecksumError, InvalidBook
from .events import BookUpdate, Level

_EXACT = Context(prec=60, rounding=ROUND_HALF_UP)


class _Side:
    """One side of a book: prices in ascending order, and the level of each."""

    __slots__ = ("prices", "levels", "bid")

    def __init__(self, bid: bool) -> None:
        self.prices: list[Decimal] = []
        self.levels: dict[Decimal, Level] = {}
        self.bid = bid

    def set(self, level: Level) -> None:
        price = level.price
        if level.size:
            if price not in self.levels:
                self.prices.insert(bisect_left(self.prices, price), price)
            self.levels[price] = level
        elif self.levels.pop(price, None) is not None:
            del self.prices[bisect_left(self.prices, price)]

    def best(self, n: int) -> list[Level]:
        prices = self.prices
        if self.bid:
            prices = prices[: -n - 1 : -1] if n else prices[::-1]
        elif n:
            prices = prices[:n]
        return [self.levels[price] for price in prices]


def _scaled(value: Decimal, decimals: int) -> str:
    units = value.scaleb(decimals, _EXACT)
    return str(int(units.to_integral_value(ROUND_HALF_UP, _EXACT)))


def checksum(bids: list[Level], asks: list[Level], price_decimals: int, size_decimals: int) -> int:
    """Returns the CRC-32 of levels, as the protocol defines it."""
    parts: list[str] = []
    for side in (bids, asks):
        for level in side:
            price, size = level[0], level[1]
            parts.append(f"{_scaled(price, price_decimals)}:{_scaled(size, size_decimals)};")
        parts.append("|")
    return crc32("".join(parts).encode())


class Book:
    """The order book of an instrument, made of its updates.

    It is valid from a snapshot to the first update that does not follow, or whose checksum differs.
    A book that is not valid shows no levels. The checksum is over whole units of the decimals of
    the instrument, which updates do not name: a Book finds them with its first checksum.
    """

    __slots__ = ("_bids", "_asks", "_decimals", "valid", "n", "depth")

    def __init__(self) -> None:
        self._bids = _Side(True)
        self._asks = _Side(False)
        self._decimals: Optional[tuple[int, int]] = None
        self.valid = False
        self.n = 0
        self.depth = 0

    def apply(self, u: BookUpdate) -> None:
        """Applies an update. It raises ChainError or ChecksumError if the book is not valid after
        it, and InvalidBook for a change of a book that is not valid."""
        if u.snapshot:
            self._bids, self._asks = _Side(True), _Side(False)
            self.depth = u.depth
        elif not self.valid:
            raise InvalidBook("the book is not known at present")
        elif u.previous != self.n:
            self.valid = False
            raise ChainError("the update does not follow the book")
        self.valid = False
        for level in u.bids:
            self._bids.set(level)
        for level in u.asks:
            self._asks.set(level)
        self.n = u.n
        if not self._matches(u.checksum, u.snapshot):
            raise ChecksumError("the checksum of the book is wrong")
        self.valid = True

    def invalidate(self) -> None:
        """Makes the book invalid until its next snapshot."""
        self.valid = False

    def _matches(self, expected: int, snapshot: bool) -> bool:
        if 0 < self.depth < max(len(self._bids.prices), len(self._asks.prices)):
            return False
        n = self.depth if 0 < self.depth < 10 else 10
        bids, asks = self._bids.best(n), self._asks.best(n)
        if not bids and not asks:
            return expected == crc32(b"||")
        if self._decimals is not None:
            if checksum(bids, asks, *self._decimals) == expected:
                return True
            if not snapshot:
                return False
        for price in range(9):
            for size in range(9):
                if checksum(bids, asks, price, size) == expected:
                    self._decimals = (price, size)
                    return True
        return False

    def bids(self, n: int = 0) -> list[Level]:
        """Returns the best n bids, best first, all if n is 0. An invalid book has none."""
        return self._bids.best(n) if self.valid else []

    def asks(self, n: int = 0) -> list[Level]:
        """Returns the best n asks, best first, all if n is 0. An invalid book has none."""
        return self._asks.best(n) if self.valid else []

    def best(self) -> tuple[Optional[Level], Optional[Level]]:
        """Returns the best bid and ask, None for a side without orders. It raises InvalidBook."""
        if not self.valid:
            raise InvalidBook("the book is not known at present")
        bid, ask = self._bids.best(1), self._asks.best(1)
        return (bid[0] if bid else None, ask[0] if ask else None)

    def copy(self) -> Book:
        """Returns a copy that shares nothing with the book."""
        b = Book()
        for mine, other in ((b._bids, self._bids), (b._asks, self._asks)):
            mine.prices, mine.levels = other.prices.copy(), other.levels.copy()
        b._decimals, b.valid, b.n, b.depth = self._decimals, self.valid, self.n, self.depth
        return b
