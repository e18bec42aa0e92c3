"""Compiles `holder.c` and `launcher.c` for every processor and writes the result into the package.

Takes `gcc` and `aarch64-linux-gnu-gcc` (Debian: gcc, gcc-aarch64-linux-gnu), which users need not have.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tempfile
import textwrap
import zlib
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "src/mooring/workloads"
SOURCES = ("containers/holder.c", "sandbox/launcher.c")
COMPILERS = {"amd64": "gcc", "arm64": "aarch64-linux-gnu-gcc"}
FLAGS = (
    *("-Os", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fno-pic", "-no-pie"),
    *("-fno-asynchronous-unwind-tables", "-Wall", "-Wextra", "-Werror", "-s"),
    "-Wl,--build-id=none,-z,noseparate-code,-z,norelro",
)
HEAD = '''\
"""What `{name}` compiles to. Written by `scripts/build_holder.py`: change that file, not this one."""

from __future__ import annotations

from typing import Final

SOURCE: Final = "{source}"
"""The SHA-256 of the source."""
PROGRAMS: Final = {{
'''


def compiled(compiler: str, source: Path) -> bytes:
    """The executable."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / source.stem
        subprocess.run([compiler, *FLAGS, "-o", str(program), str(source)], check=True)
        return program.read_bytes()


def main() -> None:
    for source in (FOLDER / name for name in SOURCES):
        text = HEAD.format(name=source.name, source=hashlib.sha256(source.read_bytes()).hexdigest())
        for name, compiler in COMPILERS.items():
            packed = base64.b64encode(zlib.compress(compiled(compiler, source), 9)).decode()
            lines = "\n".join(f'    "{line}"' for line in textwrap.wrap(packed, 100))
            text += f'    "{name}": (\n{textwrap.indent(lines, "    ")}\n    ),\n'
        source.with_name(f"{source.stem}_program.py").write_text(f"{text}}}\n")


if __name__ == "__main__":
    sys.exit(main())
