"""Properties are about outcomes: on a busy machine one example may take as long as it likes."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")
