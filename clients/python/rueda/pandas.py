"""Frames of pandas from history and from the stream. It needs pandas 1.5 or later.

A frame of rows of a client has attrs["lost"]: the ranges that are lost, as dicts with the members
of Lost, so that a frame can be written to a file. It is empty if nothing is lost.
"""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from typing import Any, Iterable, Mapping, Sequence

import pandas as pd

from .client import ALL, AsyncClient, Range
from .events import Bar, Lost, Quote, Trade
from .history import Rows
from .sync import Client

_TRADES = ("n", "price", "size", "kind", "id", "aggressor", "original_n")
_QUOTES = ("n", "bid", "bid_size", "ask", "ask_size")
_BARS = (
    "n",
    "open",
    "high",
    "low",
    "close",
    "volume",
    "turnover",
    "trades",
    "average",
    "revised",
    "trading_date",
)


def trades_frame(trades: Iterable[Trade], exact: bool = False) -> Any:
    """Returns a DataFrame of trades, cancels and corrections, with the event time as index.

    Prices and sizes are float64 for statistics, or Decimals if exact.
    """
    frame = _frame(list(trades), _TRADES, ("price", "size"), exact)
    return _add_lost(frame, trades)


def quotes_frame(quotes: Iterable[Quote], exact: bool = False) -> Any:
    """Returns a DataFrame of quotes. A side without orders is NaN, or None if exact."""
    return _add_lost(_frame(list(quotes), _QUOTES, _QUOTES[1:], exact), quotes)


def bars_frame(bars: Iterable[Bar], exact: bool = False) -> Any:
    """Returns a DataFrame of bars, with the start of their interval as index.

    Of each bar it has the newest revision, and trading_date is a datetime.date. A bar whose trades
    were all cancelled is left out. All bars are of one instrument and interval, otherwise it is a
    ValueError.
    """
    newest: dict[str, Bar] = {}
    kinds = set()
    for bar in bars:
        kinds.add((bar.instrument, bar.interval))
        old = newest.get(bar.timestamp)
        if old is None or bar.n > old.n:
            newest[bar.timestamp] = bar
    if len(kinds) > 1:
        raise ValueError("bars of several instruments or intervals")
    rows = [newest[at] for at in sorted(newest) if newest[at].trades > 0]
    return _add_lost(_frame(rows, _BARS, (*_BARS[1:7], "average"), exact), bars)


def trades(client: Client, instrument: str, rows: Range = ALL, exact: bool = False) -> Any:
    """Returns past trades as trades_frame does, with attrs["lost"]."""
    return trades_frame(client.trades(instrument, rows), exact)


def quotes(client: Client, instrument: str, rows: Range = ALL, exact: bool = False) -> Any:
    """Returns past quotes as quotes_frame does, with attrs["lost"]."""
    return quotes_frame(client.quotes(instrument, rows), exact)


def bars(
    client: Client, instrument: str, interval: str = "1m", rows: Range = ALL, exact: bool = False
) -> Any:
    """Returns past bars as bars_frame does, with attrs["lost"]."""
    return bars_frame(client.bars(instrument, interval, rows), exact)


async def trades_async(
    client: AsyncClient, instrument: str, rows: Range = ALL, exact: bool = False
) -> Any:
    """Returns past trades as trades_frame does, with attrs["lost"]."""
    found = client.trades(instrument, rows)
    frame = trades_frame([e async for e in found], exact)
    return _set_lost(frame, await found.lost())


async def quotes_async(
    client: AsyncClient, instrument: str, rows: Range = ALL, exact: bool = False
) -> Any:
    """Returns past quotes as quotes_frame does, with attrs["lost"]."""
    found = client.quotes(instrument, rows)
    frame = quotes_frame([e async for e in found], exact)
    return _set_lost(frame, await found.lost())


async def bars_async(
    client: AsyncClient,
    instrument: str,
    interval: str = "1m",
    rows: Range = ALL,
    exact: bool = False,
) -> Any:
    """Returns past bars as bars_frame does, with attrs["lost"]."""
    found = client.bars(instrument, interval, rows)
    frame = bars_frame([e async for e in found], exact)
    return _set_lost(frame, await found.lost())


def _frame(
    events: Sequence[Any], columns: Sequence[str], decimals: Iterable[str], exact: bool
) -> Any:
    data: dict[str, Any] = {
        name: pd.Series([getattr(e, name) for e in events], dtype=_type(name)) for name in columns
    }
    for name in decimals:
        if not exact:
            data[name] = data[name].map(_float, na_action="ignore").astype("float64")
    frame = pd.DataFrame(data, columns=list(columns))
    times = [e.time_ns for e in events]
    frame.index = pd.DatetimeIndex(pd.to_datetime(times, unit="ns", utc=True), name="time")
    return frame


def _add_lost(frame: Any, rows: Iterable[Any]) -> Any:
    return _set_lost(frame, rows.lost()) if isinstance(rows, Rows) else frame


def _set_lost(frame: Any, lost: Sequence[Lost]) -> Any:
    frame.attrs["lost"] = [asdict(v) for v in lost]
    return frame


def _float(value: Decimal) -> float:
    return float(value)


def _type(name: str) -> str:
    types: Mapping[str, str] = {"n": "int64", "original_n": "Int64", "trades": "int64"}
    return {**types, "revised": "bool"}.get(name, "object")
