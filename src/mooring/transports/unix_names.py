"""Names of Unix sockets: the kernel takes about a hundred bytes, and folders can be deeper than that."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LONGEST_PATH: Final = 100


@contextmanager
def short_name(path: Path) -> Generator[str]:
    """A name for the socket that fits into the kernel's limit, however deep its folder is."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
