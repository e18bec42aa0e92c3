"""What somebody wants of a registry's server, made into something that can be run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from mooring.ecosystem.registry.entry import Entry, Offer
from mooring.ecosystem.registry.image_registry import verified_image
from mooring.ecosystem.registry.running import Question, questions, run_config
from mooring.workloads.secrets.names import SecretUse

Keep = Callable[[str, str], object]


class Wish(Struct, frozen=True, forbid_unknown_fields=True):
    """How the server is to run."""

    given: Annotated[
        dict[str, str],
        Meta(description="Its variables, headers and arguments by name; what is secret goes into the store."),
    ] = field(default_factory=dict[str, str])
    secrets: Annotated[
        list[str], Meta(description="Variables that get a stored secret: `NAME,target=VARIABLE`.")
    ] = field(default_factory=list[str])
    arguments: Annotated[
        list[str], Meta(description="Words for its command line; they answer for the arguments it asks for.")
    ] = field(default_factory=list[str])
    container: Annotated[bool, Meta(description="As an image, if it is offered as one.")] = False


class Prepared(Struct, frozen=True):
    """The RunConfig, or what must be said first. Nothing was started."""

    source: str
    run_config: dict[str, Any] | None = None
    questions: list[Question] = field(default_factory=list[Question])
    kept: Annotated[list[str], Meta(description="Secrets that were stored, by name.")] = field(
        default_factory=list[str]
    )
    signed: Annotated[bool, Meta(description="The image is signed by the key that the registry names.")] = (
        False
    )


def offer_for(entry: Entry, wish: Wish) -> Offer:
    """The way of getting the server that fits the wish."""
    has_image = any(each.kind == "image" for each in entry.offers)
    return entry.offer("image" if wish.container and has_image else None)


def prepare(entry: Entry, wish: Wish, keep: Keep) -> Prepared:
    """`keep` stores a secret under a name. Paths must be absolute."""
    whole = offer_for(entry, wish)
    offer = _reduced(whole, wish)
    if asked := questions(offer, wish.given):
        return Prepared(whole.source, questions=asked)
    key = entry.provenance.public_key if entry.provenance is not None else ""
    signed = verified_image(offer.source, key) if offer.kind == "image" and key else None
    kept: list[str] = []

    def keeping(name: str, value: str) -> str:
        keep(name, value)
        kept.append(name)
        return name

    made = run_config(entry, offer, wish.given, keeping)
    added = {
        "secrets": [*made.get("secrets", []), *wish.secrets],
        "cmd_args": [*made.get("cmd_args", []), *wish.arguments],
        "volumes": [*made.get("volumes", []), *paths_among(whole, wish.arguments)],
    }
    made |= {name: words for name, words in added.items() if words}
    if signed is not None:
        made["image"] = signed
    return Prepared(whole.source, made, kept=kept, signed=signed is not None)


def paths_among(offer: Offer, words: list[str]) -> list[str]:
    """Where the server's arguments are paths, those that exist are its to use."""
    if not any(each.input.path for each in offer.arguments):
        return []
    return [word for word in words if word.startswith("/") and Path(word).exists()]


def _reduced(offer: Offer, wish: Wish) -> Offer:
    """Without what the wish already says: stored secrets, and words for the command line."""
    targets = {SecretUse.parse(each).target for each in wish.secrets}
    env = tuple(each for each in offer.env if each.name not in targets)
    fixed = tuple(
        each for each in offer.arguments if each.input.value is not None and not each.input.variables
    )
    by_words = wish.arguments and offer.kind != "remote"
    return replace(offer, env=env, arguments=fixed if by_words else offer.arguments)
