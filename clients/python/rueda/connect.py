"""Connects the stream, and connects it again when the connection ends."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import logging
import random
import time
import urllib.parse
from typing import Any, Optional

from .engine import Engine, nothing
from .errors import (
    ConnectionBroken,
    GatewayError,
    ProtocolError,
    Replaced,
    may_help,
    reason_of,
    response_error,
)
from .events import State
from .link import DIAL_TIMEOUT, Link
from .rest import broken, is_loopback

FIRST_BACKOFF = 0.5
OWN_DELAY = 60.0  # how long after a connection broke off its messages may reach the gateway
MAX_BACKOFF = 30.0
MAX_MESSAGE = 16 << 20

# At the level debug, websockets logs what is sent: tokens.
_quiet = logging.getLogger("rueda.websockets")
_quiet.setLevel(logging.INFO)


class Connector:
    """Keeps a stream connected."""

    def __init__(self, engine: Engine) -> None:
        _check_websockets()
        self.engine = engine
        self._broke: Optional[float] = None  # when the last connection broke off

    async def run(self) -> None:
        """Connects until it is cancelled. Raises an error after which another attempt cannot
        help."""
        try:
            while True:
                error = await self._connect()
                self.engine.disconnected()
                own = self._replaced_by_own(error)
                if not (own or may_help(error)):
                    self.engine.enter(State.CLOSED, error)
                    raise error
                wait = self._pause(error)
                self.engine.enter(State.WAITING, error, wait)
                self.engine.rest.at += 1
                await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self.engine.disconnected()
            self.engine.enter(State.IDLE)
            raise

    def _replaced_by_own(self, error: BaseException) -> bool:
        """Notes how a connection ended. Returns whether an earlier connection of this client may
        have taken over the session: it broke off, and the network delivered its token late."""
        broke, self._broke = self._broke, None
        if not isinstance(error, GatewayError) or not error.closed:
            self._broke = time.monotonic()
        recent = broke is not None and time.monotonic() - broke < OWN_DELAY
        return isinstance(error, Replaced) and recent

    def _pause(self, error: BaseException) -> float:
        """Returns how long to wait: as the gateway has asked, or a random part of a bound that
        doubles. So clients of a gateway that was down do not all come at once."""
        until = self.engine.reconnect_at - time.monotonic()
        self.engine.reconnect_at = 0.0
        if until > 0:
            return until
        self.engine.bound = min(max(2 * self.engine.bound, FIRST_BACKOFF), MAX_BACKOFF)
        asked = error.retry_after if isinstance(error, GatewayError) else 0.0
        return random.random() * self.engine.bound + asked

    async def _connect(self) -> BaseException:
        """Makes one connection, and returns what has ended it."""
        self.engine.enter(State.CONNECTING)
        access = ""
        try:
            tokens = await self.engine.tokens.get()
            access = tokens.access
            socket = await self._dial()
            self.engine.enter(State.AUTHENTICATING)
            link = Link(self.engine, socket, tokens)
            self.engine.changed = link.reconcile
            await link.run()
        except Exception as error:
            if reason_of(error) in ("invalid_token", "token_expired"):
                self.engine.tokens.invalidate(access)
            url = self.engine.rest.url
            if isinstance(error, (ConnectionBroken, ProtocolError)) and url not in str(error):
                return type(error)(f"{url}: {error}")
            return error
        finally:
            self.engine.changed = nothing
        raise AssertionError("a connection ends with an error")

    async def _dial(self) -> Any:
        """Opens the stream, with what the legacy and the current websockets have in common."""
        websockets: Any = importlib.import_module("websockets")
        exceptions: Any = importlib.import_module("websockets.exceptions")
        url = "ws" + self.engine.rest.url.removeprefix("http") + "/stream"
        options: dict[str, Any] = {}
        if url.startswith("wss:") and self.engine.settings.ssl is not None:
            options["ssl"] = self.engine.settings.ssl
        host = urllib.parse.urlsplit(url).hostname or ""
        if is_loopback(host) and "proxy" in inspect.signature(websockets.connect).parameters:
            options["proxy"] = None  # websockets 15 or later takes that of the environment
        try:
            async with asyncio.timeout(DIAL_TIMEOUT):
                return await _without_redirects(websockets.connect, exceptions)(
                    url,
                    compression="deflate" if self.engine.settings.compress else None,
                    open_timeout=None,
                    close_timeout=1,
                    ping_interval=None,  # the gateway's own pings are answered
                    max_size=MAX_MESSAGE,
                    max_queue=256,
                    logger=_quiet,
                    **options,
                )
        except (OSError, EOFError) as err:
            raise broken(self.engine.rest.url, err) from None
        except exceptions.InvalidHandshake as err:
            raise _refused(err) from None
        except exceptions.WebSocketException as err:
            raise broken(self.engine.rest.url, err) from None


def _check_websockets() -> None:
    """Raises ModuleNotFoundError if websockets is not installed."""
    if importlib.util.find_spec("websockets") is None:
        raise ModuleNotFoundError(
            "the stream needs the package websockets: python3 -m pip install 'websockets>=10.4', "
            "or on Debian: apt-get install python3-websockets"
        )


def _without_redirects(connect: Any, exceptions: Any) -> Any:
    """Returns connect of websockets with redirects as errors. The first message is the token, which
    must not be sent to another address."""

    def handle_redirect(_: Any, uri: str) -> None:  # of the legacy websockets
        raise exceptions.SecurityError("the gateway redirects the stream")

    def process_redirect(_: Any, error: Exception) -> Exception:  # of the current ones
        return error

    methods = {"handle_redirect": handle_redirect, "process_redirect": process_redirect}
    return type("ConnectWithoutRedirects", (connect,), methods)


def _refused(err: Any) -> Exception:
    """Returns the error of a refused handshake, of the legacy or the current websockets."""
    response = getattr(err, "response", None)
    if response is not None:
        return response_error(response.status_code, response.headers, response.body or b"")
    if hasattr(err, "status_code"):
        return response_error(err.status_code, err.headers, b"")
    return ConnectionBroken(f"connection broken: {err}")
