"""Errors of the client. What a gateway refuses is a GatewayError, of a subclass by its reason."""

from __future__ import annotations

import json
from typing import Mapping, Optional, Sequence

from .values import MAX_REQUESTED, printable


class RuedaError(Exception):
    """Base of all errors of this package."""


class ConnectionBroken(RuedaError):
    """The connection ended, or could not be made. The client connects again by itself."""

    def __init__(self, msg: str = "") -> None:
        super().__init__(printable(msg))


class ProtocolError(RuedaError):
    """A message or an answer is not one of a gateway."""


class InvalidBook(RuedaError):
    """The book is not known at present."""


class ChainError(InvalidBook):
    """An update does not follow the book."""


class ChecksumError(InvalidBook):
    """The checksum of the book is wrong."""


class GatewayError(RuedaError):
    """What a gateway answered instead of what was requested.

    code is as in HTTP, reason the word to branch on ("": the answer is not from a gateway). msg,
    hint and details (about fields of the request) are for people. The text of the error includes
    them. retry_after is in seconds, closed: the stream was closed with it. retry: the
    gateway says that the same may succeed later.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        msg: str = "",
        hint: str = "",
        retry_after: float = 0.0,
        request_id: str = "",
        closed: bool = False,
        retry: bool = False,
        details: Sequence[str] = (),
    ) -> None:
        reason, msg, hint = printable(reason), printable(msg), printable(hint)
        details = tuple(map(printable, details))
        text = f"{reason}: {msg}" if msg else reason or f"the server answered {code}"
        for detail in details:
            if detail not in text:
                text += ": " + detail
        if hint:
            text = f"{text.rstrip('.')}. {hint}"
        super().__init__(text)
        self.code = code
        self.reason = reason
        self.msg = msg
        self.hint = hint
        self.details = details
        self.retry_after = min(max(retry_after, 0.0), MAX_REQUESTED)
        self.request_id = printable(request_id)
        self.closed = closed
        self.retry = retry

    @property
    def final(self) -> bool:
        """Whether trying again cannot help. It can with retry, after a failure of the gateway (408
        and 5xx) or a wait (429), and with a new access token."""
        again = self.retry or self.code in (408, 429) or self.code >= 500
        return not again and self.reason not in ("invalid_token", "token_expired")


class RequestError(GatewayError):
    """The request is wrong: correct it."""


class AuthenticationError(GatewayError):
    """The credentials or the tokens are not accepted."""


class InvalidCredentials(AuthenticationError):
    """The username, the password or the one-time password is wrong."""


class SecondFactorRequired(AuthenticationError):
    """The login needs a one-time password, or the enrolment of a second factor."""


class LoginEnded(AuthenticationError):
    """The login was ended, or its refresh token is not valid any more: log in again."""


class TokenExpired(AuthenticationError):
    """The access token is over or not valid. The client renews it by itself."""


class Forbidden(GatewayError):
    """The user has no right to this, or not from this address."""


class NotEntitled(Forbidden):
    """The user has no right to this market data."""


class NotFound(GatewayError):
    """There is no such thing: route, instrument, account, channel."""


class Replaced(GatewayError):
    """Another program uses the session name, and has taken the connection over."""


class EpochChanged(GatewayError):
    """Sequence numbers began again."""


class LimitExceeded(GatewayError):
    """More was requested than is allowed: wait retry_after, or ask for less."""


class Unavailable(GatewayError):
    """The gateway cannot do it at present: try again later."""


_GROUPS: list[tuple[type[GatewayError], str]] = [
    (
        RequestError,
        "invalid_request bad_json bad_field bad_instrument unsupported_grant_type"
        " method_not_allowed not_acceptable uri_too_long unsupported_media_type"
        " unsupported_option weak_password upgrade_required headers_too_big not_implemented"
        " bad_message unknown_action body_too_big"
        " message_too_big conflict not_authenticated",
    ),
    (InvalidCredentials, "invalid_credentials invalid_otp invalid_enrolment"),
    (SecondFactorRequired, "mfa_required mfa_enrolment_required"),
    (LoginEnded, "token_revoked invalid_refresh_token"),
    (TokenExpired, "invalid_token token_expired auth_timeout"),
    (Forbidden, "forbidden address_not_allowed subject_mismatch password_change_required"
        " second_factor_locked"),
    (NotEntitled, "not_entitled"),
    (NotFound, "not_found unknown_instrument unknown_channel"),
    (Replaced, "replaced"),
    (EpochChanged, "epoch_changed"),
    (
        LimitExceeded,
        "rate_limited connection_limit too_many_failures subscription_limit range_too_large"
        " slow_client",
    ),
    (Unavailable, "timeout internal unavailable overloaded shutting_down pong_timeout"),
]

CLASSES: Mapping[str, type[GatewayError]] = {
    reason: cls for cls, reasons in _GROUPS for reason in reasons.split()
}
"""The class of each reason. A reason that is not here is a plain GatewayError."""

CLOSING = frozenset(
    "invalid_token token_expired token_revoked address_not_allowed connection_limit"
    " too_many_failures internal overloaded shutting_down auth_timeout replaced message_too_big"
    " pong_timeout slow_client".split()
)
"""Reasons with which a gateway closes the stream."""


def gateway_error(
    code: int,
    reason: str,
    msg: str = "",
    hint: str = "",
    retry_after: float = 0.0,
    request_id: str = "",
    closed: bool = False,
    retry: bool = False,
    details: Sequence[str] = (),
) -> GatewayError:
    """Returns the error of a reason, of its class."""
    cls = CLASSES.get(reason, GatewayError)
    return cls(code, reason, msg, hint, retry_after, request_id, closed, retry, details)


def response_error(code: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
    """Returns the error of an answer of REST or of a refused handshake."""
    detail: object = None
    try:
        answer = json.loads(body)
        detail = answer.get("error") if isinstance(answer, dict) else None
    except (ValueError, RecursionError):
        pass  # without a body, the status says what there is
    members = detail if isinstance(detail, dict) else {}

    def text(name: str, of: Mapping[str, object] = members) -> str:
        value = of.get(name)
        return value if isinstance(value, str) else ""

    rows = members.get("details")
    details = [
        f"{text('field', row)} {text('msg', row)}"
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
    ]

    wait = headers.get("Retry-After", "") or ""
    seconds = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 8 else 0.0
    return gateway_error(
        code,
        text("reason"),
        text("msg"),
        text("hint"),
        seconds,
        text("request_id"),
        details=details,
    )


def may_help(error: BaseException) -> bool:
    """Whether another attempt can help: after an error of the network, an invalid message or
    answer, and a GatewayError that is not final. It cannot after a mistake of the program."""
    if isinstance(error, GatewayError):
        return not error.final
    return isinstance(error, (ConnectionBroken, ProtocolError))


def reason_of(error: Optional[BaseException]) -> str:
    """Returns the reason of a GatewayError, "" for any other error."""
    return error.reason if isinstance(error, GatewayError) else ""
