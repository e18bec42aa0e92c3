"""Types of every kind that the tests describe and read."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Generic, NotRequired, TypedDict, TypeVar

import msgspec
import pydantic
import typing_extensions

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "dark blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass(frozen=True)
class Point:
    """A place on the map.

    Attributes:
        x: To the east.
        y: To the north.
    """

    x: float
    y: float = 0.0


@dataclasses.dataclass
class Node:
    name: str
    children: list[Node] = dataclasses.field(default_factory=list)


class Stop(TypedDict):
    name: Annotated[str, "As on the sign."]
    place: NotRequired[Point]


class Order(msgspec.Struct, tag="order", tag_field="kind", rename="camel"):
    order_number: int
    is_paid: bool = False


class Wagon(msgspec.Struct, forbid_unknown_fields=True):
    load: str
    next: Wagon | None = None


class Basket(pydantic.BaseModel):
    title: str
    count: int = pydantic.Field(ge=1, description="How many.")
    inner: list[Basket] = []

    @pydantic.field_validator("count")
    @classmethod
    def lucky(cls, count: int) -> int:
        """Never thirteen."""
        if count == 13:
            raise ValueError("unlucky")
        return count


@dataclasses.dataclass
class Span:
    """From and to."""

    start: int
    end: int

    def __post_init__(self) -> None:
        """The end comes after the start."""
        if self.end < self.start:
            raise ValueError("the wrong way round")


@dataclasses.dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = dataclasses.field(default_factory=list)


class Extended(typing_extensions.TypedDict):
    a: int
    b: typing_extensions.NotRequired[Any]
