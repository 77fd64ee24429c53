"""Prints trades and quotes: ticker.py [URL USER PASSWORD INSTRUMENT [NUMBER OF EVENTS]]"""

import itertools
import sys

import rueda


def main(
    url: str = "http://127.0.0.1:8080",
    user: str = "demo",
    password: str = "demo",
    instrument: str = "GGAL|BYMA|24hs",
    count: str = "",
) -> None:
    number = itertools.count() if not count else range(int(count))
    with rueda.Client(url, user, password) as client:
        client.subscribe(rueda.Subscriptions(trades=[instrument], quotes=[instrument]))
        for event, _ in zip(client.events(), number):
            match event:
                case rueda.Trade():
                    print("trade", event.n, event.price, "x", event.size)
                case rueda.Quote():
                    print("quote", event.bid, "/", event.ask)
                case rueda.StateChange():
                    print("stream", event.state.value, event.error or "")
                case rueda.Lost() | rueda.Rejected():
                    print(event)


if __name__ == "__main__":
    main(*sys.argv[1:])
