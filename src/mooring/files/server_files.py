"""Everything that the configuration says about the files of one server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mooring.files.adapters import ToolFiles
from mooring.files.budgets import ResultRules
from mooring.files.producing import ProducerRules
from mooring.files.upload_tool import UploadRules
from mooring.files.views import Reach


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """Its tools, what may be uploaded, what becomes of what they make, and who sees the folders."""

    id: str
    tools: Mapping[str, ToolFiles]
    uploads: UploadRules
    artifacts: ProducerRules
    artifacts_enabled: bool = True
    results: ResultRules = field(default_factory=ResultRules)
    reach: Reach = Reach.SHARED
    one_child_per_scope: bool = False
    """Each scope has a process of its own."""
    one_child_per_call: bool = False
    shown: Callable[[str], str | None] = field(default=lambda name: name)
    """What clients call a tool; None: they do not see it."""
