"""The gateway that `mooring lint` and `mooring tokens` start for one server; it says only what is wrong.

python -m mooring.interfaces.cli.lint_gateway FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

from mooring.app.foreground import run as run_gateway
from mooring.config.loading import ConfigError, load
from mooring.interfaces.cli.logs import show_log


def main(file: Path) -> int:
    """Serve what the file says until we are told to stop."""
    show_log("warning")
    try:
        config = load(file)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return run_gateway(config, ready=lambda _: None, watch=None, load=lambda: config)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
