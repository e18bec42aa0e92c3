"""Registries: the API (a local server that speaks it), files in both formats, and what runs in the end."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.support.command import Command

from mooring.ecosystem.registry.api import fetch
from mooring.ecosystem.registry.entry import RegistryError
from mooring.ecosystem.registry.provenance import verify_image
from mooring.ecosystem.registry.reading import read_catalogue
from mooring.ecosystem.registry.running import questions, run_config
from mooring.ecosystem.registry.sources import Registries, Source
from mooring.workloads.runconfig import RunConfig

OFFICIAL = "io.modelcontextprotocol.registry/official"


def server(name: str, version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    package = {"registryType": "npm", "identifier": name.rpartition("/")[2], "version": version}
    inner = {
        "name": name,
        "description": f"does {name}",
        "version": version,
        "packages": [{**package, "transport": {"type": "stdio"}}],
        **more,
    }
    return {"server": inner, "_meta": {OFFICIAL: {"status": "active", "isLatest": True}}}


class Registry(ThreadingHTTPServer):
    """Speaks v0.1: search, cursors, versions, a token."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.servers = [server(f"org.example/tool-{number:03}") for number in range(250)]
        self.servers.append(server("org.example/weather", "2.0.0"))
        self.older = {"org.example/weather": [server("org.example/weather", "1.0.0")]}
        self.token = ""
        self.asked: list[str] = []
        self.redirect = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""

    def do_GET(self) -> None:
        registry: Registry = self.server
        registry.asked.append(f"{self.headers.get('Authorization') or '-'} {self.path}")
        if registry.redirect:
            self.send_response(302)
            self.send_header("Location", registry.redirect + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif registry.token and self.headers.get("Authorization") != f"Bearer {registry.token}":
            self.answer(401, {"title": "Unauthorized"})
        else:
            self.route(registry)

    def route(self, registry: Registry) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        words = parts.path.strip("/").split("/")
        if words == ["v0.1", "servers"]:
            return self.answer(200, self.page(registry, query))
        if words[:2] == ["v0.1", "servers"] and words[3:4] == ["versions"]:
            name = unquote(words[2])
            known = [each for each in registry.servers if each["server"]["name"] == name]
            known += registry.older.get(name, [])
            if len(words) == 4:
                return self.answer(200, {"servers": known, "metadata": {"count": len(known)}})
            wanted = (
                known[:1]
                if words[4] == "latest"
                else [x for x in known if x["server"]["version"] == words[4]]
            )
            if wanted:
                return self.answer(200, wanted[0])
        return self.answer(404, {"title": "Not Found"})

    def page(self, registry: Registry, query: dict[str, str]) -> dict[str, Any]:
        found = [each for each in registry.servers if query.get("search", "") in each["server"]["name"]]
        start, limit = int(query.get("cursor", "0")), int(query.get("limit", "30"))
        following = {"nextCursor": str(start + limit)} if start + limit < len(found) else {}
        page = found[start : start + limit]
        return {"servers": page, "metadata": {"count": len(page), **following}}

    def answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield running
        running.shutdown()
        thread.join(10)


# ---------------------------------------------------------------- the API


def test_a_registry_is_added_searched_refreshed_and_removed(mooring: Command, registry: Registry) -> None:
    mooring.ok("registry", "add", "corp", registry.url)
    found = mooring.ok("search", "weather")
    assert "org.example/weather  2.0.0    npm   corp" in found
    assert any("search=weather" in each for each in registry.asked)
    assert "corp: 251 servers" in mooring("registry", "refresh", "corp").stderr
    mooring.ok("registry", "remove", "corp")
    assert "corp" not in mooring.ok("registry", "list", "--sources")
    assert "no registry `corp` was added" in mooring.refusal("registry", "remove", "corp")


def test_pages_are_followed_as_far_as_wanted(mooring: Command, registry: Registry) -> None:
    mooring.ok("registry", "add", "corp", registry.url)
    listed = mooring("registry", "list", "--registry", "corp", "--limit", "230", "--format", "json")
    answer = json.loads(listed.stdout)
    assert (len(answer["servers"]), answer["more"]) == (230, True)
    everything = json.loads(
        mooring.ok("registry", "list", "--registry", "corp", "--limit", "1000", "--format", "json")
    )
    assert (len({each["name"] for each in everything["servers"]}), everything["more"]) == (251, False)
    assert (
        "there are more than 10" in mooring("registry", "list", "--registry", "corp", "--limit", "10").stderr
    )


def test_versions_can_be_listed_and_chosen(mooring: Command, registry: Registry) -> None:
    mooring.ok("registry", "add", "corp", registry.url)
    assert mooring.ok("registry", "info", "org.example/weather", "--versions") == "2.0.0\n1.0.0\n"
    assert "npx://weather@2.0.0" in mooring.ok("registry", "info", "weather")
    assert "npx://weather@1.0.0" in mooring.ok("registry", "info", "weather", "--version", "1.0.0")
    assert "no registry has a server" in mooring.refusal("registry", "info", "weather", "--version", "9.9.9")


def test_a_token_comes_from_the_secret_store(mooring: Command, registry: Registry) -> None:
    registry.token = "t0ken"
    assert "--token-secret" in mooring.refusal("registry", "add", "corp", registry.url)
    mooring.ok("secret", "setup", "--key", "file")
    mooring.ok("secret", "set", "corp-token", stdin="t0ken")
    mooring.ok("registry", "add", "corp", registry.url, "--token-secret", "corp-token")
    assert "org.example/weather" in mooring.ok("search", "weather")
    assert "t0ken" not in (mooring.data / "registries.json").read_text()
    assert "t0ken" not in mooring.ok("registry", "list", "--sources", "--format", "json")


def test_a_token_does_not_follow_a_redirect_to_another_host(registry: Registry) -> None:
    with Registry() as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        registry.redirect = other.url
        fetch(f"{registry.url}/v0.1/servers", {"Authorization": "Bearer t0ken"})
        other.shutdown()
        thread.join(10)
    assert registry.asked == ["Bearer t0ken /v0.1/servers"]
    assert other.asked == ["- /v0.1/servers"]


def test_an_unreachable_registry_falls_back_to_its_copy_and_says_so(
    mooring: Command, registry: Registry
) -> None:
    mooring.ok("registry", "add", "corp", registry.url)
    mooring.ok("registry", "refresh")
    registry.token = "now it wants one"
    done = mooring("search", "weather")
    assert "org.example/weather" in done.stdout
    assert "this is from the last `mooring registry refresh`" in done.stderr


def test_one_broken_registry_does_not_hide_the_others(mooring: Command, registry: Registry) -> None:
    mooring.ok("registry", "add", "corp", registry.url)
    registry.token = "now it wants one"
    done = mooring("search", "git")
    assert "mcp-server-git" in done.stdout
    assert "corp: " in done.stderr


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://registry.example.com", "use https"),
        ("ftp://x/y.json", "use https"),
        ("http://127.0.0.1:9", "cannot reach"),
        ("nowhere.json", "there is no file"),
    ],
)
def test_a_registry_that_cannot_be_used_is_not_added(mooring: Command, location: str, said: str) -> None:
    assert said in mooring.refusal("registry", "add", "corp", location)
    assert "corp" not in mooring.ok("registry", "list", "--sources")


# ---------------------------------------------------------------- files

LEGACY = {
    "version": "1.0.0",
    "servers": {
        "fetch": {
            "description": "Fetches pages",
            "image": "ghcr.io/x/fetch:1.0",
            "transport": "streamable-http",
            "target_port": 8080,
            "args": ["--quiet"],
            "permissions": {"network": {"outbound": {"allow_host": ["x.org"]}}},
            "env_vars": [
                {"name": "KEY", "required": True, "secret": True, "description": "a key"},
                {"name": "LEVEL", "default": "info"},
            ],
            "provenance": {"signer_identity": "/.github/workflows/r.yml", "repository_uri": "https://x/y"},
            "tools": ["fetch"],
        }
    },
    "remote_servers": {
        "search": {
            "url": "https://s/mcp",
            "transport": "sse",
            "headers": [
                {"name": "X-Key", "required": True, "secret": True},
                {"name": "X-Region", "choices": ["eu", "us"]},
            ],
            "oauth_config": {"issuer": "https://i", "scopes": ["a"]},
        }
    },
    "groups": [
        {"name": "web", "servers": {"other": {"image": "o:1", "transport": "stdio"}}, "remote_servers": {}}
    ],
}


def test_toolhive_s_older_format_is_understood(mooring: Command) -> None:
    (mooring.home / "r.json").write_text(json.dumps(LEGACY))
    mooring.ok("registry", "add", "old", "r.json")
    shown = mooring.ok("registry", "info", "fetch")
    assert "image: ghcr.io/x/fetch:1.0 (streamable-http)" in shown
    assert "variable KEY (required; secret): a key" in shown
    assert "by /.github/workflows/r.yml, from https://x/y" in shown
    assert "verified:      no: it names no key" in shown
    assert '"issuer": "https://i"' in mooring.ok("registry", "info", "search")
    found = read_catalogue(json.dumps(LEGACY).encode(), "r.json")
    assert [(group.name, group.servers) for group in found.groups] == [("web", ("other",))]
    assert {entry.name for entry in found.entries} == {"fetch", "search", "other"}


def test_the_upstream_format_of_today_and_of_earlier_revisions() -> None:
    old = {
        "name": "a/b",
        "version_detail": {"version": "1"},
        "packages": [
            {
                "registry_type": "pypi",
                "identifier": "b",
                "version": "1",
                "environment_variables": [{"name": "K", "is_secret": True}],
            }
        ],
        "remotes": [{"transport_type": "sse", "url": "https://x"}],
    }
    for wrapped in ({"data": {"servers": [old]}}, {"servers": [{"server": old}]}, [old], old):
        [entry] = read_catalogue(json.dumps(wrapped).encode(), "x").entries
        assert (entry.version, entry.offers[0].source, entry.offers[1].transport) == ("1", "uvx://b@1", "sse")
        assert entry.offers[0].env[0].secret
    extra = {"permissions": {"read": ["/x"]}, "tags": ["t"], "args": ["--q"], "tier": "Official"}
    new = server("a/c")["server"] | {
        "_meta": {
            "io.modelcontextprotocol.registry/publisher-provided": {"io.github.stacklok": {"img": extra}}
        }
    }
    [entry] = read_catalogue(json.dumps([new]).encode(), "x").entries
    assert (entry.permissions, entry.tags, entry.tier) == ({"read": ["/x"]}, ("t",), "Official")


@pytest.mark.parametrize("text", ["", "[", "{}", '"x"', '{"servers": 1}'])
def test_what_is_no_registry_is_refused(text: str) -> None:
    with pytest.raises(RegistryError):
        read_catalogue(text.encode(), "x")


def test_an_entry_that_makes_no_sense_is_left_out_and_said() -> None:
    found = read_catalogue(b'[{"description": "?"}, {"name": "a/b"}, 7]', "x")
    assert [entry.name for entry in found.entries] == ["a/b"]
    assert found.problems == ("entry 1 has no name", "entry 3 has no name")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("git", ["mcp-server-git", "github-mcp-server", "mcp"]),
        ("github", ["github-mcp-server", "mcp"]),
        ("io.github.upstash/context7", ["context7"]),
        ("upstash", ["context7"]),
    ],
)
def test_the_host_in_a_name_is_not_what_is_looked_for(text: str, wanted: list[str]) -> None:
    """Half of all servers are called `io.github...`."""
    found, _, _ = Registries(Path("/nonexistent"), lambda name: name).search(text, 1000)
    assert [entry.name.rpartition("/")[2] for entry in found] == wanted


def test_the_built_in_catalogue_can_be_run_entry_by_entry() -> None:
    found, problems, more = Registries(Path("/nonexistent"), lambda name: name).search("", 1000)
    assert (problems, more) == ([], False)
    assert len(found) >= 15
    for entry in found:
        offer = entry.offer()
        given = {each.name: "/x" for each in questions(offer, {})}
        config = RunConfig.read(run_config(entry, offer, given, lambda name, _: name))
        assert config.fields.image or config.fields.remote_url


# ---------------------------------------------------------------- what runs


def entry_in(value: Any, name: str) -> Any:
    return next(each for each in read_catalogue(json.dumps(value).encode(), "x").entries if each.name == name)


def test_an_entry_becomes_a_run_config_with_its_secrets_kept_elsewhere() -> None:
    entry = entry_in(LEGACY, "fetch")
    offer = entry.offer()
    assert [(each.name, each.secret) for each in questions(offer, {})] == [("KEY", True)]
    with pytest.raises(RegistryError, match="needs `KEY`"):
        run_config(entry, offer, {}, lambda name, _: name)
    kept: dict[str, str] = {}

    def keep(name: str, value: str) -> str:
        kept[name] = value
        return name

    made = run_config(entry, offer, {"KEY": "s3cret"}, keep)
    config = RunConfig.read(made)
    assert "s3cret" not in json.dumps(made)
    assert kept == {"fetch-KEY": "s3cret"}
    assert config.secret_targets == {"KEY": "fetch-KEY"}
    assert (config.fields.image, config.fields.transport, config.fields.target_port) == (
        "ghcr.io/x/fetch:1.0",
        "streamable-http",
        8080,
    )
    assert (config.fields.cmd_args, config.fields.env_vars) == (["--quiet"], {"LEVEL": "info"})
    assert config.fields.permission_profile == {"network": {"outbound": {"allow_host": ["x.org"]}}}
    assert config.fields.registry_server_name == "fetch"


def test_a_remote_entry_brings_its_headers() -> None:
    entry = entry_in(LEGACY, "search")
    made = run_config(entry, entry.offer(), {"X-Key": "k", "X-Region": "eu"}, lambda name, _: name)
    config = RunConfig.read(made)
    assert (config.fields.remote_url, config.fields.transport) == ("https://s/mcp", "sse")
    assert config.fields.header_forward.add_headers_from_secret == {"X-Key": "search-X-Key"}
    assert config.fields.header_forward.add_plaintext_headers == {"X-Region": "eu"}
    with pytest.raises(RegistryError, match="must be one of eu, us"):
        run_config(entry, entry.offer(), {"X-Key": "k", "X-Region": "mars"}, lambda name, _: name)


def test_arguments_and_variables_are_filled_in() -> None:
    arguments = [
        {"type": "positional", "value": "start"},
        {"type": "named", "name": "--dir", "isRequired": True, "isRepeated": True, "valueHint": "dir"},
        {"type": "named", "name": "--mode", "default": "fast"},
        {"type": "named", "name": "--unset"},
        {
            "type": "positional",
            "value": "{host}:{port}",
            "variables": {"host": {"isRequired": True}, "port": {"default": "80"}},
        },
    ]
    remotes = [
        {
            "type": "streamable-http",
            "url": "https://{tenant}.x/mcp",
            "variables": {"tenant": {"isRequired": True}},
        }
    ]
    package = {"registryType": "npm", "identifier": "b", "version": "1", "packageArguments": arguments}
    entry = entry_in([{"name": "a/b", "packages": [package], "remotes": remotes}], "a/b")
    given = {"dir": "/x,/y", "host": "h", "tenant": "me"}
    assert {each.name for each in questions(entry.offer("npm"), {})} == {"dir", "host"}
    made = run_config(entry, entry.offer("npm"), given, lambda name, _: name)
    assert made["cmd_args"] == ["start", "--dir", "/x", "--dir", "/y", "--mode", "fast", "h:80"]
    assert (
        run_config(entry, entry.offer("remote"), given, lambda name, _: name)["remote_url"]
        == "https://me.x/mcp"
    )
    with pytest.raises(RegistryError, match="not offered as `image`"):
        entry.offer("image")


# ---------------------------------------------------------------- provenance


class Image:
    """An image registry that keeps signatures as cosign does."""

    def __init__(
        self, digest: str, signer: ec.EllipticCurvePrivateKey, signed_digest: str | None = None
    ) -> None:
        body = {"critical": {"image": {"docker-manifest-digest": signed_digest or digest}}, "optional": None}
        self.payload = json.dumps(body).encode()
        self.place = f"sha256:{hashlib.sha256(self.payload).hexdigest()}"
        signature = base64.b64encode(signer.sign(self.payload, ec.ECDSA(hashes.SHA256()))).decode()
        layer = {"digest": self.place, "annotations": {"dev.cosignproject.cosign/signature": signature}}
        self.manifest = {"layers": [layer]}
        self.tag = f"manifests/{digest.replace(':', '-')}.sig"

    def fetch(self, target: str) -> bytes:
        if target == self.tag:
            return json.dumps(self.manifest).encode()
        assert target == f"blobs/{self.place}"
        return self.payload


def test_an_image_is_verified_with_the_key_its_entry_names() -> None:
    digest, other = "sha256:" + "a" * 64, "sha256:" + "b" * 64
    ours, theirs = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    key = ours.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    verify_image(digest, key, Image(digest, ours).fetch)
    with pytest.raises(RegistryError, match="no signature of the image"):
        verify_image(digest, key, Image(digest, theirs).fetch)
    with pytest.raises(RegistryError, match="no signature of the image"):
        verify_image(digest, key, Image(digest, ours, signed_digest=other).fetch)
    tampered = Image(digest, ours)
    tampered.payload += b" "
    with pytest.raises(RegistryError, match="not what it named"):
        verify_image(digest, key, tampered.fetch)
    unsigned = Image(digest, ours)
    unsigned.manifest = {"layers": []}
    with pytest.raises(RegistryError, match="is not signed"):
        verify_image(digest, key, unsigned.fetch)
    with pytest.raises(RegistryError, match="cannot be read"):
        verify_image(digest, "nonsense", Image(digest, ours).fetch)


def test_a_source_is_not_added_under_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="is no name"):
        Registries(tmp_path, lambda name: name).add(Source("built-in", "file", "x"))
