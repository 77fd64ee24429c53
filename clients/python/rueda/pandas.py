"""Frames of pandas from history and from the stream. It needs pandas 1.5 or later.

A frame of rows of a client has attrs["lost"]: the ranges that are lost, as dicts with the members
of Lost, so that a frame can be written to a file. It is empty if nothing is lost.
"""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from typing import Any, Iterable, Mapping, Optional, Sequence

import pandas as pd

from .client import ALL, AsyncClient, Range
from .events import Bar, Event, Lost, Quote, Trade
from .history import Rows
from .subscription import Subscriptions
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


class LiveBars:
    """Keeps past and new bars of an instrument in one frame.

    It works with Client, not with AsyncClient. It subscribes the client to the bars and reads the
    past ones that a Range selects. Pass each event of the loop to add. Bars that were closed in
    between, or lost on the stream, are read from history.
    """

    def __init__(
        self,
        client: Client,
        instrument: str,
        interval: str = "1m",
        rows: Range = ALL,
        exact: bool = False,
    ) -> None:
        if isinstance(client, AsyncClient):
            raise TypeError("LiveBars needs a Client, not an AsyncClient")
        self._client = client
        self._instrument = instrument
        self._interval = interval
        self._rows = rows
        self._exact = exact
        self._bars: dict[str, Bar] = {}  # by time, each as it was sent last
        self._newest: Optional[int] = None  # N of the epoch; None: there is no bar
        self._lost: list[Lost] = []
        self._frame: Any = None  # None: it must be made
        client.subscribe(Subscriptions(bars=[f"{instrument}|{interval}"]))
        self._read(rows)

    def add(self, event: Event) -> bool:
        """Adds a bar of the stream. Returns whether the frame has changed."""
        series = f"{self._instrument}|{self._interval}"
        if isinstance(event, Lost) and (event.channel, event.instrument) == ("bars", series):
            if event.reason == "epoch_changed":
                self._newest = 0  # numbers begin again
        if not isinstance(event, Bar) or f"{event.instrument}|{event.interval}" != series:
            return False
        if self._newest is None:
            self._read(self._rows)
        elif event.n > self._newest + 1:
            complete = self._rows.require_complete
            self._read(Range(after=self._newest, require_complete=complete))
        elif event.n <= self._newest:
            return False
        if self._newest is None or event.n > self._newest:
            self._keep(event)
        return True

    @property
    def frame(self) -> Any:
        """The bars as bars_frame returns them, with attrs["lost"]. After a change it is another
        frame, so that a program may keep one."""
        if self._frame is None:
            frame = bars_frame(self._bars.values(), self._exact)
            self._frame = _set_lost(frame, self._lost)
        return self._frame

    def _read(self, rows: Range) -> None:
        found = self._client.bars(self._instrument, self._interval, rows)
        bars = list(found)
        for bar in reversed(bars) if rows.newest else bars:
            self._keep(bar)
        self._lost += found.lost()

    def _keep(self, bar: Bar) -> None:
        self._newest = bar.n
        self._bars[bar.timestamp] = bar
        self._frame = None


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
