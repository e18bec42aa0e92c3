"""These tests need container engines: `make test-containers` runs them, `make test` does not look at them."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("MOORING_TEST_CONTAINERS") == "1" else ["test_*.py"]
