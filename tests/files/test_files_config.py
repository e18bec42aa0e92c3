"""What cannot work is said when the file is read, with the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.config.loading import ConfigError, load
from mooring.config.reference import render

HEAD = "mooring: 1\nservers:\n  - id: a\n    workload: {run: echo%s}\n    adapters:\n      - "
HTTP = (
    "mooring: 1\nservers:\n  - id: a\n    run_config: {image: 'npx://x', transport: streamable-http}\n"
    "    adapters:\n      - "
)
TAKES = "{type: upload_consumer, tools: [t], file_path_argument: p%s}"


def loaded(folder: Path, text: str) -> None:
    file = folder / "mooring.yaml"
    file.write_text(text)
    load(file, environment={})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (HEAD % "" + "{type: upload_consumer, tools: [t]}", "needs the key `file_path_argument`"),
        (HEAD % "" + "{type: upload_consumer, tools: []}", "tools` is empty"),
        (HEAD % "" + TAKES % ", output_path_argument: o", "belongs to an `artifact_producer`"),
        (HEAD % "" + "{type: artifact_producer, tools: [t], file_path_argument: p}", "belongs to an `upload"),
        (HEAD % "" + "{type: artifact_producer, tools: [t], output_path_argument: 'a[*]'}", "cannot have"),
        (HEAD % "" + TAKES.replace("p%s", "'a..b'"), "is not a path"),
        (HEAD % "" + TAKES % ", uri_prefix: true, delivery: url", "exclude each other"),
        (
            HEAD % "" + "{type: artifact_producer, tools: [t], output_locator: {mode: structured}}",
            "needs the key `output_path_key`",
        ),
        (
            HEAD % "" + "{type: artifact_producer, tools: [t], output_locator: {output_path_regexes: ['(']}}",
            "is not a regular expression",
        ),
        (HEAD % "" + TAKES % "" + "\n    share: global", "cannot be `global` for a process with adapters"),
        (HEAD % "" + TAKES % "" + "\n    share: principal", "cannot be `principal` for a process"),
        (HEAD % ", permission_profile: none" + TAKES % "" + "\n    share: global", "cannot be `global`"),
        (HTTP + TAKES % "", "hand paths to a sandbox that serves all sessions"),
        (HTTP.replace("streamable-http", "stdio, mooring: {share: global}") + TAKES % "", "cannot be `glob"),
        (HEAD % "" + TAKES % "" + "\nuploads: {path: /mcp}", "`uploads.path` is an address of ours"),
        (HEAD % "" + TAKES % "" + "\nuploads: {path: /artifacts/in}", "is an address of ours"),
        (HEAD % "" + TAKES % "" + "\n    files: {mounted_at: files}", "must be a path that begins with `/`"),
    ],
)
def test_what_cannot_work_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    assert why in str(caught.value)


@pytest.mark.parametrize("more", ["", ", delivery: base64", "\n    files: {shared_directory: .}"])
def test_a_sandboxed_process_sees_its_own_files(tmp_path: Path, more: str) -> None:
    delivery, _, rest = more.partition("\n")
    takes = TAKES % delivery + (f"\n{rest}" if rest else "")
    loaded(tmp_path, HEAD % ", permission_profile: none" + takes)
    if rest or delivery:
        loaded(tmp_path, HTTP + takes)
    if delivery:
        loaded(tmp_path, HEAD % "" + takes + "\n    share: global")


def test_the_reference_gives_sizes_as_they_are() -> None:
    assert "| `preview_bytes` | size | `2Ki` |" in render()
    assert "| `max_file_bytes` | size | `50Mi` |" in render()
