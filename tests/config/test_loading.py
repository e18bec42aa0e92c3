"""What a configuration file means, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.config.loading import ConfigError, load
from mooring.config.schema import Config, Server, Upstream

NO_VARIABLES: dict[str, str] = {}


def write(folder: Path, text: str, name: str = "mooring.yaml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def refused(file: Path, environment: dict[str, str] = NO_VARIABLES) -> str:
    with pytest.raises(ConfigError) as caught:
        load(file, environment=environment)
    return str(caught.value)


def refusal(folder: Path, text: str, environment: dict[str, str] = NO_VARIABLES) -> str:
    return refused(write(folder, "mooring: 1\n" + text), environment)


def loaded(folder: Path, text: str, environment: dict[str, str] = NO_VARIABLES) -> Config:
    return load(write(folder, "mooring: 1\n" + text), environment=environment)


def test_a_file_with_only_the_mark_has_every_default(tmp_path: Path) -> None:
    config = loaded(tmp_path, "")
    assert (config.listen, config.host, config.port) == ("127.0.0.1:7433", "127.0.0.1", 7433)
    assert config.limits.max_body_bytes == 8 * 1024 * 1024
    assert config.limits.max_message_bytes == 64 * 1024 * 1024
    assert config.sessions.upstream_session_termination_retries == 1
    assert config.storage.root == tmp_path / "data"
    assert config.servers == []


def test_a_server_is_read_with_its_defaults(tmp_path: Path) -> None:
    config = loaded(tmp_path, "servers:\n  - id: a\n    upstream: {url: 'http://127.0.0.1:9/mcp'}\n")
    assert config.servers == [Server(id="a", upstream=Upstream(url="http://127.0.0.1:9/mcp"))]
    assert config.servers[0].share == "client"
    assert config.servers[0].timeouts.call_seconds == 300


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("python 'my server.py' --x", ["python", "my server.py", "--x"]),
        ("[npx, -y, pkg]", ["npx", "-y", "pkg"]),
        ("echo $HOME; rm x", ["echo", "$HOME;", "rm", "x"]),
    ],
)
def test_a_command_becomes_words_and_never_meets_a_shell(tmp_path: Path, run: str, words: list[str]) -> None:
    config = loaded(tmp_path, f"servers:\n  - id: a\n    workload:\n      run: {run}\n")
    workload = config.servers[0].workload
    assert workload is not None
    assert workload.run == words


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    text = (
        "storage: {root: ./x}\ntrace: {file: t.jsonl}\nservers:\n - {id: a, workload: {run: x, cwd: sub}}\n"
    )
    config = loaded(tmp_path, text)
    assert config.storage.root == tmp_path / "x"
    assert config.trace.file == tmp_path / "t.jsonl"
    assert config.servers[0].workload is not None
    assert config.servers[0].workload.cwd == tmp_path / "sub"


def test_a_process_starts_in_the_folder_of_the_file(tmp_path: Path) -> None:
    config = loaded(tmp_path, "servers:\n - {id: a, workload: {run: x}}\n")
    assert config.servers[0].workload is not None
    assert config.servers[0].workload.cwd == tmp_path


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("2048", 2048),
        ("8Mi", 8 * 2**20),
        ("10MB", 10_000_000),
        ("50 KiB", 50 * 1024),
        ("'3000'", 3000),
        ("2k", 2000),
    ],
)
def test_sizes_may_be_written_with_units(tmp_path: Path, written: str, size: int) -> None:
    assert loaded(tmp_path, f"limits: {{max_body_bytes: {written}}}").limits.max_body_bytes == size


def test_an_unknown_key_is_named_with_its_path_its_place_and_the_nearest_known_one(tmp_path: Path) -> None:
    message = refusal(
        tmp_path, "servers:\n  - id: a\n    upstream:\n      ulr: http://x\n      url: http://x\n"
    )
    assert "mooring.yaml: line 5, column 7: `servers[0].upstream.ulr` is not a known key" in message
    assert "did you mean `url`?" in message


def test_a_key_on_the_wrong_level_is_sent_to_the_right_one(tmp_path: Path) -> None:
    assert "did you mean `timeouts.call_seconds`?" in refusal(
        tmp_path, "servers:\n - {id: a, call_seconds: 3}\n"
    )


def test_a_key_like_no_other_gets_the_list_of_known_ones(tmp_path: Path) -> None:
    assert "known here: `idle_ttl_seconds`" in refusal(tmp_path, "sessions: {zzz: 1}")


def test_all_problems_are_reported_together_in_the_order_of_the_file(tmp_path: Path) -> None:
    message = refusal(
        tmp_path, "lisen: x\nworkers: 4\nservers:\n  - {id: A, upstream: {url: ftp://x}}\n  - {}\n"
    )
    places = [message.index(part) for part in ("`lisen`", "`workers`", "`servers[0].id`", "`servers[1]`")]
    assert places == sorted(places)
    assert "has 5 problems" in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workers: 2", "more than one worker is not supported yet"),
        ("workers: true", "`workers` must be a whole number, not `true`"),
        ("listen: 7433", "must be a text, not `7433`: put it in quotes"),
        ("listen: localhost", "must be `host:port`"),
        ("listen: '::1:80'", "stands in brackets"),
        ("listen: 127.0.0.1:99999", "must be `host:port`"),
        ("listen: 0.0.0.0:7433", "auth.insecure_allow_anonymous: true"),
        ("listen: example.com:80", "which other machines can reach"),
        ("public_url: example.com", "must start with `http://` or `https://`"),
        ("tls: {cert: a.pem}", "needs `key` too"),
        ("tls: {cert: a.pem, key: b.pem}", "`tls.cert` is not a file"),
        ("cors: {allowed_origins: ['https://x/path']}", "must be scheme and host only"),
        ("cors: {allowed_methods: [get]}", "`cors.allowed_methods[0]` must be a method in capitals"),
        ("cors: {allowed_headers: ['X Y']}", "`cors.allowed_headers[0]` is not a header name"),
        ("limits: {max_body_bytes: lots}", "must be a size such as `8Mi`"),
        ("limits: {max_body_bytes: 5}", "must be at least 1024, not `5`"),
        ("sessions: {idle_ttl_seconds: 0}", "must be more than 0, not `0`"),
        ("sessions: {upstream_session_termination_retries: 9}", "must be at most 5, not `9`"),
        ("trust_proxy_headers: yes", "must be `true` or `false`, not `yes`"),
        ("servers: {a: 1}", "`servers` must be a list, not a section"),
        ("servers: [{id: a}]", "needs `upstream`"),
        (
            "servers: [{id: a, upstream: {url: 'http://x'}, workload: {run: x}}]",
            "has both `upstream` and `workload`",
        ),
        ("servers: [{upstream: {url: 'http://x'}}]", "needs the key `id`"),
        ("servers: [{id: a, upstream: {url: 'http://u:p@x'}}]", "must not carry a user or password"),
        ("servers: [{id: a, upstream: {url: 'http://x', transport: see}}]", "did you mean `sse`?"),
        (
            "servers: [{id: a, upstream: {url: 'http://x', era: modern, transport: sse}}]",
            "do not speak `sse`",
        ),
        (
            "servers: [{id: a, upstream: {url: 'http://x', headers: {Mcp-Session-Id: x}}}]",
            "set by the gateway itself",
        ),
        ("servers: [{id: a, upstream: {url: 'http://x', headers: {X: 1}}}]", "put it in quotes"),
        ("servers: [{id: a, upstream: {url: 'http://x', headers: {'X Y': '1'}}}]", "is not a header name"),
        ('servers: [{id: a, upstream: {url: "http://x", headers: {X: "a\\nb"}}}]', "line break"),
        ("servers: [{id: a, workload: {run: ''}}]", "is empty"),
        ("servers: [{id: a, workload: {run: []}}]", "is empty"),
        ('servers: [{id: a, workload: {run: "x \'y"}}]', "cannot be split into words"),
        ("servers: [{id: a, workload: {run: x, cwd: nowhere}}]", "is not a folder"),
        ("servers: [{id: a, workload: {run: x, transport: sse}}]", "must be `stdio`"),
        (
            "servers: [{id: a, upstream: {url: 'http://x'}, timeouts: {total_seconds: 3}}]",
            "shorter than `call_seconds`",
        ),
        ("a: 1\na: 2", "`a` stands twice"),
        ("x: [", "is not YAML"),
        ("x: &x [*x]", "is not YAML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal(tmp_path, text)


def test_two_servers_cannot_have_one_id(tmp_path: Path) -> None:
    entry = "  - {id: a, upstream: {url: 'http://x'}}\n"
    assert "`servers[1].id` `a` is also the id of `servers[0]`" in refusal(tmp_path, "servers:\n" + entry * 2)


@pytest.mark.parametrize(
    "text",
    [
        "state: {url: 'redis://x'}",
        "virtual_servers: [{id: x}]",
    ],
)
def test_what_this_version_does_not_have_is_refused_not_ignored(tmp_path: Path, text: str) -> None:
    message = refusal(tmp_path, text)
    assert "this version does not have" in message
    assert "remove" in message


def test_a_wrong_permission_profile_is_refused_with_the_key(tmp_path: Path) -> None:
    for profile in ("nowhere.json", "{reed: [/x]}", "{network: {mode: host}}", "{read: ['a:b:c']}", "3"):
        text = f"servers: [{{id: a, workload: {{run: x, permission_profile: {profile}}}}}]"
        assert "`servers[0].workload.permission_profile`" in refusal(tmp_path, text)


def test_a_provider_without_an_issuer_is_refused(tmp_path: Path) -> None:
    assert "needs `issuer`" in refusal(tmp_path, "auth: {mode: oidc}")
    assert "has no effect with `mode: none`" in refusal(tmp_path, "auth: {issuer: 'https://x'}")
    assert "must be an `https://` address" in refusal(tmp_path, "auth: {mode: oidc, issuer: 'http://x.org'}")
    assert "cannot be `HS256`" in refusal(
        tmp_path, "auth: {mode: oidc, issuer: 'https://x', algorithms: [HS256]}"
    )


def test_callers_who_authenticate_may_come_from_elsewhere(tmp_path: Path) -> None:
    config = loaded(tmp_path, "listen: 0.0.0.0:7433\nauth: {mode: oidc, issuer: 'https://x', audience: y}")
    assert config.auth.audience == ["y"]


def test_sections_that_are_switched_off_are_accepted(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
public_url: null
tls: {cert: null, key: null}
auth: {mode: none}
authorization: {type: none}
audit: {enabled: false, file: null}
limits: {max_body_bytes: 8Mi, rate: []}
core: {allow_artifacts_download: false, tool_definition_pinning: {mode: off}}
uploads: {enabled: false}
artifacts: {enabled: false}
results: {max_inline_bytes: null}
storage: {root: ./data, url: null}
state: {url: null}
servers:
  - id: a
    upstream: {url: "http://127.0.0.1:8931/mcp", transport: auto, era: auto}
    tools: {allow: [], deny: [], override: {}}
    adapters: []
virtual_servers: []
""",
    )
    assert [server.id for server in config.servers] == ["a"]


def test_anonymous_callers_from_elsewhere_need_a_word_from_the_operator(tmp_path: Path) -> None:
    config = loaded(tmp_path, "listen: 0.0.0.0:7433\nauth: {insecure_allow_anonymous: true}")
    assert config.host == "0.0.0.0"


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.9.9.9:1", "[::1]:7433", "localhost:80"])
def test_loopback_addresses_need_nothing(tmp_path: Path, listen: str) -> None:
    assert loaded(tmp_path, f"listen: '{listen}'").listen == listen


def test_an_address_given_on_the_command_line_is_judged_like_the_one_in_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "mooring: 1\nlisten: 0.0.0.0:1\n")
    assert load(file, listen="127.0.0.1:0").port == 0
    with pytest.raises(ConfigError, match="which other machines can reach"):
        load(file, listen="0.0.0.0:7433")


def test_environment_variables_are_filled_in(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "listen: '127.0.0.1:${PORT:-1}'\npublic_url: ${URL:-http://d}\nlimits: {max_connections: '${N}'}\n"
        "trust_proxy_headers: '${TRUST}'\n"
        "servers: [{id: a, upstream: {url: 'http://x', headers: {A: 'Bearer ${T}', B: '$${T}'}}}]",
        {"PORT": "8080", "URL": "", "N": "7", "T": "secret", "TRUST": "true"},
    )
    assert (config.port, config.public_url, config.limits.max_connections) == (8080, "http://d", 7)
    assert config.trust_proxy_headers is True
    assert config.servers[0].upstream is not None
    assert config.servers[0].upstream.headers == {"A": "Bearer secret", "B": "${T}"}


def test_a_missing_variable_is_named_with_its_key(tmp_path: Path) -> None:
    message = refusal(tmp_path, "public_url: ${NOWHERE}")
    assert "`public_url` needs the environment variable `NOWHERE`" in message


def test_a_value_from_the_environment_is_never_shown(tmp_path: Path) -> None:
    message = refusal(tmp_path, "limits: {max_body_bytes: '${SECRET}'}", {"SECRET": "hunter2"})
    assert "hunter2" not in message
    assert "what the environment variable holds" in message


def test_json_is_read_too(tmp_path: Path) -> None:
    file = write(tmp_path, '{"mooring": 1, /* note */ "listen": "127.0.0.1:5" // here\n}', "m.json")
    assert load(file).port == 5
    assert "line 2, column" in refused(write(tmp_path, '{"mooring": 1,\n nope}', "m.json"))
    assert "stands twice" in refused(write(tmp_path, '{"mooring": 1, "mooring": 1}', "m.json"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen: 127.0.0.1:1", "add the line `mooring: 1`"),
        ("", "start it with `mooring: 1`"),
        ("mooring: 2", "`mooring` must be `1`, not `2`"),
        ("mooring: true", "`mooring` must be `1`, not `true`"),
        ("schema_version: v0.1.0\nname: fetch\ntransport: stdio", "ToolHive RunConfig"),
    ],
)
def test_other_files_are_recognised_or_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(write(tmp_path, text))


def test_a_missing_file_and_a_file_that_is_no_text_are_refused(tmp_path: Path) -> None:
    assert "no such file or directory" in refused(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text" in refused(tmp_path / "b.yaml")


def test_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "too many values" in refusal(tmp_path, "\n".join(lines))
