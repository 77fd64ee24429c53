"""Requests of REST, with the standard library."""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Mapping, Optional, Sequence

from ._threads import in_thread
from .errors import ConnectionBroken, GatewayError, ProtocolError, response_error
from .tokens import TokenKeeper
from .values import constant, decimal_of

ANSWER_TIMEOUT = 30.0  # between two parts of an answer
WHOLE_TIMEOUT = 120.0  # until its end
MAX_ANSWER = 64 << 20
MAX_TRIES = 3
MAX_WAIT = 60.0  # longest wait that a gateway may request in the middle of a call


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: a token is sent to no other address."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def parse_url(text: str, insecure: bool) -> str:
    """Returns the address of a gateway without a slash at its end. ValueError: it is none."""
    parts = urllib.parse.urlsplit(text)
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    bad = parts.username is not None or parts.query or not parts.hostname
    if scheme not in ("http", "https") or bad:
        raise ValueError(f"{text!r} is not the URL of a gateway, such as https://broker.example")
    if scheme == "http" and not insecure and not is_loopback(parts.hostname or ""):
        raise ValueError(
            f"{parts.hostname} would get the password unencrypted: use https, or insecure=True"
        )
    path = parts.path.rstrip("/").removesuffix("/stream").rstrip("/")
    return f"{scheme}://{parts.netloc}{path}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine. It is reached without a proxy."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def path_part(text: str) -> str:
    """Returns a text as one part of a path."""
    return urllib.parse.quote(text, safe="")


class Rest:
    """Requests to a gateway at one or more URLs."""

    def __init__(
        self, urls: Sequence[str], agent: str, context: Optional[ssl.SSLContext]
    ) -> None:
        self.urls = urls
        self.at = 0  # index of the URL in use
        self.tokens: Optional[TokenKeeper] = None
        self._agent = agent
        https = urllib.request.HTTPSHandler(context=context)
        direct = urllib.request.ProxyHandler({})
        self._proxied = urllib.request.build_opener(https, _NoRedirect())
        self._direct = urllib.request.build_opener(https, _NoRedirect(), direct)

    @property
    def url(self) -> str:
        """The URL in use."""
        return self.urls[self.at % len(self.urls)]

    async def post(self, path: str, body: Mapping[str, str]) -> Any:
        """Sends a request without a token."""
        return _data(await self._anywhere("POST", path, json.dumps(body).encode(), ""))

    async def get(self, path: str, query: Optional[Mapping[str, str]] = None) -> Any:
        """Requests a path with the access token, and returns the data of the answer.

        It waits if the gateway asks for it, and renews a refused token once.
        """
        assert self.tokens is not None
        full = path + ("?" + urllib.parse.urlencode(query) if query else "")
        for attempt in range(1, MAX_TRIES + 1):
            access = (await self.tokens.get()).access
            try:
                return _data(await self._anywhere("GET", full, None, access))
            except GatewayError as err:
                if attempt == MAX_TRIES:
                    raise
                if err.code == 401 and attempt == 1:
                    self.tokens.invalidate(access)
                elif err.reason == "rate_limited" or err.code == 503:
                    if err.retry_after > MAX_WAIT:
                        raise
                    await asyncio.sleep(max(err.retry_after, 0.1))
                else:
                    raise
        raise AssertionError("not reached")

    async def _anywhere(self, method: str, path: str, body: Optional[bytes], access: str) -> bytes:
        """Sends a request to the URL in use or, if it cannot be reached, to the next ones."""
        failure: Exception = ConnectionBroken("no URL")
        for i in range(len(self.urls)):
            base = self.urls[(self.at + i) % len(self.urls)]
            try:
                async with asyncio.timeout(WHOLE_TIMEOUT):
                    return await in_thread(lambda: self._send(base, method, path, body, access))
            except TimeoutError:
                failure = ConnectionBroken("connection broken: the answer does not end")
            except GatewayError as err:
                if err.code != 503 and err.reason:
                    raise
                failure = err
            except ConnectionBroken as err:
                failure = err
        raise failure

    def _send(self, base: str, method: str, path: str, body: Optional[bytes], access: str) -> bytes:
        request = urllib.request.Request(base + path, data=body, method=method)
        request.add_header("User-Agent", self._agent)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if access:
            request.add_unredirected_header("Authorization", "Bearer " + access)
        host = urllib.parse.urlsplit(base).hostname or ""
        opener = self._direct if is_loopback(host) else self._proxied
        try:
            with opener.open(request, timeout=ANSWER_TIMEOUT) as answer:
                data = _read(answer, time.monotonic() + WHOLE_TIMEOUT)
        except urllib.error.HTTPError as err:
            raise _refusal(err) from None
        except urllib.error.URLError as err:
            raise ConnectionBroken(f"connection broken: {err.reason}") from err
        except (OSError, http.client.HTTPException) as err:
            raise ConnectionBroken(f"connection broken: {err}") from err
        if len(data) > MAX_ANSWER:
            raise ProtocolError("an answer is longer than 64 MiB")
        return data


def _read(answer: Any, end: float) -> bytes:
    """Returns an answer, or a part that is longer than MAX_ANSWER. It ends at a time."""
    data = bytearray()
    while len(data) <= MAX_ANSWER and (part := answer.read1(1 << 16)):
        if time.monotonic() > end:
            raise OSError("the answer does not end")
        data += part
    return bytes(data)


def _refusal(err: urllib.error.HTTPError) -> GatewayError:
    """Returns the error of an answer with a status of an error."""
    with err:
        try:
            text = err.read(1 << 16)
        except (OSError, http.client.HTTPException):
            text = b""  # the status says what there is
    return response_error(err.code, dict(err.headers.items()), text)


def _data(body: bytes) -> Any:
    try:
        answer = json.loads(body, parse_float=decimal_of, parse_constant=constant)
    except (ValueError, ArithmeticError, RecursionError) as err:
        raise ProtocolError("the answer is not from a gateway") from err
    if not isinstance(answer, dict) or answer.get("success") is not True:
        raise ProtocolError("the answer is not from a gateway")
    return answer.get("data")
