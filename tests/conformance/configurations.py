"""The table of everything that is run: suite × wire × where the fixture stands and what it speaks."""

from __future__ import annotations

from dataclasses import dataclass

LEGACY_WIRE = "2025-11-25"
MODERN_WIRE = "2026-07-28"

TASK_SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)

CLIENT_SCENARIOS = {
    LEGACY_WIRE: (
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ),
    MODERN_WIRE: (
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ),
}

_SIGN_IN = tuple(
    f"auth/{name}"
    for name in (
        "metadata-default",
        "metadata-var1",
        "metadata-var2",
        "metadata-var3",
        "basic-cimd",
        "scope-from-www-authenticate",
        "scope-from-scopes-supported",
        "scope-omitted-when-undefined",
        "scope-step-up",
        "scope-retry-limit",
        "token-endpoint-auth-basic",
        "token-endpoint-auth-post",
        "token-endpoint-auth-none",
        "pre-registration",
        "client-credentials-jwt",
        "client-credentials-basic",
    )
)
_AS_IN_THE_BEGINNING = (
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
)
_NEW_RULES = tuple(
    f"auth/{name}"
    for name in (
        "resource-mismatch",
        "offline-access-scope",
        "offline-access-not-supported",
        "authorization-server-migration",
        "iss-supported",
        "iss-not-advertised",
        "iss-supported-missing",
        "iss-wrong-issuer",
        "iss-unexpected",
        "iss-normalized",
        "metadata-issuer-mismatch",
        "enterprise-managed-authorization",
        "wif-jwt-bearer",
    )
)
_DRAFTS_OF_THE_STABLE_SUITE = tuple(
    f"auth/{name}"
    for name in (
        "resource-mismatch",
        "offline-access-scope",
        "offline-access-not-supported",
        "cross-app-access-complete-flow",
    )
)
EXTENSIONS = frozenset(
    f"auth/{name}"
    for name in (
        "client-credentials-jwt",
        "client-credentials-basic",
        "enterprise-managed-authorization",
        "wif-jwt-bearer",
    )
)
"""Of no revision: the suite runs them only when told to."""
AUTH_SCENARIOS = {
    ("stable", LEGACY_WIRE): (*_SIGN_IN, *_AS_IN_THE_BEGINNING, *_DRAFTS_OF_THE_STABLE_SUITE),
    ("alpha", LEGACY_WIRE): (*_SIGN_IN, *_AS_IN_THE_BEGINNING),
    ("alpha", MODERN_WIRE): (*_SIGN_IN, *_NEW_RULES),
}
"""All that the suites have, but `auth/dpop` and `auth/dpop-nonce`: the official client has no DPoP;
tests/policy/test_proofs.py runs them."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One direct run that others are measured against."""

    suite: str
    wire: str
    kind: str = "server"

    @property
    def name(self) -> str:
        return "-".join(("direct", self.kind, self.suite, self.wire))


@dataclass(frozen=True, slots=True)
class ServerRun:
    """The suite as client, the gateway, the fixture as server."""

    reference: Reference
    transport: str
    era: str
    # Who shares a child process; None leaves it to the gateway's default.
    share: str | None = None

    @property
    def name(self) -> str:
        kind = () if self.reference.kind == "server" else (self.reference.kind,)
        shared = (self.share,) if self.share else ()
        return "-".join((self.reference.suite, self.reference.wire, *kind, self.transport, self.era, *shared))

    @property
    def crosses_eras(self) -> bool:
        return self.era not in ("dual", era_of(self.reference.wire))


@dataclass(frozen=True, slots=True)
class ClientRun:
    """Our driver as client, the gateway, the suite as server."""

    reference: Reference
    client_era: str

    @property
    def name(self) -> str:
        return f"{self.reference.suite}-{self.reference.wire}-{self.reference.kind}-{self.client_era}"

    @property
    def crosses_eras(self) -> bool:
        return self.client_era != era_of(self.reference.wire)


@dataclass(frozen=True, slots=True)
class AuthoredRun:
    """The suite as client, and a server made with `mooring.authoring`, with nothing between them."""

    reference: Reference

    @property
    def name(self) -> str:
        return f"{self.reference.suite}-{self.reference.wire}-authored"

    @property
    def crosses_eras(self) -> bool:
        return False


Configuration = ServerRun | ClientRun | AuthoredRun


def era_of(wire: str) -> str:
    return "modern" if wire == MODERN_WIRE else "legacy"


STABLE = Reference("stable", LEGACY_WIRE)
LEGACY = Reference("alpha", LEGACY_WIRE)
MODERN = Reference("alpha", MODERN_WIRE)
TASKS = Reference("alpha", MODERN_WIRE, "tasks")
LEGACY_CLIENT = Reference("alpha", LEGACY_WIRE, "client")
MODERN_CLIENT = Reference("alpha", MODERN_WIRE, "client")
STABLE_AUTH = Reference("stable", LEGACY_WIRE, "auth")
LEGACY_AUTH = Reference("alpha", LEGACY_WIRE, "auth")
MODERN_AUTH = Reference("alpha", MODERN_WIRE, "auth")

# Slow ones first: a child process per legacy client takes longest, and the rest fits in beside it.
CONFIGURATIONS: tuple[Configuration, ...] = (
    ServerRun(LEGACY, "stdio", "legacy"),
    ServerRun(LEGACY, "stdio", "modern"),
    ServerRun(STABLE, "stdio", "legacy", share="global"),
    ServerRun(STABLE, "stdio", "modern", share="global"),
    ServerRun(TASKS, "http", "modern"),
    ServerRun(TASKS, "stdio", "modern"),
    ServerRun(LEGACY, "http", "dual"),
    ServerRun(LEGACY, "http", "legacy"),
    ServerRun(LEGACY, "sse", "legacy"),
    ServerRun(LEGACY, "http", "modern"),
    ServerRun(STABLE, "http", "dual"),
    ServerRun(STABLE, "http", "modern"),
    ServerRun(MODERN, "http", "dual"),
    ServerRun(MODERN, "http", "modern"),
    ServerRun(MODERN, "stdio", "modern"),
    ServerRun(MODERN, "http", "legacy"),
    ServerRun(MODERN, "stdio", "legacy"),
    ServerRun(MODERN, "sse", "legacy"),
    ClientRun(LEGACY_CLIENT, "legacy"),
    ClientRun(MODERN_CLIENT, "modern"),
    ClientRun(LEGACY_CLIENT, "modern"),
    ClientRun(MODERN_CLIENT, "legacy"),
    ClientRun(STABLE_AUTH, "legacy"),
    ClientRun(LEGACY_AUTH, "legacy"),
    ClientRun(MODERN_AUTH, "modern"),
    ClientRun(LEGACY_AUTH, "modern"),
    ClientRun(MODERN_AUTH, "legacy"),
    AuthoredRun(STABLE),
    AuthoredRun(LEGACY),
    AuthoredRun(MODERN),
)
