"""Numbers and texts of answers, checked and within bounds.

A value of another type is a TypeError, one out of bounds an ArithmeticError or a ValueError. All of
them are in BROKEN.
"""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import Any, NoReturn

BROKEN = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError)
"""Errors of reading a wrong answer."""

MAX_REQUESTED = 3600.0
"""Longest wait in seconds that a gateway may request."""

MAX_LIFE = 10 * 365 * 86_400.0
"""Longest lifetime of a token in seconds."""

MAX_TEXT = 1000  # characters of a text for people
MAX_N = (1 << 64) - 1
MAX_INT = 10**60  # of a price, size or volume

_context = Context(100, Emin=-100, Emax=100, traps=[InvalidOperation, Overflow, Inexact])
decimal_of = _context.create_decimal
"""Returns the exact number of a string. ArithmeticError: it has more than 100 digits, or an
exponent that large."""


def constant(text: str) -> NoReturn:
    """Refuses NaN and Infinity, which are not JSON."""
    raise ValueError(f"{text} is not a number")


def number(value: Any) -> Decimal:
    """Returns a price, size or volume."""
    if value.__class__ is Decimal:
        return value  # type: ignore[no-any-return]
    if value.__class__ is int and -MAX_INT < value < MAX_INT:
        return Decimal(value)
    raise TypeError("not a number")


def whole(value: Any) -> int:
    """Returns a number N, or a count."""
    if value.__class__ is int and 0 <= value <= MAX_N:
        return value  # type: ignore[no-any-return]
    raise TypeError("not a whole number")


def seconds(value: Any, most: float) -> float:
    """Returns a time as a float: 0 for a negative one, and most for a longer one."""
    if value.__class__ not in (int, float, Decimal):
        raise TypeError("not a number")
    return float(min(max(value, 0), most))


def text(value: Any) -> str:
    """Returns a string for programs, such as an identifier."""
    if value.__class__ is not str:
        raise TypeError("not a string")
    return value  # type: ignore[no-any-return]


def printable(value: Any) -> str:
    """Returns a text for people, of at most MAX_TEXT characters, and "" for what is not a string.

    Characters that a terminal could act on are replaced.
    """
    if not isinstance(value, str):
        return ""
    value = value[:MAX_TEXT]
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else "\ufffd" for c in value)
