"""Questions to the person behind a client: a type becomes the flat form that `elicitation/create` allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar, cast

from mooring.authoring.errors import ClientRefused
from mooring.authoring.hints import Undescribable
from mooring.authoring.inference import shape_of, write
from mooring.authoring.problems import Invalid
from mooring.authoring.schema import Schema
from mooring.authoring.shapes import Shape

T = TypeVar("T")
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
_PRIMITIVES: Final = frozenset({"string", "integer", "number", "boolean"})


@dataclass(frozen=True, slots=True)
class Elicited(Generic[T]):
    """What the person did, and what they filled in if they accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: T | None = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


@dataclass(frozen=True, slots=True)
class Form:
    """A form as its schema, and how to read what comes back."""

    schema: Schema
    shape: Shape | None

    @classmethod
    def of(cls, kind: Any) -> Form:
        if isinstance(kind, dict):
            return cls(cast("Schema", kind), None)
        shape = shape_of(kind)
        return cls(_flat(write(shape, "inline"), kind), shape)

    @property
    def key(self) -> str:
        """A form with a single field is known by it."""
        fields = list(self.schema.get("properties", {}))
        return fields[0] if len(fields) == 1 else "elicitation"

    def read(self, answer: dict[str, Any]) -> Elicited[Any]:
        action = answer.get("action")
        if action not in ("accept", "decline", "cancel"):
            raise ClientRefused("the client's answer to a question has no `action`")
        if action != "accept":
            return Elicited(action)
        content: Any = answer.get("content")
        if content is None:
            content = {}
        if self.shape is None:
            return Elicited(action, content)
        try:
            return Elicited(action, self.shape.read(content, ()))
        except Invalid as error:
            raise ClientRefused(f"the client's answer does not fit the form: {error}") from None


def _flat(schema: Schema, kind: Any) -> Schema:
    """Only what a client can show: one level of text, numbers, switches and choices."""
    label = getattr(kind, "__name__", str(kind))
    if schema.get("type") != "object" or "properties" not in schema:
        raise Undescribable(f"`{label}` is no form: use a dataclass or the like with plain fields")
    fields = {name: _field(field, f"{label}.{name}") for name, field in schema["properties"].items()}
    required = [name for name in schema.get("required", []) if name in fields]
    return {"type": "object", "properties": fields, **({"required": required} if required else {})}


def _field(schema: Schema, label: str) -> Schema:
    field = dict(schema)
    kinds = field.get("type")
    if isinstance(kinds, list):  # forms have no null: such a field may be left empty instead
        field["type"] = next((each for each in cast("list[str]", kinds) if each != "null"), "string")
        if "enum" in field:
            field["enum"] = [value for value in field["enum"] if value is not None]
    if "const" in field:
        field["enum"] = [field.pop("const")]
    if field.get("format") not in _FORMATS:
        field.pop("format", None)
    if field.get("type") == "array" and "enum" in field.get("items", {}):
        field.pop("uniqueItems", None)
        return field
    if field.get("type") not in _PRIMITIVES or ("enum" in field and field["type"] != "string"):
        raise Undescribable(f"`{label}`: a form has only text, numbers, switches and choices of text")
    return field
