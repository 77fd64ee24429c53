"""Threads and processes."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Callable, TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    """Runs a blocking call on a thread of its own. The end of a program does not wait for it."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def done(value: T | None, error: BaseException | None) -> None:
        if result.done():
            return  # nobody waits any more
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, error = None, None
        try:
            value = call()
        except BaseException as err:  # it belongs to the caller
            error = err
        try:
            loop.call_soon_threadsafe(done, value, error)
        except RuntimeError:
            pass  # the loop is closed

    threading.Thread(target=run, name="rueda", daemon=True).start()
    return await result


def check_process(made_in: int) -> None:
    """Raises RuntimeError in a process that was forked from the process of a client.

    The two may share neither a connection nor a refresh token, which can be used only once.
    """
    if os.getpid() != made_in:
        raise RuntimeError(
            "this client was made in the parent process: make a new client after the fork"
        )
