"""The words of the command line about files; what they do is imported when used."""

from __future__ import annotations

from typing import Any

from mooring.interfaces.cli import words


def add_parsers(commands: Any) -> None:
    _add_upload(commands)
    _add_artifact(commands)
    _add_doctor(commands)


def _add_upload(commands: Any) -> None:
    upload = commands.add_parser(
        "upload",
        help="send files for tools to use",
        description="Send files and print their `upload://` handles. With --to they go where a tool's "
        "`get_upload_url` said, into that session; with --server your modern clients may use them (without "
        "authentication: all modern clients).",
        parents=[words.where()],
    )
    upload.add_argument("files", metavar="FILE", nargs="+", help="the files")
    target = upload.add_mutually_exclusive_group(required=True)
    target.add_argument("--to", metavar="URL", help="the upload URL that a tool answered")
    target.add_argument("--server", metavar="ID", help="the server whose tools need them")
    words.add_format(upload)
    upload.set_defaults(handler="upload:run")


def _add_artifact(commands: Any) -> None:
    artifact = commands.add_parser("artifact", help="list and get what tools have made")
    actions = artifact.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the artifacts", parents=[words.where()])
    listing.add_argument("id", metavar="ID", nargs="?", help="only those of this server")
    words.add_format(listing)
    listing.set_defaults(handler="artifact:list_artifacts")
    get = actions.add_parser("get", help="save an artifact", parents=[words.where()])
    get.add_argument("artifact", metavar="URI", help="its `artifact://` URI, or its id")
    get.add_argument(
        "--output", metavar="FILE", help="where to save it; `-` is stdout (default: its own name, here)"
    )
    get.set_defaults(handler="artifact:get_artifact")


def _add_doctor(commands: Any) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="propose adapters for tools that take or make files",
        description="Read the tools of the running servers and propose `adapters` for those whose arguments "
        "look like files.",
        parents=[words.where()],
    )
    doctor.add_argument("id", metavar="ID", nargs="?", help="only this server")
    doctor.add_argument("--write", metavar="FILE", help="add the proposals to this mooring.yaml")
    words.add_format(doctor)
    doctor.set_defaults(handler="doctor:run")
