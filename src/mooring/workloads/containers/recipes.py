"""How a published package becomes part of an image: what is run inside, and what is read afterwards."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mooring.workloads.runtime import CannotRun, PackageKind, PackageSource, Resolved
from mooring.workloads.sources.npm_packages import FLAGS, npm_program, npm_wish, registry_settings
from mooring.workloads.sources.python_packages import (
    index_settings,
    lock_integrity,
    python_name,
    python_requirement,
    python_script,
)

PLACE: Final = "/opt/mooring"
"""Where a package is inside its image."""
_SYSTEM_PACKAGE: Final = re.compile(r"^[a-z0-9][a-z0-9+._-]*$")
_BEGIN: Final = """\
. .settings/environment
if [ -n "$SYSTEM_PACKAGES" ]; then
  if command -v apk >/dev/null; then apk add --no-cache $SYSTEM_PACKAGES
  else
    apt-get update -qq -o APT::Sandbox::User=root
    apt-get install -y -qq --no-install-recommends -o APT::Sandbox::User=root $SYSTEM_PACKAGES
    rm -rf /var/lib/apt/lists
  fi
fi
"""
# Nothing of the package runs while the user's settings are readable: there may be a token in them.
_NPM: Final = f"""{_BEGIN}
echo "downloading"
npm install --ignore-scripts --omit=dev {" ".join(FLAGS)} --userconfig=.settings/npmrc "$PACKAGE"
rm -rf .settings
echo "building"
npm rebuild {" ".join(FLAGS)}
node -e 'const read = (path) => JSON.parse(require("fs").readFileSync(path, "utf8"));
const name = "node_modules/" + process.env.NAME, manifest = read(name + "/package.json");
const locked = (read("package-lock.json").packages || {{}})[name] || {{}};
require("fs").writeFileSync("record.json", JSON.stringify({{programs: manifest.bin, version: manifest.version,
  integrity: locked.integrity, runner: process.execPath, tool: process.version}}));'
rm -rf .cache certificates.pem
"""
_PYTHON: Final = f"""{_BEGIN}
if ! command -v uv >/dev/null; then
  echo "getting uv"
  python3 -m venv .uv
  .uv/bin/python -m pip install --quiet --disable-pip-version-check uv
  export PATH="$PWD/.uv/bin:$PATH"
fi
export VIRTUAL_ENV=
uv venv --quiet --no-project --python "$(command -v python3)" venv
echo "choosing versions"
uv pip compile --generate-hashes --no-header --quiet --no-annotate --python venv/bin/python \
  --output-file lock.txt wanted.txt
echo "downloading"
uv pip install --quiet --python venv/bin/python --require-hashes -r lock.txt
rm -rf .settings
venv/bin/python -c 'import importlib.metadata as metadata, json, os, platform
found = metadata.distribution(os.environ["NAME"])
scripts = [entry.name for entry in found.entry_points if entry.group == "console_scripts"]
with open("record.json", "w") as file:
    json.dump({{"version": found.version, "scripts": scripts, "tool": platform.python_version(),
               "lock": open("lock.txt").read()}}, file)'
rm -rf .cache .uv certificates.pem
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an installation is told that must not stay in the image: variables and files."""

    variables: Mapping[str, str]
    files: Mapping[str, bytes]
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One kind of package."""

    base: str
    script: str
    settings: Callable[[PackageSource], Awaitable[Settings]]
    described: Callable[[PackageSource, Mapping[str, Any]], Resolved]


async def _npm_settings(source: PackageSource) -> Settings:
    registry, hosts = await registry_settings(required=False)
    user = Path.home() / ".npmrc"
    return Settings(
        {
            "PACKAGE": npm_wish(source),
            "NAME": source.package,
            "npm_config_cache": f"{PLACE}/.cache",
            **({"npm_config_registry": registry} if registry else {}),
        },
        {"package.json": b'{"private": true}\n', ".settings/npmrc": _contents(user)},
        hosts,
    )


def _npm_described(source: PackageSource, record: Mapping[str, Any]) -> Resolved:
    program = npm_program(source, record.get("programs"))
    return Resolved(
        argv=(str(record["runner"]), f"{PLACE}/node_modules/{source.package}/{program}"),
        version=str(record.get("version") or ""),
        integrity=record.get("integrity"),
        tools=(("node", str(record["tool"])),),
    )


async def _python_settings(source: PackageSource) -> Settings:
    given, hosts = index_settings()
    # pip, which fetches uv where the image has none, calls the same thing by another name.
    index = given.get("UV_DEFAULT_INDEX") or given.get("UV_INDEX_URL")
    system, user = (_contents(Path(file)) for file in ("/etc/uv/uv.toml", Path.home() / ".config/uv/uv.toml"))
    return Settings(
        {
            "NAME": python_name(source),
            "UV_CACHE_DIR": f"{PLACE}/.cache",
            "PIP_CACHE_DIR": f"{PLACE}/.cache",
            "UV_LINK_MODE": "copy",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_NO_PROGRESS": "1",
            **({"PIP_INDEX_URL": index} if index else {}),
            **({"UV_CONFIG_FILE": f"{PLACE}/.settings/uv.toml"} if user or system else {}),
            **given,
        },
        {"wanted.txt": f"{python_requirement(source)}\n".encode(), ".settings/uv.toml": user or system},
        hosts,
    )


def _python_described(source: PackageSource, record: Mapping[str, Any]) -> Resolved:
    version = str(record["version"])
    script = python_script(python_name(source), version, record["scripts"])
    return Resolved(
        argv=(f"{PLACE}/venv/bin/python", f"{PLACE}/venv/bin/{script}"),
        version=version,
        integrity=lock_integrity(str(record["lock"])),
        tools=(("python", str(record["tool"])),),
    )


RECIPES: Final[Mapping[PackageKind, Recipe]] = {
    "npx": Recipe("docker.io/library/node:22-slim", _NPM, _npm_settings, _npm_described),
    "uvx": Recipe("docker.io/library/python:3.12-slim", _PYTHON, _python_settings, _python_described),
}


def check_system_packages(names: tuple[str, ...]) -> None:
    """Refuse names that are no names: a shell reads them."""
    for name in names:
        if not _SYSTEM_PACKAGE.match(name):
            raise CannotRun(f"`{name}` is not the name of a system package")


def _contents(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
