"""Keeps the average price by volume: vwap_bot.py [URL USER PASSWORD INSTRUMENT [NUMBER OF TRADES]]

It counts each trade once since its start, across restarts of the gateway, and corrects what the
market cancels or corrects. If trades are lost, it says so and begins again.
"""

import sys
from decimal import Decimal

import rueda


class Average:
    """The average price of trades by volume."""

    def __init__(self) -> None:
        self.first = 0  # N of the first trade; cancels of older ones are not counted
        self.volume = Decimal(0)
        self.turnover = Decimal(0)

    def count(self, price: Decimal, size: Decimal) -> None:
        self.volume += size
        self.turnover += price * size

    def add(self, trade: rueda.Trade) -> None:
        self.first = self.first or trade.n
        if trade.kind == "T":
            self.count(trade.price, trade.size)
        elif trade.original_n is not None and trade.original_n >= self.first:
            if trade.kind == "X":
                self.count(trade.price, -trade.size)
            elif trade.old_price is not None and trade.old_size is not None:
                self.count(trade.old_price, -trade.old_size)
                self.count(trade.price, trade.size)

    def __str__(self) -> str:
        return f"{self.turnover / self.volume:.4f}" if self.volume else "unknown"


def main(
    url: str = "http://127.0.0.1:8080",
    user: str = "demo",
    password: str = "demo",
    instrument: str = "GGAL|BYMA|24hs",
    count: str = "",
) -> None:
    average, seen = Average(), 0
    with rueda.Client(url, user, password) as client:
        client.subscribe(rueda.Subscriptions(trades=[instrument]))
        for event in client.events():
            match event:
                case rueda.Trade():
                    average.add(event)
                    line = f"trade {event.n} {event.price} x {event.size} average {average}"
                    print(line, flush=True)
                    seen += 1
                    if count and seen == int(count):
                        break
                case rueda.StateChange():
                    print("stream", event.state.value, event.error or "", flush=True)
                case rueda.Recovered():
                    print("recovered", event.first, "to", event.last, flush=True)
                case rueda.Lost():
                    print("lost", event.first, "to", event.last, event.reason, flush=True)
                    average = Average()
                case rueda.Rejected():
                    sys.exit(f"{event.instrument}: {event.reason} {event.msg}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        pass
