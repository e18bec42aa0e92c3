"""Starts the fixture from any directory: a gateway's child does not inherit our import path."""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
runpy.run_module("tests.conformance.fixture", run_name="__main__")
