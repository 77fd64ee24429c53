"""Prints bars of a second, past and new: candles.py [URL USER PASSWORD INSTRUMENT [NEW BARS]]"""

import asyncio
import sys

import rueda


def show(bar: rueda.Bar) -> None:
    change = " revised" if bar.revised else ""
    print(bar.time, bar.open, bar.high, bar.low, bar.close, "volume", bar.volume, change)


async def main(
    url: str = "http://127.0.0.1:8080",
    user: str = "demo",
    password: str = "demo",
    instrument: str = "GGAL|BYMA|24hs",
    count: str = "",
) -> None:
    live = 0
    async with rueda.AsyncClient(url, user, password) as client:
        past = [b async for b in client.bars(instrument, "1s", rueda.Range(newest=True, limit=10))]
        newest = 0
        for bar in reversed(past):
            show(bar)
            newest = bar.n
        print("now")
        client.subscribe(rueda.Subscriptions(bars=[instrument + "|1s"]))
        async for event in client.events():
            if isinstance(event, rueda.Bar) and event.n > newest:
                show(event)
                live += 1
                if count and live == int(count):
                    return


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
