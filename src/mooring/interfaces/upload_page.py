"""The page for people: choose or drop files, watch them go, copy the handles; without scripts, too."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Final

from mooring.files.quotas import in_words
from mooring.files.records import FileRecord
from mooring.files.upload_tool import FIELD, HASH_FIELD, UploadRules

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
form.querySelector("button").hidden = true; // what is chosen goes at once
function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB"];
  let unit = 0;
  while (bytes >= 1000 && unit < 3) { bytes /= 1000; unit++ }
  return (unit ? bytes.toFixed(1) : bytes) + " " + units[unit];
}
function copier(label, text, shown) {
  const button = document.createElement("button");
  button.textContent = label; button.type = "button";
  button.onclick = () => navigator.clipboard.writeText(text)
    .then(() => { button.textContent = "Copied" },
          () => { getSelection().selectAllChildren(shown) });
  return button;
}
function add(upload) {
  const item = document.createElement("li"), code = document.createElement("code");
  code.textContent = upload.upload_handle;
  const about = upload.filename + " (" + size(upload.size_bytes) + ") ";
  item.append(about, copier("Copy", upload.upload_handle, code), document.createElement("br"), code);
  list.append(item);
}
function fail(text) {
  say.textContent = text; say.className = "error"; bar.hidden = true;
  form.reset(); // else choosing the same file again would do nothing
}
async function hash(file) {
  const digest = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
  return Array.from(new Uint8Array(digest), byte => byte.toString(16).padStart(2, "0")).join("");
}
async function send(files) {
  if (!files.length) return;
  files = Array.from(files);
  const body = new FormData(), request = new XMLHttpRequest();
  for (const file of files) body.append(FIELD, file);
  bar.hidden = false; bar.value = 0; say.className = ""; say.textContent = "Sending…";
  if ("hashes" in form.dataset) {
    if (!window.crypto || !crypto.subtle)
      return fail("Files need their SHA-256 here; a browser works it out over HTTPS only. Use a terminal.");
    for (const file of files) body.append(HASHES, await hash(file));
  }
  request.upload.onprogress = event => {
    if (!event.lengthComputable) return;
    bar.value = event.loaded / event.total;
    say.textContent = "Sending… " + size(event.loaded) + " of " + size(event.total);
  };
  request.onerror = () => fail("The connection broke. Try again.");
  request.onload = () => {
    let answer = {};
    try { answer = JSON.parse(request.responseText) } catch { }
    if (request.status >= 300) return fail(answer.error || "That did not work (" + request.status + ").");
    bar.value = 1; say.textContent = "Done. Give these handles to your assistant:";
    answer.uploads.forEach(add);
    if (answer.count > 1) say.append(" ", copier("Copy all", answer.upload_handles.join("\\n"), list));
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
""".replace("FIELD", f'"{FIELD}"').replace("HASHES", f'"{HASH_FIELD}"')


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
    limit = f"up to {in_words(rules.max_file_bytes)} each"
    body = f"""<h1>Send files to {escape(server_id)}</h1>
<form method="post" enctype="multipart/form-data"{" data-hashes" if rules.require_sha256 else ""}>
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


def refusal(message: str) -> bytes:
    """Why there is nothing to see, for whoever opened an old link."""
    return _page("That did not work", f"<h1>That did not work</h1><p class=error>{escape(message)}</p>")


def _page(title: str, body: str) -> bytes:
    head = f"<meta name=viewport content='width=device-width'><title>{escape(title)}</title>"
    return f"<!doctype html><html lang=en>{head}<style>{_STYLE}</style><body>{body}</body></html>".encode()
