"""The smallest image there is: one program that waits. It holds a network until the server joins it.

Made here, byte by byte, so that nothing has to be pulled: an ELF file whose only segment holds a loop around
the system call that sleeps until a signal.
"""

from __future__ import annotations

import io
import platform
import struct
import tarfile
from typing import Final

IMAGE: Final = "localhost/mooring-pause-1:latest"  # Podman 4 imports under no other tag
_BASE: Final = 0x400000
_HEADERS: Final = 64 + 56
_CODE: Final = {
    # mov eax, 34 (pause); syscall; jmp back
    "x86_64": (62, bytes.fromhex("b8220000000f05ebf7")),
    # mov x0..x3, 0; mov x8, 73 (ppoll); svc 0; b back
    "aarch64": (183, bytes.fromhex("000080d2010080d2020080d2030080d2280980d2010000d4fbffff17")),
}


def program(machine: str) -> bytes:
    """The executable; KeyError for a processor we have no code for."""
    number, code = _CODE[machine]
    entry = _BASE + _HEADERS
    size = _HEADERS + len(code)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01" + bytes(9),
        *(2, number, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0),
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + code


def image_archive() -> bytes:
    """The root file system of the image, as an engine imports it."""
    data = program(platform.machine())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("pause")
        entry.mode, entry.size = 0o755, len(data)
        archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
