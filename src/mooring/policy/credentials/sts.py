"""AWS: the caller's token for temporary keys of a role (AssumeRoleWithWebIdentity), then signed requests."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree

from mooring.gateway.principal import Caller
from mooring.policy import web
from mooring.policy.credentials.cache import ExpiringCache, Made
from mooring.policy.credentials.pool import Clock, CredentialUnavailable
from mooring.policy.credentials.roles import Roles
from mooring.policy.credentials.sigv4 import Keys, signed_lines
from mooring.policy.credentials.subjects import Subject, Subjects
from mooring.transports.http_response import Response

VERSION: Final = "2011-06-15"
_NOT_IN_NAMES: Final = re.compile(r"[^\w+=,.@-]", re.ASCII)
_LONGEST_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class StsSettings:
    """Which keys are asked for, and what is signed with them."""

    region: str
    service: str
    host: str
    sts_url: str | None = None
    session_name_claim: str = "sub"
    duration_seconds: int = 3600

    @property
    def endpoint(self) -> str:
        if self.sts_url is not None:
            return self.sts_url
        domain = "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"
        return f"https://sts.{self.region}.{domain}/"


def _now() -> datetime:
    return datetime.now(UTC)


class AwsRole:
    """A credential: requests signed with the keys of the role that the caller has."""

    personal = True

    def __init__(
        self,
        settings: StsSettings,
        roles: Roles,
        subjects: Subjects,
        *,
        now: Callable[[], datetime] = _now,
        clock: Clock = time.monotonic,
    ) -> None:
        self._settings = settings
        self._roles = roles
        self._subjects = subjects
        self._now = now
        self._cache: ExpiringCache[Keys] = ExpiringCache(clock)

    async def headers(self, caller: Caller, method: bytes, target: bytes, body: bytes) -> bytes:
        role = self._role(caller)
        subject = await self._subjects.of(caller)
        keys = await self._cache.get((subject.key, role), lambda: self._assume(role, subject, caller))
        wanted = self._settings
        return signed_lines(
            keys, wanted.region, wanted.service, wanted.host, self._now(), method, target, body
        )

    async def refused(self, caller: Caller, shown: bytes, response: Response) -> bool:
        """Keys may have been withdrawn: another pair, unless this one is quite new."""
        del shown, response
        key = ((await self._subjects.of(caller)).key, self._role(caller))
        return self._cache.drop(key, unless_young=True)

    def _role(self, caller: Caller) -> str:
        role = self._roles.role_of(caller.principal.claims)
        if role is None:
            raise CredentialUnavailable("the caller has no role at AWS: add one to `role_mappings`")
        return role

    async def _assume(self, role: str, subject: Subject, caller: Caller) -> Made[Keys]:
        settings = self._settings
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": VERSION,
            "RoleArn": role,
            "RoleSessionName": self._session_name(caller),
            "WebIdentityToken": subject.token,
            "DurationSeconds": str(settings.duration_seconds),
        }
        try:
            answer = await web.post_form(settings.endpoint, form, {"accept": "text/xml"})
            found = _texts(answer.body)
        except web.FetchFailed as error:
            raise CredentialUnavailable(f"no keys for the server: {error}") from error
        if answer.status != 200:
            why = f"{found.get('Code', f'HTTP {answer.status}')}: {found.get('Message', '')}".rstrip(": ")
            raise CredentialUnavailable(f"AWS gave no keys for `{role}`: {why}")
        return _keys(found)

    def _session_name(self, caller: Caller) -> str:
        """For AWS's own logs, in the letters that it allows."""
        value = caller.principal.claims.get(self._settings.session_name_claim)
        text = value if isinstance(value, str) else caller.principal.subject
        name = _NOT_IN_NAMES.sub("-", text)[:_LONGEST_NAME]
        return name if len(name) > 1 else f"mooring-{name}"


def _keys(found: dict[str, str]) -> Made[Keys]:
    try:
        keys = Keys(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
        expires = datetime.fromisoformat(found["Expiration"]).timestamp()
    except (KeyError, ValueError):
        raise CredentialUnavailable("AWS gave no keys: its answer cannot be read") from None
    return keys, expires - time.time()


def _texts(data: bytes) -> dict[str, str]:
    """The texts of an answer by the names of their elements, whatever namespace those are in."""
    try:
        root = ElementTree.fromstring(data)  # noqa: S314 - bounded, from AWS; the parser expands no bombs
    except ElementTree.ParseError as error:
        raise CredentialUnavailable(f"the answer of AWS cannot be read: {error}") from None
    return {element.tag.rpartition("}")[2]: (element.text or "").strip() for element in root.iter()}
