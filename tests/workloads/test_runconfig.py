"""RunConfig v0.1.0: read as it is, written back as it was, and nothing promised that does not happen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from mooring.workloads.profile import NETWORK, NONE
from mooring.workloads.runconfig import Fields, InvalidRunConfig, RunConfig, default_name
from mooring.workloads.runconfig_effect import spec_of
from mooring.workloads.runconfig_fields import FIELDS, Refused
from mooring.workloads.runtime import CommandSource, ImageSource, MountPoint, PackageSource, RemoteSource

EXPORTED: dict[str, Any] = {
    "schema_version": "v0.1.0",
    "image": "ghcr.io/github/github-mcp-server:v0.9",
    "name": "github",
    "container_name": "github",
    "base_name": "github",
    "transport": "stdio",
    "host": "127.0.0.1",
    "port": 34567,
    "target_port": 8080,
    "permission_profile": {"network": {"outbound": {"allow_host": [".github.com"], "allow_port": [443]}}},
    "env_vars": {"GITHUB_HOST": "github.com"},
    "secrets": ["token,target=GITHUB_PERSONAL_ACCESS_TOKEN"],
    "volumes": ["/srv/notes:/notes:ro"],
    "container_labels": {"toolhive": "true"},
    "proxy_mode": "streamable-http",
    "isolate_network": True,
    "group": "work",
    "tools_filter": ["get_issue"],
    "tools_override": {"get_issue": {"name": "issue", "description": "One issue"}},
    "middleware_configs": [
        {"type": "auth", "parameters": {"oidc_config": None}},
        {"type": "mcp-parser", "parameters": {}},
        {"type": "tool-filter", "parameters": {"filter_tools": ["get_issue"]}},
        {"type": "recovery"},
    ],
    "debug": False,
    "from_the_future": {"kept": [1, None, {"deep": True}]},
}


KNOWN = """
    schema_version mcpserver_generation image remote_url registry_api_url registry_url
    registry_server_name remote_auth_config cmd_args name container_name base_name transport host port
    target_port target_host allowed_origins publish permission_profile_name_or_path permission_profile
    env_vars env_file_dir debug volumes container_labels oidc_config token_exchange_config
    upstream_swap_config aws_sts_config authz_config authz_config_path audit_config audit_config_path
    telemetry_config rate_limit_config rate_limit_namespace secrets k8s_pod_template_patch isolate_network
    allow_docker_gateway trust_proxy_headers strict_protocol_validation stateless session_ttl proxy_mode
    thv_ca_bundle jwks_auth_token_file group tools_filter tools_override ignore_config middleware_configs
    additional_middleware_configs validating_webhooks mutating_webhooks endpoint_prefix runtime_config
    header_forward embedded_auth_server_config scaling_config
"""


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def test_what_toolhive_exported_is_written_back_as_it_was() -> None:
    assert msgspec.json.decode(RunConfig.read(EXPORTED).encode()) == EXPORTED


def test_camel_case_means_the_same() -> None:
    written = {camel(key): value for key, value in EXPORTED.items()}
    assert RunConfig.read(written).raw == EXPORTED
    remote = RunConfig.read({"remoteURL": "https://mcp.example.com/mcp", "name": "x"})
    assert remote.fields.remote_url == "https://mcp.example.com/mcp"


def test_a_key_in_both_spellings_is_refused() -> None:
    with pytest.raises(InvalidRunConfig, match="`env_vars` is written twice"):
        RunConfig.read({**EXPORTED, "envVars": {}})


def test_its_fields_have_their_effect() -> None:
    spec = spec_of(RunConfig.read(EXPORTED))
    assert spec.source == ImageSource("ghcr.io/github/github-mcp-server:v0.9")
    assert spec.env == {"GITHUB_HOST": "github.com"}
    assert spec.mounts == (MountPoint(Path("/srv/notes"), Path("/notes"), writable=False),)
    assert spec.profile.network.outbound.allow_host == (".github.com",)
    assert spec.target_port == 8080
    assert spec.labels == {"toolhive": "true"}
    config = RunConfig.read(EXPORTED)
    assert config.secret_targets == {"GITHUB_PERSONAL_ACCESS_TOKEN": "token"}
    assert config.fields.tools_override["get_issue"].name == "issue"


def test_every_field_of_toolhive_has_an_effect_or_a_fate() -> None:
    known = KNOWN.split()
    assert not [name for name in known if name not in FIELDS and name not in Fields.__struct_fields__]
    assert not FIELDS.keys() & set(Fields.__struct_fields__), "one fate each"


@pytest.mark.parametrize("name", sorted(name for name, fate in FIELDS.items() if isinstance(fate, Refused)))
def test_what_is_not_supported_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(InvalidRunConfig, match=f"`{name}` is not supported: "):
        RunConfig.read({"image": "x", name: {"enabled": True}})
    RunConfig.read({"image": "x", name: None})


def test_a_middleware_that_guards_something_is_never_dropped() -> None:
    empty = ("authorization", "audit", "ratelimit", "validating-webhook", "mutating-webhook", "tokenexchange")
    for kind in (*empty, "obo", "made-up"):
        with pytest.raises(InvalidRunConfig, match="middleware_configs"):
            RunConfig.read({"image": "x", "middleware_configs": [{"type": kind, "parameters": {}}]})


@pytest.mark.parametrize(
    ("kind", "parameters", "name"),
    [
        ("auth", {"oidc_config": {"Issuer": "https://id.example.com"}}, "oidc_config"),
        ("authorization", {"config_data": {"type": "cedarv1"}}, "authz_config"),
        ("authorization", {"config_path": "/etc/authz.json"}, "authz_config_path"),
        ("audit", {"config_data": {"component": "x"}}, "audit_config"),
        ("telemetry", {"config": {"endpoint": "localhost:4318"}}, "telemetry_config"),
        ("ratelimit", {"config": {"shared": {"maxTokens": 1, "refillPeriod": "1s"}}}, "rate_limit_config"),
        ("validating-webhook", {"webhooks": [{"name": "x", "url": "https://y"}]}, "validating_webhooks"),
        ("mutating-webhook", {"webhooks": [{"name": "x", "url": "https://y"}]}, "mutating_webhooks"),
    ],
)
def test_a_middleware_is_the_field_it_stands_for(kind: str, parameters: dict[str, Any], name: str) -> None:
    config = RunConfig.read({"image": "x", "middleware_configs": [{"type": kind, "parameters": parameters}]})
    assert getattr(config.fields, name) == next(iter(parameters.values()))
    assert name not in config.raw, "the document is written back as it was"


def test_filters_written_as_middlewares_have_the_same_effect_as_fields() -> None:
    configs = [{"type": "tool-filter", "parameters": {"filter_tools": ["a", "b"]}}]
    assert RunConfig.read({"image": "x", "middleware_configs": configs}).fields.tools_filter == ["a", "b"]
    with pytest.raises(InvalidRunConfig, match="disagree"):
        RunConfig.read({"image": "x", "tools_filter": ["c"], "middleware_configs": configs})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"image": "x", "schema_version": "v0.2.0"}, "only v0.1.0 is known"),
        ({"image": "x", "target_port": "eighty"}, "`target_port`: expected `int`"),
        ({"image": "x", "transport": "inspector"}, "`transport`: invalid"),
        ({"image": "x", "remote_url": "https://y"}, "exactly one of"),
        ({"name": "x"}, "exactly one of"),
        ({"image": "x", "name": "../etc"}, "must be 1 to 64"),
        ({"image": "x", "secrets": ["a b,target=a b"]}, "`NAME,target=VARIABLE`"),
        ({"remote_url": "https://y.example", "volumes": ["/a:/b"]}, "`volumes` means nothing"),
        ({"image": "x", "mooring": {"shared": "all"}}, "unknown field `shared`"),
    ],
)
def test_what_is_wrong_is_named(document: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRunConfig) as caught:
        RunConfig.read(document)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("image", "source", "name"),
    [
        ("npx://@scope/server-time@1.2", PackageSource("npx", "@scope/server-time", "1.2"), "server-time"),
        ("npx://@scope/server-time", PackageSource("npx", "@scope/server-time"), "server-time"),
        ("uvx://mcp-server-git", PackageSource("uvx", "mcp-server-git"), "mcp-server-git"),
        ("go://example.com/cmd/tool@v1", PackageSource("go", "example.com/cmd/tool", "v1"), "tool"),
        ("ghcr.io/a/b:latest", ImageSource("ghcr.io/a/b:latest"), "b"),
    ],
)
def test_an_image_says_where_it_comes_from(image: str, source: object, name: str) -> None:
    config = RunConfig.read({"image": image})
    assert spec_of(config).source == source
    assert config.name == name


def test_names_come_from_what_runs() -> None:
    assert default_name({"remote_url": "https://mcp.linear.app/sse"}) == "linear"
    assert default_name({"mooring": {"command": ["python3", "/srv/my notes.py", "-v"]}}) == "my-notes"
    assert default_name({"mooring": {"command": ["python3", "-m", "acme.server"]}}) == "acme"
    assert default_name({"mooring": {"command": ["/usr/bin/Thing"]}}) == "thing"


def test_nothing_is_allowed_unless_somebody_says_so() -> None:
    assert spec_of(RunConfig.read({"image": "x"})).profile == NONE
    named = RunConfig.read({"image": "x", "permission_profile_name_or_path": "network"})
    assert spec_of(named).profile == NETWORK


def test_a_command_and_a_url_are_sources_too() -> None:
    command = RunConfig.read({"mooring": {"command": ["echo"], "sandbox": "off"}, "cmd_args": ["-n"]})
    assert spec_of(command).source == CommandSource(("echo",))
    assert (spec_of(command).arguments, spec_of(command).sandbox) == (("-n",), "off")
    assert spec_of(RunConfig.read({"remote_url": "http://a/mcp"})).source == RemoteSource("http://a/mcp")


@pytest.mark.parametrize("where", ["middleware_configs", "additional_middleware_configs"])
def test_a_middleware_that_does_nothing_here_says_so(where: str) -> None:
    config = RunConfig.read({"image": "x", where: [{"type": "usagemetrics", "parameters": {}}]})
    assert [note for note in config.notes if "`usagemetrics` does nothing" in note]


def test_limits_that_are_not_named_keep_their_defaults() -> None:
    limits = {"memory_bytes": 1024, "cpus": None}
    spec = spec_of(RunConfig.read({"image": "x", "mooring": {"limits": limits}}))
    assert spec.limits.memory_bytes == 1024
    assert spec.limits.processes == spec_of(RunConfig.read({"image": "x"})).limits.processes


@pytest.mark.parametrize("entry", ["relative:/x", "/a:b", "/a:/b:rx"])
def test_a_volume_that_could_mean_anything_is_refused(entry: str) -> None:
    with pytest.raises(InvalidRunConfig, match="`volumes`"):
        spec_of(RunConfig.read({"image": "x", "volumes": [entry]}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.from_regex(r"\Ax_[a-z]{1,6}\Z"), JSON, max_size=5))
def test_unknown_fields_survive_whatever_they_hold(unknown: dict[str, Any]) -> None:
    config = RunConfig.read({**EXPORTED, **unknown})
    again = RunConfig.decode(config.encode())
    assert again.raw == {**EXPORTED, **unknown}
    assert all(any(f"`{name}`" in note for note in config.notes) for name in unknown)


SCHEMA = msgspec.json.schema(Fields)


def valid(shape: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Whatever this part of the schema allows."""
    if "$ref" in shape:
        return valid(SCHEMA["$defs"][shape["$ref"].rpartition("/")[2]])
    if "anyOf" in shape:
        return st.one_of(*map(valid, shape["anyOf"]))
    if "enum" in shape:
        return st.sampled_from(shape["enum"])
    match shape.get("type"):
        case "string":
            return st.from_regex(shape["pattern"], fullmatch=True) if "pattern" in shape else TEXTS
        case "integer":
            return st.integers(shape.get("minimum", 0), shape.get("maximum", 2**40))
        case "number":
            return st.floats(0.001, 1e9)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(valid(shape["items"]), max_size=2)
        case "object" if "properties" in shape:
            parts = {key: valid(part) for key, part in shape["properties"].items()}
            return st.fixed_dictionaries({}, optional=parts)
        case "object":
            inner = shape.get("additionalProperties")
            return st.dictionaries(TEXTS, valid(inner) if isinstance(inner, dict) else JSON, max_size=2)
        case _:
            return JSON


TEXTS = st.text("abcXYZ-_./:,= ", max_size=12)
DOCUMENTS = valid({**SCHEMA["$defs"]["Fields"]})


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS, st.sampled_from(["image", "remote_url", "mooring"]))
def test_whatever_the_schema_allows_round_trips_or_is_refused_by_name(
    document: dict[str, Any], source: str
) -> None:
    sources = {
        "image": {"image": "uvx://x", "remote_url": ""},
        "remote_url": {"image": "", "remote_url": "https://x.example.com/mcp"},
        "mooring": {"image": "", "remote_url": "", "mooring": {"command": ["x"]}},
    }
    document = {**document, "schema_version": "v0.1.0", "name": "x", **sources[source]}
    if source != "mooring":
        document.pop("mooring", None)
    config, refused = None, ""
    try:
        config = RunConfig.read(document)
    except InvalidRunConfig as error:
        refused = str(error)
    if config is None:
        assert any(f"`{name}" in refused for name in document), refused
        return
    assert msgspec.json.decode(config.encode()) == document
    assert RunConfig.decode(config.encode()).fields == config.fields
    as_camel = RunConfig.read({camel(key): value for key, value in document.items()})
    assert (as_camel.raw, as_camel.fields) == (config.raw, config.fields)
