"""Servers of the file and workloads that were run, each in the words of the other."""

from __future__ import annotations

import msgspec

from mooring.config import schema
from mooring.policy.settings import ToolOverride, Tools
from mooring.workloads.runconfig import RunConfig


def run_config_of(entry: schema.Server) -> RunConfig:
    """A workload of the file in the words of one that was run."""
    workload = entry.workload
    assert workload is not None
    profile = workload.permission_profile
    sandbox = "off" if profile is None else "on"
    extension = {"command": workload.run, "cwd": str(workload.cwd), "share": entry.share, "sandbox": sandbox}
    found = {"name": entry.id, "env_vars": workload.env, "mooring": extension}
    if profile is not None:
        found["permission_profile"] = msgspec.to_builtins(profile)
    return RunConfig.read(found)


def entry_of(config: RunConfig) -> schema.Server:
    """A workload that was run in the words of the file, as far as its server is concerned."""
    fields = config.fields
    overrides = {
        tool: ToolOverride(name=override.name or None, description=override.description or None)
        for tool, override in fields.tools_override.items()
    }
    return schema.Server(
        id=config.name,
        share=fields.mooring.share,
        timeouts=schema.Timeouts(connect_seconds=60, idle_stop_seconds=fields.mooring.idle_stop_seconds),
        tools=Tools(allow=fields.tools_filter, override=overrides),
    )
