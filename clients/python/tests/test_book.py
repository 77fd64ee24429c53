"""Books: the protocol's checksums, and 100,000 random updates with gaps and bad checksums."""

from __future__ import annotations

import random
import unittest
from decimal import Decimal

import rueda
from rueda.book import checksum
from rueda.events import Level

SNAPSHOT = (
    '{"type":"O","S":"GGAL","I":"GGAL|BYMA|24hs","N":5011,"T":"2026-11-20T14:30:00.500000000Z",'
    '"R":true,"DL":5,"B":[[7049.5,300,4],[7049,150,2]],"A":[[7050,1200,9],[7050.5,80,1]],'
    '"K":4051739875}'
)
CHANGE = (
    '{"type":"O","S":"GGAL","I":"GGAL|BYMA|24hs","N":5012,"T":"2026-11-20T14:30:00.700000000Z",'
    '"L":5011,"B":[[7049.5,280,3]],"A":[[7050,0]],"K":3526765731}'
)


def update(text: str) -> rueda.BookUpdate:
    event = rueda.decode(text)
    assert isinstance(event, rueda.BookUpdate)
    return event


def change(n: int, previous: int, bids: list[Level], asks: list[Level], k: int) -> rueda.BookUpdate:
    return rueda.BookUpdate("A|B|C", n, "", {}, bids, asks, k, previous)


class Market:
    """The book that the client's must equal, kept in whole units and in another way."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bids: dict[int, int] = {}
        self.asks: dict[int, int] = {}
        self.middle = 100_000
        self.n = 0

    def best(self) -> tuple[list[Level], list[Level]]:
        def level(item: tuple[int, int]) -> Level:
            return Level(Decimal(item[0]) / 100, Decimal(item[1]))

        bids = [level(item) for item in sorted(self.bids.items(), reverse=True)]
        return bids, [level(item) for item in sorted(self.asks.items())]

    def move(self) -> tuple[list[Level], list[Level]]:
        """Changes some levels, never so that the book is crossed, and returns the changes."""
        self.middle += self.random.randint(-2, 2)
        changes: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for side, found in zip((self.bids, self.asks), changes):
            sign = -1 if side is self.bids else 1
            for price in list(side):
                if (price - self.middle) * sign <= 0 or abs(price - self.middle) > 40:
                    del side[price]
                    found[price] = 0
            for _ in range(self.random.randint(0, 3)):
                price = self.middle + sign * self.random.randint(1, 30)
                size = self.random.choice((0, self.random.randint(1, 999)))
                if size or price in side:
                    found[price] = size
                    side[price] = size
                    if not size:
                        del side[price]
        self.n += 1
        bids, asks = (
            [Level(Decimal(p) / 100, Decimal(s)) for p, s in found.items()] for found in changes
        )
        return bids, asks

    def sum(self) -> int:
        bids, asks = self.best()
        return checksum(bids[:10], asks[:10], 2, 0)


class BookTest(unittest.TestCase):
    def test_protocol(self) -> None:
        book = rueda.Book()
        with self.assertRaises(rueda.InvalidBook):
            book.apply(update(CHANGE))
        book.apply(update(SNAPSHOT))
        bid, ask = book.best()
        self.assertEqual((bid, ask), ((Decimal("7049.5"), 300, 4), (7050, 1200, 9)))
        copy = book.copy()
        book.apply(update(CHANGE))
        self.assertEqual([level.price for level in book.asks()], [Decimal("7050.5")])
        self.assertEqual(len(copy.asks()), 2)
        with self.assertRaises(rueda.ChainError):
            book.apply(update(CHANGE))
        self.assertEqual((book.valid, book.bids(), book.asks()), (False, [], []))
        with self.assertRaises(rueda.InvalidBook):
            book.best()

    def test_too_deep(self) -> None:
        book = rueda.Book()
        with self.assertRaises(rueda.ChecksumError):
            book.apply(update(SNAPSHOT.replace('"DL":5', '"DL":1')))

    def test_random(self) -> None:
        """The book is right after each update, or known to be wrong."""
        market, book = Market(1), rueda.Book()
        chaos = random.Random(2)
        wrong = applied = 0
        previous = 0
        snapshot, missing = True, False
        for _ in range(100_000):
            bids, asks = market.move()
            k, fault = market.sum(), chaos.random()
            if snapshot:
                bids, asks = market.best()
            event = change(market.n, previous, bids, asks, k)
            event.snapshot = snapshot
            previous = market.n
            expected: type[Exception] | None = rueda.ChainError if missing else None
            if missing:
                pass
            elif fault < 0.01 and not snapshot:
                event.previous -= 1
                expected = rueda.ChainError
            elif fault < 0.02:
                event.checksum ^= 1 << chaos.randrange(32)
                expected = rueda.ChecksumError
            elif fault < 0.03 and not snapshot:
                event.bids = bids + [Level(Decimal(market.middle) / 100, Decimal(7))]
                expected = rueda.ChecksumError
            elif fault < 0.04 and not snapshot:
                missing = True  # the next update does not follow
                continue
            try:
                book.apply(event)
            except rueda.InvalidBook as error:
                wrong += 1
                self.assertIs(type(error), expected)
                missing = False
                self.assertFalse(book.valid)
                self.assertEqual(book.bids() + book.asks(), [])
                snapshot = True
                continue
            self.assertIsNone(expected)
            snapshot = False
            applied += 1
            best_bid, best_ask = book.best()
            if best_bid and best_ask:
                self.assertLess(best_bid.price, best_ask.price)
            if applied % 50 == 0:
                self.assertEqual((book.bids(), book.asks()), market.best())
            else:
                mine, theirs = (book.bids(1), book.asks(1)), market.best()
                self.assertEqual(mine, (theirs[0][:1], theirs[1][:1]))
        print(f"figure: {applied} updates applied, {wrong} refused, none wrong or crossed")
        self.assertGreater(applied, 90_000)
        self.assertGreater(wrong, 3_000)


if __name__ == "__main__":
    unittest.main()
