"""Tokens of a login: stored before they are used, renewed once for all callers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Awaitable, Callable, Optional, Protocol, Union

from ._files import replaced
from ._threads import check_process, in_thread
from .errors import GatewayError, InvalidCredentials, ProtocolError, RuedaError, may_help
from .values import BROKEN, MAX_LIFE, seconds, text

RENEW_AGAIN = 0.5  # between two renewals of a stream, whatever lifetimes a gateway states

log = logging.getLogger("rueda")


@dataclass(frozen=True)
class Tokens:
    """The tokens of a login. Times are in seconds since 1970."""

    access: str = field(default="", repr=False)
    expires: float = 0.0
    refresh: str = field(default="", repr=False)
    refresh_expires: float = 0.0
    scope: str = ""


class TokenStore(Protocol):
    """Keeps tokens between runs of a program. Its methods may block; one is called at a time."""

    def load(self) -> Tokens:
        """Returns the stored tokens, or Tokens() if there are none."""

    def save(self, tokens: Tokens) -> None:
        """Stores tokens. It returns when they are durable."""


def _token(value: Any) -> str:
    """Returns a token, which a header can have."""
    if not text(value).isascii() or not value.isprintable() or " " in value or not value:
        raise ValueError("not a token")
    return str(value)


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).isoformat()


class FileStore:
    """Keeps tokens in a file that only the user may read, in the format of the Go client.

    A crash leaves the old or the new tokens: save writes a temporary file, syncs and renames it.
    """

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = Path(path)

    def load(self) -> Tokens:
        """Returns the stored tokens, or Tokens() if there is no file. RuedaError: it is damaged."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return Tokens()
        try:
            v = json.loads(data)
            return Tokens(
                str(v["access_token"]),
                datetime.fromisoformat(v["expires"]).timestamp(),
                str(v["refresh_token"]),
                datetime.fromisoformat(v["refresh_expires"]).timestamp(),
                str(v.get("scope", "")),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
            raise RuedaError(f"the file of tokens {self.path} is damaged") from err

    def save(self, tokens: Tokens) -> None:
        """Stores tokens, with the mode 0600."""
        text = json.dumps(
            {
                "access_token": tokens.access,
                "expires": _text(tokens.expires),
                "refresh_token": tokens.refresh,
                "refresh_expires": _text(tokens.refresh_expires),
                "scope": tokens.scope,
            }
        )
        with replaced(self.path, 0o600) as f:
            f.write(text.encode())


Post = Callable[[str, dict[str, str]], Awaitable[Any]]
"""Sends a request without a token to a path, and returns the data of the answer."""

OTP = Callable[[], Awaitable[str]]


class TokenKeeper:
    """Has the tokens of a client and renews them. It belongs to one event loop."""

    def __init__(
        self,
        post: Post,
        username: str,
        password: str,
        otp: Optional[OTP],
        store: Optional[TokenStore],
    ) -> None:
        self._post = post
        self._username = username
        self._password = password
        self._otp = otp
        self._store = store
        self._now = Tokens()
        self._renew = 0.0  # of the monotonic clock
        self._tried = 0.0  # the last attempt, likewise
        self._loaded = store is None
        self._attempt: Optional[asyncio.Task[Tokens]] = None
        self._process = os.getpid()

    @property
    def current(self) -> Tokens:
        """The tokens as they are, perhaps expired."""
        return self._now

    @property
    def until_renewal(self) -> float:
        """Seconds until a stream renews the tokens."""
        return max(self._renew, self._tried + RENEW_AGAIN) - time.monotonic()

    def _valid(self) -> bool:
        return self._now.access != "" and time.monotonic() < self._renew

    def renew_within(self, seconds: float) -> None:
        """Makes get renew the tokens no later than after a time."""
        self._renew = min(self._renew, time.monotonic() + seconds)

    def invalidate(self, access: str) -> None:
        """Discards an access token that the gateway has refused."""
        if self._now.access == access:
            self._now = Tokens("", 0.0, self._now.refresh, self._now.refresh_expires)

    async def get(self) -> Tokens:
        """Returns tokens with a valid access token. It renews them at 80 % of its life.

        One attempt serves all callers, and goes on if one of them is cancelled. If it fails, the
        old tokens are used while they are valid.
        """
        check_process(self._process)
        if self._valid():
            return self._now
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._renewed())
            self._attempt.add_done_callback(self._attempted)
        return await asyncio.shield(self._attempt)

    def _attempted(self, task: asyncio.Task[Tokens]) -> None:
        self._attempt = None
        if not task.cancelled():
            task.exception()  # the callers have it

    async def close(self) -> None:
        """Ends an attempt that nobody waits for."""
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait([self._attempt])

    async def end(self) -> None:
        """Ends the login of the client or, if the client has not used it yet, of the store."""
        check_process(self._process)
        if self._attempt is not None:  # it must not store tokens afterwards
            await asyncio.wait([self._attempt])
        if not self._loaded:
            await self._load()
        if not self._now.refresh:
            return
        await self._post("/auth/revoke", {"token": self._now.refresh})
        if self._store is not None:
            store = self._store
            await in_thread(lambda: store.save(Tokens()))
        self._now = Tokens()

    async def _renewed(self) -> Tokens:
        if not self._loaded:
            await self._load()
            if self._valid():
                return self._now
        began, old = time.monotonic(), self._now
        try:
            fresh, life = await self._request(old)
        except (RuedaError, OSError) as err:
            self._tried = time.monotonic()
            rest = old.expires - time.time()
            if not old.access or rest <= 0 or not may_help(err):
                raise
            self._renew = time.monotonic() + max(rest / 10, 1.0)
            return old
        self._now = await self._saved(fresh, old)
        self._tried = time.monotonic()
        self._renew = began + life * (0.8 + random.random() * 0.05)
        return self._now

    async def _load(self) -> None:
        store = self._store
        assert store is not None
        try:
            stored = await in_thread(store.load)
        except (RuedaError, OSError):
            if not self._password:
                raise
            log.warning("tokens not loaded", exc_info=True)
            stored = Tokens()
        self._loaded = True
        self._now = stored
        rest = stored.expires - time.time()
        if rest > 60:  # with little of its life left, an access token is not used
            self._renew = time.monotonic() + rest / 2

    async def _saved(self, fresh: Tokens, old: Tokens) -> Tokens:
        """Stores tokens. A refresh token that could not be stored is not used: the one before it
        stays valid."""
        if self._store is None:
            return fresh
        store = self._store
        try:
            await in_thread(lambda: store.save(fresh))
        except (RuedaError, OSError):
            log.warning("tokens not stored", exc_info=True)
            return Tokens(
                fresh.access, fresh.expires, old.refresh, old.refresh_expires, fresh.scope
            )
        return fresh

    async def _request(self, old: Tokens) -> tuple[Tokens, float]:
        if old.refresh:
            try:
                return await self._grant(
                    {"grant_type": "refresh_token", "refresh_token": old.refresh}
                )
            except GatewayError as err:
                if not self._password or err.code != 401:
                    raise
        if not self._password:
            raise InvalidCredentials(
                401, "invalid_credentials", "there is neither a password nor a stored token"
            )
        login = {
            "grant_type": "password",
            "username": self._username,
            "password": self._password,
        }
        try:
            return await self._grant(login)
        except GatewayError as err:
            if err.reason != "mfa_required" or self._otp is None:
                raise
        login["otp"] = await self._otp()
        return await self._grant(login)

    async def _grant(self, body: dict[str, str]) -> tuple[Tokens, float]:
        """Requests tokens. Times count from before the request, so that the clock of the gateway
        does not matter."""
        began = time.time()
        v = await self._post("/auth/token", body)
        try:
            life = seconds(v["expires_in"], MAX_LIFE)
            tokens = Tokens(
                _token(v["access_token"]),
                began + life,
                _token(v["refresh_token"]),
                began + seconds(v["refresh_expires_in"], MAX_LIFE),
                text(v.get("scope", "")),
            )
        except BROKEN as err:
            raise ProtocolError("the answer to a login has no tokens") from err
        return tokens, life
