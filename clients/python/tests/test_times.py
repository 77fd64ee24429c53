"""Times that a program passes: with a zone, or dates."""

from __future__ import annotations

import importlib.util
import os
import time
import unittest
from datetime import date, datetime, timedelta, timezone
from typing import Any
from unittest import mock
from zoneinfo import ZoneInfo

import rueda
from rueda.events import utc

BUENOS_AIRES = "America/Argentina/Buenos_Aires"
NAIVE = datetime(2026, 11, 20, 11, 30)


class TimesTest(unittest.TestCase):
    def local_zone(self, name: str) -> None:
        zone = mock.patch.dict(os.environ, TZ=name)
        zone.start()
        time.tzset()
        self.addCleanup(time.tzset)  # after the next one
        self.addCleanup(zone.stop)

    def test_zones(self) -> None:
        self.local_zone(BUENOS_AIRES)
        for at in (
            datetime(2026, 11, 20, 14, 30, tzinfo=timezone.utc),
            datetime(2026, 11, 20, 11, 30, tzinfo=timezone(timedelta(hours=-3))),
            datetime(2026, 11, 20, 23, 30, tzinfo=ZoneInfo("Asia/Tokyo")),
            NAIVE.astimezone(),
        ):
            query = rueda.Range(start=at).query("A|B|C")
            self.assertEqual(query["start"], "2026-11-20T14:30:00.000000000Z", at)

    def test_no_zone(self) -> None:
        """A time without a zone is refused where the program writes it, in every zone."""
        for zone in (BUENOS_AIRES, "UTC"):
            self.local_zone(zone)
            for times in ((NAIVE, None), (None, NAIVE)):
                with self.assertRaisesRegex(ValueError, "11:30:00 has no zone"):
                    rueda.Range(*times)
            with rueda.Client("http://127.0.0.1:9") as client:
                with self.assertRaisesRegex(ValueError, "has no zone"):
                    client.order_book("A|B|C", at=NAIVE)

    def test_dates(self) -> None:
        query = rueda.Range(start=date(2026, 11, 20), end=date(2026, 11, 21)).query("A|B|C")
        self.assertEqual((query["start"], query["end"]), ("2026-11-20", "2026-11-21"))

    def test_texts(self) -> None:
        """A text without a zone is in UTC, in every zone of the machine."""
        self.local_zone(BUENOS_AIRES)
        for text, want in (
            ("2026-11-22", "2026-11-22"),
            ("2026-11-22T10:00", "2026-11-22T10:00:00.000000000Z"),
            ("2026-11-22 10:00:01.5", "2026-11-22T10:00:01.500000000Z"),
            ("2026-11-22T10:00-03:00", "2026-11-22T13:00:00.000000000Z"),
            ("2026-11-22T10:00:00.123456789Z", "2026-11-22T10:00:00.123456789Z"),
        ):
            self.assertEqual(rueda.Range(start=text).query("A|B|C")["start"], want, text)
        for text in ("", "7", "7w", "-7d", "tomorrow", "2026-13-01", "2026-11-22T25:00"):
            with self.assertRaisesRegex(ValueError, f"Range.start: '{text}' is not a time: write"):
                rueda.Range(start=text)

    def test_ago(self) -> None:
        for text, seconds in (("7d", 7 * 86400), ("36h", 36 * 3600), ("5m", 300), ("90s", 90)):
            before = datetime.now(timezone.utc) - timedelta(seconds=seconds)
            at = datetime.fromisoformat(utc(text)[:26] + "+00:00")
            self.assertLess(abs(at - before), timedelta(seconds=5), text)

    def test_other_types(self) -> None:
        wrong: list[Any] = [1795185000, 1.5, b"2026-11-20"]
        for value in wrong:
            with self.assertRaisesRegex(TypeError, "with a zone, a date, a string such as"):
                rueda.Range(start=value)

    @unittest.skipUnless(
        importlib.util.find_spec("pandas"), "RUEDA_REQUIRE_ALL makes missing tools an error"
    )
    def test_pandas(self) -> None:
        import pandas as pd

        at = pd.Timestamp("2026-11-20T11:30:00.123456789", tz=BUENOS_AIRES)
        self.assertEqual(utc(at), "2026-11-20T14:30:00.123456789Z")
        for bad in (at.tz_localize(None), pd.NaT):
            with self.assertRaises(ValueError):
                rueda.Range(start=bad)


if __name__ == "__main__":
    unittest.main()
