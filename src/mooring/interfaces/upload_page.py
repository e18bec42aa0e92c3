"""The page for people: choose or drop files, watch them go, copy the handles; without scripts, too."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Final

from mooring.files.records import FileRecord
from mooring.files.upload_tool import FIELD, UploadRules

_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 40rem; margin: 3rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem }
#drop { border: 2px dashed; border-radius: .5rem; padding: 2rem; text-align: center }
#drop.over { background: color-mix(in srgb, currentColor 10%, transparent) }
progress { width: 100%; height: 1.2rem; margin-top: 1rem }
code { overflow-wrap: anywhere }
li { margin: .5rem 0 }
button { font: inherit; padding: .2rem .8rem }
.error { color: #c00 }
"""

_SCRIPT: Final = """
const form = document.querySelector("form"), input = form.querySelector("input[type=file]");
const bar = document.querySelector("progress"), list = document.querySelector("ul");
const say = document.querySelector("[role=status]"), drop = document.getElementById("drop");
function add(upload) {
  const item = document.createElement("li"), code = document.createElement("code");
  const copy = document.createElement("button");
  code.textContent = upload.upload_handle;
  copy.textContent = "Copy"; copy.type = "button";
  copy.onclick = () => navigator.clipboard.writeText(upload.upload_handle)
    .then(() => { copy.textContent = "Copied" },
          () => { getSelection().selectAllChildren(code) });
  const about = upload.filename + " (" + upload.size_bytes + " bytes) ";
  item.append(about, copy, document.createElement("br"), code);
  list.append(item);
}
function fail(text) { say.textContent = text; say.className = "error"; }
function send(files) {
  if (!files.length) return;
  const body = new FormData(), request = new XMLHttpRequest();
  for (const file of files) body.append(FIELD, file);
  bar.hidden = false; bar.value = 0; say.className = ""; say.textContent = "Sending…";
  request.upload.onprogress = event => { if (event.lengthComputable) bar.value = event.loaded / event.total };
  request.onerror = () => fail("The connection broke. Try again.");
  request.onload = () => {
    let answer = {};
    try { answer = JSON.parse(request.responseText) } catch { }
    if (request.status >= 300) return fail(answer.error || "That did not work (" + request.status + ").");
    bar.value = 1; say.textContent = "Done. Give these handles to your assistant:";
    answer.uploads.forEach(add);
    form.reset();
  };
  request.open("POST", location.href);
  request.setRequestHeader("Accept", "application/json");
  request.send(body);
}
form.onsubmit = event => { event.preventDefault(); send(input.files) };
input.onchange = () => send(input.files);
drop.ondragover = event => { event.preventDefault(); drop.classList.add("over") };
drop.ondragleave = () => drop.classList.remove("over");
drop.ondrop = event => {
  event.preventDefault(); drop.classList.remove("over"); send(event.dataTransfer.files);
};
""".replace("FIELD", f'"{FIELD}"')


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


HEADERS: Final = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"same-origin"),  # with none at all a form would come from nowhere: `Origin: null`
    (b"x-content-type-options", b"nosniff"),
    (
        b"content-security-policy",
        (
            f"default-src 'none'; script-src 'sha256-{_digest(_SCRIPT)}'; "
            f"style-src 'sha256-{_digest(_STYLE)}'; connect-src 'self'; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'"
        ).encode(),
    ),
)


def form(server_id: str, rules: UploadRules) -> bytes:
    """Choose files."""
    limit = f"up to {rules.max_file_bytes // 1024**2 or 1} MiB each"
    body = f"""<h1>Send files to {escape(server_id)}</h1>
<form method="post" enctype="multipart/form-data">
<div id="drop"><p>Drop files here, or choose them ({limit}).</p>
<p><input type="file" name="{FIELD}" aria-label="Files" multiple required> <button>Send</button></p></div>
<progress hidden max="1" value="0" aria-label="Progress"></progress>
<p role="status"></p><ul></ul>
</form><script>{_SCRIPT}</script>"""
    return _page(f"Send files to {server_id}", body)


def done(server_id: str, made: list[FileRecord]) -> bytes:
    """The handles, for a browser without scripts."""
    items = "".join(
        f"<li>{escape(record.name)} ({record.size} bytes)<br><code>{escape(record.uri)}</code></li>"
        for record in made
    )
    return _page(
        f"Sent to {server_id}",
        f"<h1>Done</h1><p>Give these handles to your assistant:</p><ul>{items}</ul>"
        "<p><a href=''>Send more</a></p>",
    )


def _page(title: str, body: str) -> bytes:
    head = f"<meta name=viewport content='width=device-width'><title>{escape(title)}</title>"
    return f"<!doctype html><html lang=en>{head}<style>{_STYLE}</style><body>{body}</body></html>".encode()
