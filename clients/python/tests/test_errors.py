"""The classes of errors, compared with the table of reasons in docs/protocol.md."""

from __future__ import annotations

import json
import re
import unittest
from pathlib import Path

import rueda
from rueda.errors import CLASSES, CLOSING, gateway_error, response_error

PROTOCOL = Path(__file__).parents[3] / "docs" / "protocol.md"


class ReasonsTest(unittest.TestCase):
    def test_every_reason_has_a_class(self) -> None:
        text = PROTOCOL.read_text()
        table = text.split("<!-- table reasons -->")[1].split("<!-- /table -->")[0]
        rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", table, re.M)
        self.assertGreater(len(rows), 40)
        self.assertEqual({reason for reason, _ in rows}, set(CLASSES))
        self.assertEqual({reason for reason, socket in rows if "closes" in socket}, CLOSING)

    def test_final(self) -> None:
        for reason, final in (("replaced", True), ("token_expired", False), ("unknown", True)):
            self.assertEqual(gateway_error(409, reason).final, final, reason)
        self.assertFalse(gateway_error(409, "unknown", retry=True).final)
        self.assertTrue(gateway_error(400, "new_word", closed=True).final)

    def test_response(self) -> None:
        body = json.dumps({"error": {"reason": "rate_limited", "msg": "Wait", "request_id": "r"}})
        error = response_error(429, {"Retry-After": "7"}, body.encode())
        self.assertIsInstance(error, rueda.LimitExceeded)
        self.assertEqual((error.retry_after, error.request_id), (7, "r"))
        self.assertEqual(str(error), "rate_limited: Wait")
        rows = [{"field": "limit", "msg": "must be above 0"}, {"field": "end", "msg": "is\x1b"}, 7]
        text = {"reason": "bad_field", "msg": "limit must be above 0.", "details": rows, "hint": "H"}
        error = response_error(400, {}, json.dumps({"error": text}).encode())
        self.assertEqual(error.details, ("limit must be above 0", "end is\ufffd"))
        self.assertEqual(str(error), "bad_field: limit must be above 0.: end is\ufffd. H")
        for body in ("", "[]", "<html>", '{"error":[]}', '{"error":{"reason":7}}', "[" * 100_000):
            error = response_error(502, {"Retry-After": "soon"}, body.encode())
            self.assertEqual((error.reason, error.retry_after), ("", 0))
        self.assertEqual(response_error(503, {"Retry-After": "9999999"}, b"").retry_after, 3600)


if __name__ == "__main__":
    unittest.main()
