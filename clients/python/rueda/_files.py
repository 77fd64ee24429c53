"""Files that are replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import BinaryIO, Iterator


@contextlib.contextmanager
def replaced(path: Path, mode: int) -> Iterator[BinaryIO]:
    """Opens a temporary file that replaces the file at path at the end of the block.

    After an error or a crash, the old file remains.
    """
    name = f"{path}.{secrets.token_hex(6)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(name, flags, mode)
    try:
        with open(handle, "wb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    if os.name == "posix":  # make the rename durable
        fd = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
