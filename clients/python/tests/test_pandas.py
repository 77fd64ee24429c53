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
from unittest import mock

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

    def test_live_bars(self) -> None:
        """Past and new bars are those of history, also over a connection that breaks."""
        import rueda.pandas

        with rueda.Client(self.gateway.url, "demo", "demo") as client:
            live = rueda.pandas.LiveBars(client, GGAL, "1s", rueda.Range(newest=True, limit=3))
            client.subscribe(rueda.Subscriptions(trades=[GGAL], bars=[GGAL + "|1m"]))
            past, added = len(live.frame), 0
            self.assertIs(live.frame, live.frame)
            for event in client.events(timeout=30):
                before = live.frame
                changed = live.add(event)
                self.assertEqual(live.frame is not before, changed)
                added += changed
                if added == 5:
                    break
            self.assertEqual(added, 5)
            self.assertGreaterEqual(len(live.frame), past + 4)  # one may be a revision
            self.assertTrue(live.frame.index.is_monotonic_increasing)
            start = live.frame.index[0].to_pydatetime()
            want = rueda.pandas.bars(client, GGAL, "1s", rueda.Range(start=start))
            want = want[want["n"] <= live.frame["n"].max()]
            self.assertEqual(list(live.frame.index), list(want.index))
            same = live.frame.index[:-2]  # the newest may have been revised since
            for column in ("n", "open", "high", "low", "close", "volume"):
                self.assertEqual(list(live.frame.loc[same, column]), list(want.loc[same, column]))
            self.assertEqual(live.frame.attrs["lost"], [])

    def test_live_bars_after_a_gap(self) -> None:
        """What the stream does not have comes from history, and a new epoch begins again."""
        import rueda.pandas

        past = {n: bar(n, n, str(n)) for n in range(1, 9)}
        asked: list[rueda.Range] = []

        class Rows(list[rueda.Bar]):
            def lost(self) -> list[rueda.Lost]:
                return []

        with self.assertRaisesRegex(TypeError, "needs a Client, not an AsyncClient"):
            other: Any = rueda.AsyncClient("http://127.0.0.1:1")
            rueda.pandas.LiveBars(other, GGAL, "1s")
        client = mock.Mock()

        def bars(instrument: str, interval: str, rows: rueda.Range) -> Rows:
            asked.append(rows)
            known = [b for n, b in past.items() if n <= kept and n > (rows.after or 0)]
            return Rows(known[::-1] if rows.newest else known)

        client.bars = bars
        kept = 2
        live = rueda.pandas.LiveBars(client, GGAL, "1s", rueda.Range(newest=True, limit=2))
        self.assertEqual(list(live.frame["n"]), [1, 2])
        kept = 6
        self.assertTrue(live.add(past[5]))  # 3 and 4 were closed meanwhile, and 6 too
        self.assertEqual(list(live.frame["n"]), [1, 2, 3, 4, 5, 6])
        self.assertEqual(asked[-1].after, 2)
        self.assertFalse(live.add(past[6]))
        self.assertTrue(live.add(past[7]))
        self.assertEqual(len(asked), 2)
        self.assertFalse(live.add(rueda.Lost("bars", GGAL + "|1s", 8, None, "epoch_changed")))
        past, kept = {1: bar(1, 7, "0.5"), 2: bar(2, 8, "0.6")}, 1
        self.assertTrue(live.add(past[2]))
        self.assertEqual(asked[-1].after, 0)
        self.assertEqual(list(live.frame["n"]), [1, 2, 3, 4, 5, 6, 1, 2])
        self.assertEqual(live.frame["close"].iloc[-2], 0.5)


if __name__ == "__main__":
    unittest.main()
