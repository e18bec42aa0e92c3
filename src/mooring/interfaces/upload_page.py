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
body { max-width: 40rem; margin: 3rem auto; padding: 0 1rem; overflow-wrap: anywhere }
h1 { font-size: 1.4rem }
#drop { border: 2px dashed; border-radius: .5rem; padding: 2rem; text-align: center }
#drop.over { background: color-mix(in srgb, currentColor 10%, transparent) }
input { font: inherit; max-width: 100% }
progress { width: 100%; height: 1.2rem; margin-top: 1rem }
ul { padding-left: 1.2rem }
li { margin: .5rem 0 }
button, ::file-selector-button { font: inherit; padding: .2rem .8rem }
.error { color: #b00020 }
@media (prefers-color-scheme: dark) { .error { color: #ff8a80 } }
"""

_SCRIPT: Final = """
const form = document.querySelector("form"), input = form.querySelector("input[type=file]");
const bar = document.querySelector("progress"), list = document.querySelector("ul");
const say = document.querySelector("[role=status]"), drop = document.getElementById("drop");
const limit = Number(form.dataset.limit), most = Number(form.dataset.most);
let before = Promise.resolve(); // what is chosen while something else goes waits for it
form.querySelector("button").hidden = true; // what is chosen goes at once
function size(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < 3) { bytes /= 1024; unit++ }
  return (unit ? bytes.toFixed(1) : bytes) + " " + units[unit];
}
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea"); // without HTTPS browsers have no clipboard for pages
  field.value = text; document.body.append(field); field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("not copied");
}
function copier(label, text, shown) {
  const button = document.createElement("button");
  button.textContent = label; button.type = "button";
  button.onclick = () => copy(text)
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
function tell(text, problem) { say.textContent = text; say.className = problem ? "error" : "" }
async function hash(file) {
  const digest = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
  return Array.from(new Uint8Array(digest), byte => byte.toString(16).padStart(2, "0")).join("");
}
function exchanged(body) {
  const request = new XMLHttpRequest();
  return new Promise((resolve, reject) => {
    request.upload.onprogress = event => {
      if (!event.lengthComputable) return;
      bar.value = event.loaded / event.total;
      tell("Sending… " + size(event.loaded) + " of " + size(event.total));
    };
    request.onerror = () => reject(new Error("The connection broke. Try again."));
    request.onload = () => {
      let answer = {};
      try { answer = JSON.parse(request.responseText) } catch { }
      if (request.status < 300) return resolve(answer);
      const why = answer.error || "that did not work (" + request.status + ")";
      reject(new Error(why[0].toUpperCase() + why.slice(1)));
    };
    request.open("POST", location.href);
    request.setRequestHeader("Accept", "application/json");
    request.send(body);
  });
}
async function pass(files) {
  const body = new FormData();
  for (const file of files) body.append(FIELD, file);
  if ("hashes" in form.dataset) {
    if (!window.crypto || !crypto.subtle) throw new Error(
      "Files need their SHA-256 here; a browser works it out over HTTPS only. Use a terminal.");
    for (const file of files) body.append(HASHES, await hash(file));
  }
  const answer = await exchanged(body);
  answer.uploads.forEach(add);
  return answer.upload_handles;
}
async function send(files) {
  const large = files.find(file => file.size > limit), handles = [];
  bar.hidden = false; bar.value = 0; tell("Sending…");
  onbeforeunload = event => event.preventDefault(); // leaving now would lose what is on its way
  try {
    if (large) throw new Error(large.name + " has " + size(large.size) + "; " + form.dataset.words + ".");
    for (let begin = 0; begin < files.length; begin += most)
      handles.push(...await pass(files.slice(begin, begin + most)));
    bar.value = 1; tell("Done. Give these handles to your assistant:");
    if (handles.length > 1) say.append(" ", copier("Copy all", handles.join("\\n"), list));
  } catch (error) {
    bar.hidden = true; tell(error.message, true);
  }
  onbeforeunload = null;
}
function enqueue(files) {
  files = Array.from(files);
  form.reset(); // else choosing the same file again would do nothing
  if (files.length) before = before.then(() => send(files));
}
form.onsubmit = event => { event.preventDefault(); enqueue(input.files) };
input.onchange = () => enqueue(input.files);
ondragover = event => { event.preventDefault(); drop.classList.add("over") };
ondragleave = event => { if (!event.relatedTarget) drop.classList.remove("over") };
ondrop = event => { // anywhere on the page: beside the frame the browser would open the file instead
  event.preventDefault(); drop.classList.remove("over");
  const entries = Array.from(event.dataTransfer.items, item => item.webkitGetAsEntry?.());
  if (entries.some(entry => entry?.isDirectory))
    return tell("A folder cannot be sent: choose the files in it.", true);
  enqueue(event.dataTransfer.files);
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
    limit = in_words(rules.max_file_bytes)
    facts = f'data-limit="{rules.max_file_bytes}" data-most="{rules.max_files}"'
    facts += f' data-words="a file may have at most {limit} here"'
    facts += " data-hashes" if rules.require_sha256 else ""
    body = f"""<h1>Send files to {escape(server_id)}</h1>
<form method="post" enctype="multipart/form-data" {facts}>
<div id="drop"><p>Drop files here, or choose them (up to {limit} each).</p>
<p><input type="file" name="{FIELD}" aria-label="Files" multiple required> <button>Send</button></p></div>
<progress hidden max="1" value="0" aria-label="Progress"></progress>
<p role="status"></p><ul></ul>
</form><script>{_SCRIPT}</script>"""
    return _page(f"Send files to {server_id}", body)


def done(server_id: str, made: list[FileRecord]) -> bytes:
    """The handles, for a browser without scripts."""
    items = "".join(
        f"<li>{escape(record.name)} ({in_words(record.size)})<br><code>{escape(record.uri)}</code></li>"
        for record in made
    )
    return _page(
        f"Sent to {server_id}",
        f"<h1>Done</h1><p>Give these handles to your assistant:</p><ul>{items}</ul>"
        "<p><a href=''>Send more</a></p>",
    )


def refusal(message: str) -> bytes:
    """Why there is nothing to see, for whoever opened an old link."""
    why = escape(message[:1].upper() + message[1:])
    return _page("That did not work", f"<h1>That did not work</h1><p class=error>{why}</p>")


def _page(title: str, body: str) -> bytes:
    head = f"<meta name=viewport content='width=device-width'><title>{escape(title)}</title>"
    return f"<!doctype html><html lang=en>{head}<style>{_STYLE}</style><body>{body}</body></html>".encode()
