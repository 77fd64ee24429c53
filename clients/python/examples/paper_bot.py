"""Trades on paper: paper_bot.py [URL USER PASSWORD INSTRUMENT [NUMBER OF TRADES SEEN]]

It buys one unit when the average of the last 5 prices rises above that of the last 20, and sells
it when it falls below. Orders are filled at the best price of the verified book, and nothing is
sent to a market. It does not act while the stream is not live, the book is not known, or trades are
replayed.
"""

import asyncio
import sys
from collections import deque
from decimal import Decimal
from typing import Optional

import rueda


class Bot:
    def __init__(self) -> None:
        self.prices: deque[Decimal] = deque(maxlen=20)
        self.position = 0
        self.cash = Decimal(0)

    def signal(self) -> int:
        """Returns 1 to hold a unit, 0 to hold none, -1 if it is too early to say."""
        if len(self.prices) < 20:
            return -1
        short = list(self.prices)[-5:]
        return int(sum(short) * 4 > sum(self.prices))

    def act(self, bid: Optional[rueda.Level], ask: Optional[rueda.Level]) -> None:
        want = self.signal()
        if want == 1 and self.position == 0 and ask is not None:
            self.position, self.cash = 1, self.cash - ask.price
            print("buy at", ask.price)
        elif want == 0 and self.position == 1 and bid is not None:
            self.position, self.cash = 0, self.cash + bid.price
            print("sell at", bid.price, "cash", self.cash)


async def main(
    url: str = "http://127.0.0.1:8080",
    user: str = "demo",
    password: str = "demo",
    instrument: str = "GGAL|BYMA|24hs",
    count: str = "",
) -> None:
    bot, seen = Bot(), 0
    async with rueda.AsyncClient(url, user, password) as client:
        client.subscribe(rueda.Subscriptions(trades=[instrument], books=[instrument]))
        async for event in client.events():
            if isinstance(event, (rueda.Lost, rueda.StateChange)):
                print(event)
            if not isinstance(event, rueda.Trade) or event.kind != "T":
                continue
            bot.prices.append(event.price)
            seen += 1
            if not event.replayed and client.health().state is rueda.State.LIVE:
                try:
                    bot.act(*client.book(instrument).best())
                except rueda.InvalidBook:
                    pass  # not at a price that is not known
            if count and seen == int(count):
                break
    print("position", bot.position, "cash", bot.cash)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
