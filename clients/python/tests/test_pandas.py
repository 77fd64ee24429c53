"""Frames of pandas."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import time
import unittest
from datetime import date
from decimal import Decimal
from typing import Any

import rueda

from .gateway import GGAL, GatewayTest


def bar(n: int, second: int, close: str, trades: int = 1, interval: str = "1s") -> rueda.Bar:
    m: dict[str, Any] = {"type": "K", "I": GGAL, "N": n, "IV": interval, "TC": trades, "R": n > 2}
    m |= {"T": f"2026-11-20T14:30:{second:02}.000000000Z", "TV": 1, "EV": 2, "TD": "2026-11-21"}
    text = json.dumps(m)[:-1]
    if trades:
        text += "".join(f',"{name}":{close}' for name in ("OP", "HI", "LO", "CL", "VW"))
    event = rueda.decode(text + "}")
    assert isinstance(event, rueda.Bar)
    return event


@unittest.skipUnless(
    importlib.util.find_spec("pandas"), "RUEDA_REQUIRE_ALL makes missing tools an error"
)
class PandasTest(GatewayTest):
    def test_bars_frame(self) -> None:
        import rueda.pandas

        bars = [bar(1, 0, "0.1"), bar(2, 1, "7.5"), bar(3, 0, "0.3"), bar(4, 1, "7.5", trades=0)]
        frame = rueda.pandas.bars_frame(bars, exact=True)
        self.assertEqual(list(frame["close"]), [Decimal("0.3")])
        self.assertEqual(list(frame["n"]), [3])
        self.assertEqual(list(frame["trading_date"]), [date(2026, 11, 21)])
        del bars[0].raw["TD"]  # a file of an older gateway
        self.assertIsNone(bars[0].trading_date)
        self.assertEqual(frame.index[0].isoformat(), "2026-11-20T14:30:00+00:00")
        self.assertEqual(str(rueda.pandas.bars_frame(bars)["close"].dtype), "float64")
        with self.assertRaises(ValueError):
            rueda.pandas.bars_frame([bar(1, 0, "1"), bar(1, 0, "1", interval="1m")])

    def test_empty(self) -> None:
        import rueda.pandas

        for frame in (
            rueda.pandas.trades_frame([]),
            rueda.pandas.quotes_frame([]),
            rueda.pandas.bars_frame([]),
        ):
            self.assertEqual((len(frame), str(frame.index.dtype)), (0, "datetime64[ns, UTC]"))

    def test_history(self) -> None:
        import rueda.pandas

        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            limit = rueda.Range(limit=200)
            frame = rueda.pandas.trades(client, GGAL, limit)
            end = time.monotonic() + 30
            while len(frame) < 20 and time.monotonic() < end:
                time.sleep(0.5)
                frame = rueda.pandas.trades(client, GGAL, limit)
            self.assertEqual(list(frame["n"]), list(range(1, len(frame) + 1)))
            trades = list(client.trades(GGAL, rueda.Range(limit=len(frame))))
            self.assertEqual(frame.index[0].value, trades[0].time_ns)
            self.assertEqual(frame["price"].iloc[0], float(trades[0].price))
            exact = rueda.pandas.trades(client, GGAL, limit, exact=True)
            self.assertEqual(exact["price"].iloc[0], trades[0].price)
            quotes = rueda.pandas.quotes(client, GGAL, limit)
            spread = (quotes["ask"] - quotes["bid"]).dropna()
            self.assertTrue((spread > 0).all())
            bars = rueda.pandas.bars(client, GGAL, "1s", limit)
            self.assertTrue((bars["high"] >= bars["low"]).all())
            self.assertTrue(bars.index.is_monotonic_increasing)

        async def part() -> None:
            async with rueda.AsyncClient(self.gateway.url, "demo", "demo") as client:
                again = await rueda.pandas.trades_async(client, GGAL, rueda.Range(limit=5))
                self.assertEqual(list(again["n"]), [1, 2, 3, 4, 5])
                self.assertGreater(
                    len(await rueda.pandas.quotes_async(client, GGAL, rueda.Range(limit=5))), 0
                )
                await rueda.pandas.bars_async(client, GGAL, "1s", rueda.Range(limit=5))

        asyncio.run(part())


if __name__ == "__main__":
    unittest.main()
