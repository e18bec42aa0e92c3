"""Servers of the file and workloads that were run, each in the words of the other."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.config import schema
from mooring.policy.settings import ToolOverride, Tools
from mooring.workloads.runconfig import RunConfig


def run_config_of(entry: schema.Server) -> RunConfig:
    """A workload of the file in the words of one that was run."""
    if entry.run_config is not None:
        group = {"group": entry.group} if entry.group else {}
        return RunConfig.read({**entry.run_config, **group}, name=entry.id)
    workload = entry.workload
    assert workload is not None
    profile = workload.permission_profile
    sandbox = "off" if profile is None else "on"
    extension = {"command": workload.run, "cwd": str(workload.cwd), "share": entry.share, "sandbox": sandbox}
    found: dict[str, Any] = {"name": entry.id, "env_vars": workload.env, "mooring": extension}
    if entry.group:
        found["group"] = entry.group
    if profile is not None:
        found["permission_profile"] = msgspec.to_builtins(profile)
    return RunConfig.read(found)


def is_run(entry: schema.Server) -> bool:
    """Whether the gateway runs it, or knows it as something that could be run."""
    return entry.workload is not None or entry.run_config is not None


def completed(entry: schema.Server, config: RunConfig) -> schema.Server:
    """What the file says about a server, and for the rest what its RunConfig says."""
    if entry.run_config is None:
        return entry
    other = entry_of(config)
    return msgspec.structs.replace(
        entry,
        share=other.share,
        timeouts=other.timeouts if entry.timeouts == schema.Timeouts() else entry.timeouts,
        tools=other.tools if entry.tools == Tools() else entry.tools,
        group=entry.group or other.group,
    )


def entry_of(config: RunConfig) -> schema.Server:
    """A workload that was run in the words of the file, as far as its server is concerned."""
    fields = config.fields
    overrides = {
        tool: ToolOverride(name=override.name or None, description=override.description or None)
        for tool, override in fields.tools_override.items()
    }
    return schema.Server(
        id=config.name,
        group=fields.group or None,
        share=fields.mooring.share,
        timeouts=schema.Timeouts(
            connect_seconds=60,
            idle_stop_seconds=fields.mooring.idle_stop_seconds,
            session_idle_seconds=config.session_seconds,
        ),
        tools=Tools(allow=fields.tools_filter, override=overrides),
    )
