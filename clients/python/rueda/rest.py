"""Requests of REST, with the standard library."""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import json
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Awaitable, BinaryIO, Callable, Mapping, Optional, Sequence, TypeVar

from ._files import replaced
from ._threads import in_thread
from .errors import ConnectionBroken, GatewayError, ProtocolError, response_error
from .tokens import TokenKeeper
from .values import constant, decimal_of

T = TypeVar("T")
ANSWER_TIMEOUT = 30.0  # between two parts of an answer
WHOLE_TIMEOUT = 120.0  # until its end
MAX_ANSWER = 64 << 20
MAX_TRIES = 3
MAX_WAIT = 60.0  # longest wait that a gateway may request in the middle of a call


_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""What OpenSSL says about an answer that is not TLS."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: a token is sent to no other address."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def parse_url(text: str, insecure: bool) -> str:
    """Returns the address of a gateway without a slash at its end. ValueError: it is none."""
    try:
        parts = urllib.parse.urlsplit(text)
        _ = parts.port  # ValueError: it is none
    except ValueError as err:
        raise ValueError(f"the URL {text!r} is not valid: {err}") from None
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    wrong = ""
    if scheme not in ("http", "https"):
        wrong = "it begins with neither https:// nor http://"
    elif not parts.hostname or not text.isprintable() or " " in text:
        wrong = "it names no host, or has a space"
    elif parts.username is not None:
        wrong = "pass the user and the password as arguments"
    elif parts.query:
        wrong = "it has a query"
    if wrong:
        raise ValueError(f"{text!r} is not the URL of a gateway: {wrong}")
    if scheme == "http" and not insecure and not is_loopback(parts.hostname or ""):
        raise ValueError(
            f"{parts.hostname} would get the password unencrypted: use https, or insecure=True"
        )
    path = parts.path.rstrip("/").removesuffix("/stream").rstrip("/")  # of a proxy
    address = f"{scheme}://{parts.netloc}"
    page = re.search("/(client|console|docs)(/|$)", path)
    if page:
        raise ValueError(
            f"{text!r} is the URL of a page. Write {address}{path[: page.start()]}"
        )
    return address + path


def is_loopback(host: str) -> bool:
    """Whether a host is this machine. It is reached without a proxy."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def path_part(text: str) -> str:
    """Returns a string as one part of a path."""
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
        full = path + ("?" + urllib.parse.urlencode(query) if query else "")
        return _data(await self._authorized(lambda a: self._anywhere("GET", full, None, a)))

    async def save(
        self,
        path: str,
        query: Mapping[str, str],
        file: Path,
        accept: Callable[[Mapping[str, str]], None],
        progress: Optional[Callable[[int], None]],
    ) -> None:
        """Requests a path, and writes the answer to a file, whatever its length. It begins again if
        the answer is cut off. It calls accept with the headers of each answer; an error of accept
        ends the request."""
        full = path + "?" + urllib.parse.urlencode(query)
        stopped = threading.Event()
        for attempt in range(1, MAX_TRIES + 1):
            base = self.urls[(self.at + attempt - 1) % len(self.urls)]

            def save(access: str, base: str = base) -> None:
                with self._open(base, "GET", full, None, access) as answer:
                    accept(dict(answer.headers.items()))
                    with replaced(file, 0o666) as to:
                        _copy(base, answer, to, stopped, progress)

            try:
                return await self._authorized(lambda access: in_thread(lambda: save(access)))
            except ConnectionBroken:
                if attempt == MAX_TRIES:
                    raise
                await asyncio.sleep(attempt)
            except asyncio.CancelledError:
                stopped.set()  # the thread
                raise

    async def _authorized(self, send: Callable[[str], Awaitable[T]]) -> T:
        """Sends a request with the access token. It waits if the gateway asks for it, and renews a
        refused token once."""
        assert self.tokens is not None
        for attempt in range(1, MAX_TRIES + 1):
            access = (await self.tokens.get()).access
            try:
                return await send(access)
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
        with self._open(base, method, path, body, access) as answer:
            try:
                data = _read(answer, time.monotonic() + WHOLE_TIMEOUT)
            except (OSError, http.client.HTTPException) as err:
                raise broken(base, err) from None
        if len(data) > MAX_ANSWER:
            raise ProtocolError("an answer is longer than 64 MiB")
        return data

    def _open(self, base: str, method: str, path: str, body: Optional[bytes], access: str) -> Any:
        """Sends a request and returns a successful answer, whose body is not read yet."""
        request = urllib.request.Request(base + path, data=body, method=method)
        request.add_header("User-Agent", self._agent)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if access:
            request.add_unredirected_header("Authorization", "Bearer " + access)
        host = urllib.parse.urlsplit(base).hostname or ""
        opener = self._direct if is_loopback(host) else self._proxied
        try:
            return opener.open(request, timeout=ANSWER_TIMEOUT)
        except urllib.error.HTTPError as err:
            raise _refusal(err) from None
        except http.client.InvalidURL as err:  # of the program, not of the network
            raise ValueError(f"the path {path!r} is not valid: {err}") from None
        except (OSError, http.client.HTTPException) as err:  # a URLError is an OSError
            raise broken(base, err) from None


def broken(url: str, error: Exception) -> ConnectionBroken:
    """Returns the error of a connection that broke or could not be made, with its cause and
    advice."""
    cause = getattr(error, "reason", "") if isinstance(error, urllib.error.URLError) else error
    text = str(cause) or "no answer"
    if isinstance(cause, ConnectionRefusedError):
        text = "connection refused. Is the gateway running there?"
    elif isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
        text = "the server does not use TLS. For a gateway without TLS, write "
        text += url.replace("https://", "http://")
    return ConnectionBroken(f"connection broken: {url}: {text}")


def _read(answer: Any, end: float) -> bytes:
    """Returns an answer, or a part that is longer than MAX_ANSWER. It ends at a time."""
    data = bytearray()
    while len(data) <= MAX_ANSWER and (part := answer.read1(1 << 16)):
        if time.monotonic() > end:
            raise OSError("the answer does not end")
        data += part
    return bytes(data)


def _copy(
    base: str,
    answer: Any,
    to: BinaryIO,
    stopped: threading.Event,
    progress: Optional[Callable[[int], None]],
) -> None:
    """Copies an answer to a file."""
    done = 0
    while True:
        try:
            part = answer.read1(1 << 16)
        except (OSError, http.client.HTTPException) as err:
            raise broken(base, err) from None
        if stopped.is_set():
            raise ConnectionBroken("the program has stopped the download")
        if not part:
            return
        to.write(part)
        done += len(part)
        if progress is not None:
            progress(done)


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
