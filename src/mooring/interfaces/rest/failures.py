"""How our errors look over HTTP: status, code, message, next step."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from mooring.errors import MooringError
from mooring.interfaces.rest.operations import ApiError
from mooring.workloads.groups import GroupExists, InvalidGroup, NoSuchGroup
from mooring.workloads.profile import InvalidProfile
from mooring.workloads.runconfig import InvalidRunConfig
from mooring.workloads.runtime import CannotRun
from mooring.workloads.supervisor import DeclaredInFile, DidNotStart, Forbidden, NameTaken, NoSuchWorkload

_KNOWN: Final[dict[type[MooringError], tuple[int, str, str]]] = {
    NoSuchWorkload: (404, "no_such_workload", "see what there is with `mooring list`"),
    NoSuchGroup: (404, "no_such_group", "see what there is with `mooring group list`"),
    NameTaken: (409, "name_taken", "choose another name"),
    GroupExists: (409, "group_exists", "choose another name"),
    DeclaredInFile: (409, "declared_in_file", "edit the configuration file"),
    Forbidden: (403, "forbidden_by_policy", "ask whoever wrote the policy"),
    InvalidRunConfig: (422, "invalid_run_config", "mend the field and try again"),
    InvalidProfile: (422, "invalid_profile", "mend the permission profile and try again"),
    InvalidGroup: (422, "invalid_group", "choose another group"),
    CannotRun: (422, "cannot_run", "do what the message says and try again"),
    DidNotStart: (422, "did_not_start", "mend what the message says and run it again"),
}
"""Errors of parts that are added later name their status themselves: see `failure_of`."""


class ErrorBody(Struct, frozen=True):
    """What went wrong."""

    code: str
    message: str
    next_step: str = ""


class ErrorAnswer(Struct, frozen=True):
    """Every answer that is not a success."""

    error: ErrorBody


def failure_of(error: MooringError) -> ApiError:
    """The error as an answer. A class may say `status`, `code` and `next_step` itself."""
    if isinstance(error, ApiError):
        return error
    for kind in type(error).__mro__:
        if kind in _KNOWN:
            status, code, next_step = _KNOWN[kind]
            return ApiError(status, code, str(error), next_step)
    status = getattr(error, "http_status", 422)
    code = getattr(error, "api_code", "failed")
    return ApiError(status, code, str(error), getattr(error, "next_step", ""))


def described(error: ApiError) -> ErrorAnswer:
    return ErrorAnswer(ErrorBody(error.code, str(error), error.next_step))
