"""What the configuration says about credentials for servers."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

TEXTS = {"unit": "texts"}

ClientAuthentication = Literal["client_secret_basic", "client_secret_post", "private_key_jwt", "none"]
SubjectTokenType = Literal["access_token", "id_token", "jwt"]
AuthType = Literal[
    "none",
    "client_credentials",
    "token_exchange",
    "on_behalf_of",
    "identity_assertion",
    "jwt_bearer",
    "upstream_swap",
    "oauth",
    "aws_sigv4",
    "aws_sts",
]
PERSONAL: frozenset[str] = frozenset(
    {"token_exchange", "on_behalf_of", "identity_assertion", "upstream_swap", "oauth", "aws_sts"}
)
"""Types whose credential depends on who calls: sessions with the server are then never shared by callers."""


class RoleMapping(Struct, frozen=True):
    """Which callers get which role at AWS. One of `claim` and `matcher`."""

    role_arn: Annotated[str, Meta(description="The role.")]
    claim: Annotated[
        str | None, Meta(description="A value of the claim `role_claim`, such as the name of a group.")
    ] = None
    matcher: Annotated[
        str | None,
        Meta(description='A CEL expression over `claims`: `claims["email"].endsWith("@example.com")`.'),
    ] = None
    priority: Annotated[
        int, Meta(ge=0, description="Of several that fit, the one with the lowest number counts.")
    ] = 100


class UpstreamAuth(Struct, frozen=True):
    """How the gateway proves to a server who it is, or for whom it asks. The client's own token never goes
    there. Which keys a `type` takes is in [upstream credentials](../guides/upstream-credentials.md)."""

    type: Annotated[
        AuthType,
        Meta(
            description="A token of our own: `client_credentials`, `jwt_bearer`. A token for the caller: "
            "`token_exchange` (RFC 8693), `on_behalf_of` (Entra), `identity_assertion` (ID-JAG), "
            "`upstream_swap` (a stored grant of a provider), `oauth` (a grant that each user gives for this "
            "server). Signed requests: `aws_sigv4` with fixed keys, `aws_sts` with a role for the caller."
        ),
    ] = "none"
    # OAuth
    issuer: Annotated[
        str | None,
        Meta(description="The authorization server. Not given: `oauth` asks the server who it trusts."),
    ] = None
    authorize_url: Annotated[
        str | None, Meta(description="`oauth`: where users agree. Not given: from the metadata.")
    ] = None
    token_url: Annotated[
        str | None, Meta(description="Where tokens are had. Not given: from the metadata of `issuer`.")
    ] = None
    client_id: Annotated[
        str | None,
        Meta(description="Our name there. Not given: `oauth` registers itself (CIMD, then RFC 7591)."),
    ] = None
    client_metadata_url: Annotated[
        str | None,
        Meta(
            description="`oauth`: where the document is that describes us (CIMD). Not given: at this "
            "gateway, if `public_url` is `https://`."
        ),
    ] = None
    client_secret: Annotated[str | None, Meta(description="Our secret there, best as `${NAME}`.")] = None
    client_authentication: Annotated[
        ClientAuthentication | None,
        Meta(description="How we prove to be `client_id`. Not given: as the provider's metadata allow."),
    ] = None
    private_key: Annotated[
        Path | None, Meta(description="`private_key_jwt`: PEM file of the key that signs.")
    ] = None
    private_key_algorithm: Annotated[str, Meta(description="`private_key_jwt`: the algorithm.")] = "ES256"
    scopes: Annotated[
        list[str],
        Meta(extra=TEXTS, description="Scopes to ask for. Empty: `oauth` asks for what the server wants."),
    ] = field(default_factory=list[str])
    scope_parameter: Annotated[
        str, Meta(description="`oauth`: the name of the scope parameter where users agree.")
    ] = "scope"
    oauth_parameters: Annotated[
        dict[str, str], Meta(description="`oauth`: further parameters for the address where users agree.")
    ] = field(default_factory=dict[str, str])
    audience: Annotated[str | None, Meta(description="The `audience` to ask for.")] = None
    resource: Annotated[
        str | None,
        Meta(description="The `resource` (RFC 8707) to ask for. Not given: `oauth` names the server."),
    ] = None
    # For whom
    provider: Annotated[
        str | None,
        Meta(description="The entry of `providers` whose grant is shown (`upstream_swap`) or exchanged."),
    ] = None
    subject_token_type: Annotated[SubjectTokenType, Meta(description="What kind of token is exchanged.")] = (
        "access_token"  # noqa: S105 - the name of a type
    )
    subject_token_file: Annotated[
        Path | None,
        Meta(description="Exchange the token in this file, read anew each time, not the caller's."),
    ] = None
    requested_token_type: Annotated[
        str | None, Meta(description="`token_exchange`: the type of token to ask for.")
    ] = None
    identity_provider: Annotated[
        str | None,
        Meta(description="`identity_assertion`: the entry of `providers` that issues the assertion."),
    ] = None
    header: Annotated[
        str, Meta(description="The header that carries the token. Another than `Authorization`: bare.")
    ] = "Authorization"
    # AWS
    region: Annotated[str | None, Meta(description="`aws_sigv4`, `aws_sts`: the region.")] = None
    service: Annotated[str, Meta(description="`aws_sigv4`, `aws_sts`: the service.")] = "aws-mcp"
    access_key: Annotated[str | None, Meta(description="`aws_sigv4`: the access key.")] = None
    secret_key: Annotated[str | None, Meta(description="`aws_sigv4`: its secret, best as `${NAME}`.")] = None
    session_token: Annotated[str | None, Meta(description="`aws_sigv4`: of temporary keys.")] = None
    sts_url: Annotated[
        str | None, Meta(description="`aws_sts`: another endpoint than that of the region.")
    ] = None
    role_mappings: Annotated[
        list[RoleMapping], Meta(description="`aws_sts`: which callers get which role.")
    ] = field(default_factory=list[RoleMapping])
    fallback_role_arn: Annotated[
        str | None, Meta(description="`aws_sts`: the role of all others. Not given: they are refused.")
    ] = None
    role_claim: Annotated[
        str, Meta(description="`aws_sts`: the claim that `role_mappings[].claim` is looked for in.")
    ] = "groups"
    session_name_claim: Annotated[
        str, Meta(description="`aws_sts`: the claim that names the session in AWS's logs.")
    ] = "sub"
    session_duration_seconds: Annotated[
        int, Meta(ge=900, le=43_200, description="`aws_sts`: how long a role is taken for.")
    ] = 3600
    insecure_allow_http: Annotated[
        bool, Meta(description="Allow `http://` for a provider that is not on this machine.")
    ] = False


class Provider(Struct, frozen=True):
    """Somewhere users have accounts, and grants that several servers can use."""

    issuer: Annotated[
        str | None, Meta(description="Its address; everything else is then in its metadata.")
    ] = None
    authorize_url: Annotated[str | None, Meta(description="Where users agree, without `issuer`.")] = None
    token_url: Annotated[str | None, Meta(description="Where tokens are had, without `issuer`.")] = None
    client_id: Annotated[str | None, Meta(description="Our name there.")] = None
    client_secret: Annotated[str | None, Meta(description="Our secret there, best as `${NAME}`.")] = None
    client_authentication: Annotated[
        ClientAuthentication | None, Meta(description="How we prove to be `client_id`.")
    ] = None
    scopes: Annotated[list[str], Meta(extra=TEXTS, description="Scopes to ask for.")] = field(
        default_factory=list[str]
    )
    oauth_parameters: Annotated[
        dict[str, str], Meta(description="Further parameters for the address where users agree.")
    ] = field(default_factory=dict[str, str])
    insecure_allow_http: Annotated[
        bool, Meta(description="Allow `http://` for a provider that is not on this machine.")
    ] = False
