"""Servers from functions: a typed function becomes a tool, for clients of every revision of the protocol.

from mooring.authoring import Server

server = Server("greeter")

@server.tool
def greet(name: str) -> str:
    '''Say hello to somebody.'''
    return f"Hello, {name}!"

server.run()
"""

from mooring.authoring.content import (
    Annotations,
    Audio,
    Contents,
    Embedded,
    Image,
    Link,
    Message,
    Result,
    Text,
)
from mooring.authoring.context import Context, Pending, Root, Sampled
from mooring.authoring.decorators import prompt, resource, resource_template, tool
from mooring.authoring.errors import Cancelled, ClientCannot, ClientRefused, NotFound, ToolError
from mooring.authoring.forms import Elicited
from mooring.authoring.http_settings import HttpSettings
from mooring.authoring.identity import Cache
from mooring.authoring.inference import schema_of
from mooring.authoring.metadata import Check, Header
from mooring.authoring.server import Server

__all__ = [
    "Annotations",
    "Audio",
    "Cache",
    "Cancelled",
    "Check",
    "ClientCannot",
    "ClientRefused",
    "Contents",
    "Context",
    "Elicited",
    "Embedded",
    "Header",
    "HttpSettings",
    "Image",
    "Link",
    "Message",
    "NotFound",
    "Pending",
    "Result",
    "Root",
    "Sampled",
    "Server",
    "Text",
    "ToolError",
    "prompt",
    "resource",
    "resource_template",
    "schema_of",
    "tool",
]
