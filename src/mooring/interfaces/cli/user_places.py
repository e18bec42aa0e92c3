"""Where a user's things are, for commands that work without a running gateway."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path

from mooring.config.locations import default_data_directory
from mooring.ecosystem.clients.table import ClientPlaces
from mooring.workloads.secrets.store import SecretPlaces


def data_directory() -> Path:
    """The user's own data directory."""
    return default_data_directory(os.environ)


def secret_places(key_file: Path | None = None) -> SecretPlaces:
    """The user's secrets; a password is asked for only where somebody can type one."""
    # The prompt goes to the terminal itself: stdin may be a pipe with the secret in it.
    can_ask = sys.stderr.isatty()
    return SecretPlaces(data_directory(), os.environ, getpass.getpass if can_ask else None, key_file)


def client_places() -> ClientPlaces:
    """The folders in which clients of this user keep their files."""
    return ClientPlaces(Path.home(), sys.platform, os.environ)
