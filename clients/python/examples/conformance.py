"""The program that rueda conformance client tests: it prints what it receives as JSON lines.

rueda conformance client -- python3 clients/python/examples/conformance.py [--sync]

With --sync it uses the client for programs without asyncio.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Optional

sys.path.insert(0, str(Path(__file__).parents[1]))  # to run it without an installation

import rueda  # noqa: E402


def level_rows(levels: list[rueda.Level]) -> list[list[str]]:
    return [[format(level.price, "f"), format(level.size, "f")] for level in levels]


def line_of(
    client: rueda.AsyncClient | rueda.Client, event: rueda.Event
) -> Optional[dict[str, Any]]:
    """Returns the line for an event, None if the suite does not need it."""
    match event:
        case rueda.Trade(instrument, n):
            price, size = format(event.price, "f"), format(event.size, "f")
            members = dict(price=price, size=size, replayed=event.replayed)
            return dict(event="trade", instrument=instrument, n=n, **members)
        case rueda.BookUpdate(instrument):
            try:
                book = client.book(instrument)
            except rueda.RuedaError:
                return None  # BookInvalid follows, or the client was closed
            bids, asks = level_rows(book.bids(5)), level_rows(book.asks(5))
            return dict(event="book", instrument=instrument, n=book.n, bids=bids, asks=asks)
        case rueda.BookInvalid(instrument, reason):
            return dict(event="invalid", instrument=instrument, reason=reason)
        case rueda.Lost("trades", instrument, first, last, reason):
            span = {"from": first, "reason": reason}
            if last is not None:
                span["to"] = last
            return dict(event="lost", instrument=instrument, **span)
        case rueda.Recovered("trades", instrument, first, last):
            return {"event": "recovered", "instrument": instrument, "from": first, "to": last}
        case rueda.Rejected(_, instrument, reason):
            return dict(event="rejected", instrument=instrument, reason=reason)
        case rueda.StateChange(state, url, error):
            print(state.value, url, error, file=sys.stderr)  # for people
    return None


def show(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


async def follow(client: rueda.AsyncClient) -> None:
    try:
        async for event in client.events():
            line = line_of(client, event)
            if line is not None:
                show(line)
    except rueda.GatewayError as error:
        show(dict(event="end", reason=error.reason))


def options() -> dict[str, Any]:
    return dict(
        urls=os.environ["RUEDA_URL"].split(","),
        username=os.environ["RUEDA_USERNAME"],
        password=os.environ["RUEDA_PASSWORD"],
        tokens=rueda.FileStore(Path(os.environ["RUEDA_FOLDER"], "tokens.json")),
        session=os.environ["RUEDA_SESSION"],
    )


def wanted() -> rueda.Subscriptions:
    instruments = os.environ["RUEDA_INSTRUMENTS"].split(",")
    return rueda.Subscriptions(trades=instruments, books=instruments)


def at_end_of_input(call: Callable[[], object]) -> None:
    """Calls when the suite has seen enough."""

    def wait() -> None:
        sys.stdin.read()
        call()

    threading.Thread(target=wait, daemon=True).start()


async def main() -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    at_end_of_input(lambda: loop.call_soon_threadsafe(ended.set))
    async with rueda.AsyncClient(**options()) as client:
        client.subscribe(wanted())
        parts = [asyncio.create_task(follow(client)), asyncio.create_task(ended.wait())]
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        parts[0].cancel()
        for part in done:
            part.result()


def main_sync() -> None:
    with rueda.Client(**options()) as client:
        client.subscribe(wanted())
        at_end_of_input(client.close)
        try:
            for event in client.events():
                line = line_of(client, event)
                if line is not None:
                    show(line)
        except rueda.GatewayError as error:
            show(dict(event="end", reason=error.reason))


if "RUEDA_URL" not in os.environ:
    sys.exit(__doc__)
elif sys.argv[1:] == ["--sync"]:
    main_sync()
else:
    asyncio.run(main())
