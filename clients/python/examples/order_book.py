"""Prints the five best levels: order_book.py [URL USER PASSWORD INSTRUMENT [NUMBER OF BOOKS]]"""

import asyncio
import sys

import rueda


async def main(
    url: str = "http://127.0.0.1:8080",
    user: str = "demo",
    password: str = "demo",
    instrument: str = "GGAL|BYMA|24hs",
    count: str = "",
) -> None:
    printed = 0
    async with rueda.AsyncClient(url, user, password) as client:
        client.subscribe(rueda.Subscriptions(books=[instrument], conflate="250ms"))
        async for event in client.events():
            if isinstance(event, rueda.BookInvalid):
                print("the book is not known:", event.reason)
            if not isinstance(event, rueda.BookUpdate):
                continue
            try:
                book = client.book(instrument)
            except rueda.InvalidBook:
                continue  # a BookInvalid follows
            print("book", book.n)
            for level in reversed(book.asks(5)):
                print(f"{level.price:>30} {level.size}")
            for level in book.bids(5):
                print(f"{level.size:>14} {level.price}")
            printed += 1
            if count and printed == int(count):
                return


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
