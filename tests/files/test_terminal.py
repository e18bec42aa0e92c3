"""Files from the terminal, and by hand in a real browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.files.conftest import Json, file_server, http_request, said, serving, upload_url
from tests.support.gateway import Gateway, program
from tests.support.peers import ModernHttpPeer, StreamablePeer


def test_files_are_sent_into_the_session_that_asked(gateway: Gateway, tmp_path: Path) -> None:
    one, two = tmp_path / "eins ü.txt", tmp_path / "zwei.txt"
    one.write_text("1")
    two.write_bytes(os.urandom(1_000_000))
    with StreamablePeer(gateway, "files") as peer:
        done = gateway.command("upload", "--to", upload_url(peer)["upload_url"], str(one), str(two))
        assert done.returncode == 0, done.stderr
        handles = done.stdout.split()
        lines = said(peer.tool("measure_all", {"paths": handles})).splitlines()
    assert [line.split()[0] for line in lines] == ["1", "1000000"]
    assert lines[0].endswith("/eins ü.txt")


def test_files_are_sent_to_a_server_of_the_gateway(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("abc")
    done = gateway.command("upload", "--server", "files", str(file), "--format", "json")
    assert done.returncode == 0, done.stderr
    [made] = json.loads(done.stdout)["uploads"]
    with ModernHttpPeer(gateway, "files") as peer:
        assert said(peer.tool("measure", {"path": made["upload_handle"]})).startswith("3 ")


def test_what_has_ended_with_its_command_is_not_left_to_be_tried(gateway: Gateway, tmp_path: Path) -> None:
    done = gateway.command("tool", "call", "files", "files_get_upload_url")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["upload_url"]
    assert "this URL ended with this command; from here, key@=FILE sends a file with a call" in done.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--server", "nowhere"], "takes no uploads"),
        (["--to", "not a url"], "is not an upload URL"),
    ],
)
def test_what_cannot_be_sent_says_why(gateway: Gateway, tmp_path: Path, words: list[str], why: str) -> None:
    file = tmp_path / "a.txt"
    file.write_text("abc")
    done = gateway.command("upload", *words, str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert why in done.stderr


def test_an_artifact_is_listed_and_saved(gateway: Gateway, tmp_path: Path) -> None:
    with ModernHttpPeer(gateway, "files") as peer:
        about = peer.tool("write", {"filename": "made.txt", "text": "made by a tool"})["_meta"]["artifact"]
    listed = json.loads(gateway.command("artifact", "list", "--format", "json").stdout)["artifacts"]
    assert about["artifact_uri"] in [item["uri"] for item in listed]
    those = json.loads(gateway.command("artifact", "list", "files", "--format", "json").stdout)["artifacts"]
    assert about["artifact_uri"] in [item["uri"] for item in those]
    others = gateway.command("artifact", "list", "nowhere")
    assert (others.returncode, others.stdout) == (1, "")
    assert others.stderr.startswith("error: no server is called `nowhere`; there are: ")
    target = tmp_path / "saved.txt"
    done = gateway.command("artifact", "get", about["artifact_uri"], "--output", str(target))
    assert (done.returncode, done.stdout) == (0, f"{target}\n"), done.stderr
    assert target.read_text() == "made by a tool"
    again = gateway.command("artifact", "get", about["artifact_id"], "--output", str(target))
    assert again.returncode == 1
    assert "exists already" in again.stderr
    assert (
        gateway.command("artifact", "get", about["artifact_id"], "--output", "-").stdout == "made by a tool"
    )


# The page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="the page needs `playwright` from PyPI")
    if CHROMIUM is None:
        pytest.skip("the page needs Chromium: scripts/setup_browser.py installs it")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def test_a_person_sends_files_in_a_browser(gateway: Gateway, browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "von Hand.txt"
    file.write_text("chosen by hand")
    with StreamablePeer(gateway, "files") as peer:
        page = browser.new_page()
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(upload_url(peer)["upload_url"])
        page.set_input_files("input[type=file]", [str(file)])
        handle = page.text_content("li code", timeout=10_000)
        assert page.eval_on_selector("progress", "bar => bar.value") == 1
        assert "von Hand.txt (14 bytes)" in page.text_content("li")
        assert said(peer.tool("measure", {"path": handle})).startswith("14 ")
        _drop(page, "dropped.txt", "dropped")
        page.wait_for_selector("li:nth-child(2)", timeout=10_000)
        handle = page.text_content("li:nth-child(2) code")
        assert said(peer.tool("measure", {"path": handle})).startswith("7 ")
        assert problems == []
        page.close()


def test_where_hashes_are_required_page_and_terminal_bring_them(browser: Any, tmp_path: Path) -> None:
    files = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for number, file in enumerate(files):
        file.write_text("x" * (number + 1))
    with (
        serving(tmp_path / "gateway", uploads={"require_sha256": True}) as gateway,
        StreamablePeer(gateway, "files") as peer,
    ):
        page = browser.new_page()
        page.goto(upload_url(peer)["upload_url"])
        page.set_input_files("input[type=file]", [str(file) for file in files])
        page.wait_for_selector("li:nth-child(2), .error", timeout=10_000)
        assert page.text_content("[role=status]").startswith("Done.")
        assert page.is_visible("text=Copy all")
        handle = page.text_content("li:nth-child(2) code")
        assert said(peer.tool("measure", {"path": handle})).startswith("2 ")
        page.close()
        sent = gateway.command("upload", "--server", "files", str(files[0]))
        assert (sent.returncode, sent.stdout[:9]) == (0, "upload://"), sent.stderr


def test_a_call_from_the_terminal_sends_and_saves_files(gateway: Gateway, tmp_path: Path) -> None:
    source = tmp_path / "words.txt"
    source.write_text("quiet words")
    call = ["tool", "call", "files"]
    made = gateway.command(
        *call, "convert", f"path@={source}", "filename=loud.txt", "--output", str(tmp_path / "here")
    )
    assert made.returncode == 0, made.stderr
    saved = tmp_path / "here/loud.txt"
    assert saved.read_text() == "QUIET WORDS"
    assert f"saved {saved} (11 B)" in made.stderr
    assert made.stdout.endswith(f"to {saved}\n")
    assert "artifact://" not in made.stdout
    assert "Download" not in made.stdout
    again = gateway.command(
        *call, "convert", f"path@={source}", "filename=loud.txt", "--output", str(tmp_path / "here")
    )
    assert f"saved {tmp_path}/here/loud-2.txt" in again.stderr
    several = gateway.command(*call, "measure_all", f"paths@={source}", f"paths@={source}")
    assert [line.split()[0] for line in several.stdout.splitlines()] == ["11", "11"]
    as_json = gateway.command(
        *call, "write", "filename=a.txt", "count:=2", "--format", "json", "--output", str(tmp_path / "two")
    )
    assert len(json.loads(as_json.stdout)["_meta"]["artifacts"]) == 2
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["a-1.txt", "a.txt"]


@pytest.mark.parametrize(
    ("server", "settings"),
    [
        (file_server("of.papers"), {}),
        (file_server(tools={"override": {"files_get_upload_url": {"name": "where"}}}), {}),
        (file_server(), {"public_url": "https://gateway.example:8443/behind/a/proxy"}),
    ],
    ids=["dotted", "renamed", "proxied"],
)
def test_whatever_the_server_is_called_the_terminal_finds_it(
    tmp_path: Path, server: Json, settings: Json
) -> None:
    source = tmp_path / "words.txt"
    source.write_text("quiet words")
    name = server["id"]
    with serving(tmp_path / "gateway", server, **settings) as gateway:
        target = tmp_path / "here"
        made = gateway.command(
            *(
                "tool",
                "call",
                name,
                "convert",
                f"path@={source}",
                "filename=loud.txt",
                "--output",
                str(target),
            )
        )
        assert (made.returncode, (target / "loud.txt").read_text()) == (0, "QUIET WORDS"), made.stderr
        sent = gateway.command("upload", "--server", name, str(source))
        assert (sent.returncode, sent.stdout[:9]) == (0, "upload://"), sent.stderr


OTHERS_ARTIFACT = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    about = {"artifact_uri": "artifact://sessions/0123456789abcdef/0123456789abcdef/x.txt"}
    answers = {
        "initialize": {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "a gateway", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "draw", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "drawn"}], "_meta": {"artifact": about}},
    }
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}
        print(json.dumps(answer), flush=True)
"""


def test_what_a_call_answers_is_shown_whatever_becomes_of_its_files(tmp_path: Path) -> None:
    behind = {"id": "behind", "workload": {"run": [sys.executable, "-c", OTHERS_ARTIFACT]}}
    with serving(tmp_path / "gateway", file_server(), behind) as gateway:
        shown = gateway.command("tool", "call", "behind", "draw")
        assert (shown.returncode, shown.stdout) == (0, "drawn\n"), shown.stderr
        (tmp_path / "a file").touch()
        words = ("tool", "call", "files", "write", "filename=a.txt", "--output", str(tmp_path / "a file"))
        unsaved = gateway.command(*words)
        assert (unsaved.returncode, "wrote artifact://" in unsaved.stdout) == (1, True)
        assert "cannot save into" in unsaved.stderr


def test_a_file_that_cannot_be_sent_is_said(gateway: Gateway, tmp_path: Path) -> None:
    refused = gateway.command("tool", "call", "files", "measure", f"path@={tmp_path}/none")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "there is no file `" in refused.stderr


def test_a_file_that_is_refused_half_way_has_its_reason_on_a_line_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "large.bin"
    with file.open("wb") as large:
        large.truncate(40_000_000)  # more than fits into the buffers on the way
    with serving(tmp_path / "gateway", uploads={"max_file_bytes": 1000}) as gateway:
        terminal, theirs = os.openpty()
        words = [program(), "upload", "--server", "files", str(file), "--socket", str(gateway.socket)]
        with subprocess.Popen(words, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            shown = b""
            with suppress(OSError):  # its end, on a terminal
                while read := os.read(terminal, 65536):
                    shown += read
            os.close(terminal)
    assert process.returncode == 1
    assert b"sending large.bin [" in shown
    assert b"\nerror: `" in shown


def _drop(page: Any, name: str, text: str, where: str = "#drop") -> None:
    data = page.evaluate_handle(
        """([name, text]) => {
            const data = new DataTransfer();
            data.items.add(new File([text], name));
            return data;
        }""",
        [name, text],
    )
    page.dispatch_event(where, "drop", {"dataTransfer": data})


def _choose(page: Any, *files: tuple[str, bytes]) -> None:
    chosen = [{"name": name, "mimeType": "text/plain", "buffer": data} for name, data in files]
    page.set_input_files("input[type=file]", chosen)


def test_the_page_takes_more_than_one_request_may_have(browser: Any, tmp_path: Path) -> None:
    uploads = {"max_files": 2, "max_file_bytes": 1024}
    with serving(tmp_path, uploads=uploads) as gateway, StreamablePeer(gateway, "files") as peer:
        page = browser.new_page()
        page.goto(upload_url(peer)["upload_url"])
        _choose(page, *((f"{number}.txt", b"x") for number in range(5)))
        _choose(page, ("later.txt", b"x"))  # while the others are on their way
        _drop(page, "beside.txt", "dropped beside the frame", "h1")
        page.wait_for_selector("li:nth-child(7), .error", timeout=10_000)
        names = [item.split(" ")[0] for item in page.locator("li").all_text_contents()]
        assert names == ["0.txt", "1.txt", "2.txt", "3.txt", "4.txt", "later.txt", "beside.txt"]
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.method))
        _choose(page, ("fits.txt", b"x"), ("does not.txt", b"x" * 1025))
        page.wait_for_selector(".error", timeout=10_000)
        said_there = page.text_content("[role=status]")
        assert said_there == "does not.txt has 1.0 KiB; a file may have at most 1 KiB here."
        assert requests == []
        page.close()


def test_handles_are_copied_where_pages_have_no_clipboard(gateway: Gateway, browser: Any) -> None:
    """As on every `http://` address but this machine's own."""
    with StreamablePeer(gateway, "files") as peer:
        page = browser.new_page()
        page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        page.goto(upload_url(peer)["upload_url"])
        _choose(page, ("a.txt", b"a"))
        page.click("li button", timeout=10_000)
        page.wait_for_selector("li button:text('Copied')", timeout=10_000)
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_went_wrong_can_be_read(gateway: Gateway, browser: Any, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{gateway.address}/upload/files?ticket=forged")
    shown = page.eval_on_selector(".error", "element => getComputedStyle(element).color")
    behind = {"light": (255, 255, 255), "dark": (18, 18, 18)}[scheme]  # as Chromium paints them
    red, green, blue = map(int, shown.removeprefix("rgb(").removesuffix(")").split(", "))
    lighter, darker = sorted((_brightness(red, green, blue), _brightness(*behind)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5
    context.close()


def _brightness(*color: int) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [part / 255 for part in color]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_page_works_without_scripts(gateway: Gateway, browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "<b>plain.txt"
    file.write_text("plain")
    with StreamablePeer(gateway, "files") as peer:
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(upload_url(peer)["upload_url"])
        page.set_input_files("input[type=file]", [str(file)])
        page.click("button")
        page.wait_for_selector("li code", timeout=10_000)
        assert "plain.txt (5 bytes)" in page.text_content("li")
        assert page.query_selector("li b") is None
        assert said(peer.tool("measure", {"path": page.text_content("li code")})).startswith("5 ")
        context.close()


def test_the_page_says_what_went_wrong(gateway: Gateway, browser: Any) -> None:
    with StreamablePeer(gateway, "files") as peer:
        url = upload_url(peer)["upload_url"]
        page = browser.new_page()
        page.goto(url)
        page.route("**/upload/**", lambda route: route.fulfill(status=507, body='{"error": "no room"}'))
        page.set_input_files("input[type=file]", [{"name": "a", "mimeType": "text/plain", "buffer": b"a"}])
        page.wait_for_selector(".error", timeout=10_000)
        assert page.text_content("[role=status]") == "No room"
        assert not page.is_visible("progress"), "nothing goes any more"
        assert page.input_value("input[type=file]") == "", "the same file can be chosen again"
        page.close()


def test_whoever_opens_an_old_link_reads_why_it_does_not_work(gateway: Gateway, browser: Any) -> None:
    page = browser.new_page()
    for path, why in (
        ("upload/files?ticket=forged", "have your assistant ask for a new one"),
        ("artifacts/files/a/b/c", "Not found"),
    ):
        assert page.goto(f"{gateway.address}/{path}").status in (403, 404)
        assert page.text_content("h1") == "That did not work"
        assert why in page.text_content("p")
    page.close()


def test_the_page_needs_a_ticket_and_may_not_be_framed(gateway: Gateway) -> None:
    assert http_request("GET", f"{gateway.address}/upload/files").status == 403
    assert http_request("GET", f"{gateway.address}/upload/files?ticket=forged").status == 403
    with StreamablePeer(gateway, "files") as peer:
        answered = http_request("GET", upload_url(peer)["upload_url"])
    assert "frame-ancestors 'none'" in answered.headers["Content-Security-Policy"]
    assert answered.headers["Referrer-Policy"] == "same-origin"
