"""Which workloads a policy lets run: the action `run_workload` of Cedar policies.

Policies are mostly about calls, and a set of them that never speaks of workloads must not stop every one. So
here silence is consent: a workload is refused by a `forbid` that applies to it, or by one that fails.
"""

from __future__ import annotations

from typing import Any

from mooring.config.schema import Config
from mooring.gateway.principal import Principal
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.store import DEFAULT_GROUP
from mooring.workloads.supervisor import Allows

ACTION = "run_workload"
KIND = "Workload"


def admission(config: Config, principal: Principal) -> Allows:
    """Why a policy forbids a workload; the person who runs the gateway is the one who asks."""
    wanted = config.authorization
    if wanted.type == "none":
        return lambda _config: None
    # Cedar takes a while to load, and most gateways have no policies.
    from mooring.policy.authorization.engine import Engine, Question  # noqa: PLC0415

    engine = Engine(
        tuple(wanted.policies),
        wanted.entities,
        group_claim=wanted.group_claim,
        role_claim=wanted.role_claim,
    )

    def reason(run: RunConfig) -> str | None:
        engine.refresh()
        question = Question(principal, ACTION, KIND, run.name, run.name, run.fields.group or DEFAULT_GROUP)
        decision = engine.decide(question, _facts(run))
        forbidding = [written for written in decision.because if written.is_forbid]
        if decision.allowed or not (forbidding or decision.errors):
            return None
        place = f" ({forbidding[0].place})" if forbidding else ""
        return f"a policy forbids `{ACTION}`{place}"

    return reason


def _facts(run: RunConfig) -> dict[str, Any]:
    """What a policy can look at, as `context.arg_package` and so on."""
    fields = run.fields
    return {
        "package": run.package,
        "remote": run.is_remote,
        "sandbox": fields.mooring.sandbox,
        "runtime": fields.mooring.runtime or "",
        "transport": fields.transport or "stdio",
        "permission_profile": fields.permission_profile_name_or_path,
    }
