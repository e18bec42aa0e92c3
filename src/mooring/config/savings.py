"""The `savings` of a server: which words of its tools clients need not read."""

from typing import Annotated

from msgspec import Meta, Struct

from mooring.policy.chain import Step


class Savings(Struct, frozen=True):
    """Make the server's list of tools shorter: a model reads it on every turn. What a tool accepts never
    changes, and calls are not touched; see [tokens](../guides/tokens.md)."""

    strip_titles: Annotated[bool, Meta(description="Leave out the `title` of schemas and properties.")] = (
        False
    )
    collapse_whitespace: Annotated[
        bool,
        Meta(description="Leave out indentation, runs of spaces and of empty lines in descriptions."),
    ] = False
    description_limit: Annotated[
        Annotated[int, Meta(ge=20)] | None,
        Meta(
            description="Shorten descriptions to whole sentences within so many characters; the first "
            "sentence always stays. `null`: as long as they are."
        ),
    ] = None
    drop_unused_defs: Annotated[
        bool, Meta(description="Leave out `$defs` of a schema that nothing refers to.")
    ] = False


def steps(wanted: Savings) -> list[Step]:
    """What of the chain shortens lists: done before overrides, whose words are the operator's own."""
    if wanted == Savings():
        return []
    from mooring.policy.saving import HANDLES, Saving  # noqa: PLC0415 - only where it is wanted
    from mooring.prompt import savings  # noqa: PLC0415

    saving = Saving(
        savings.Savings(
            strip_titles=wanted.strip_titles,
            collapse_whitespace=wanted.collapse_whitespace,
            description_limit=wanted.description_limit,
            drop_unused_defs=wanted.drop_unused_defs,
            kept_whole=HANDLES,
        )
    )
    return [Step("filter and override", present=saving.present, methods=frozenset({"tools/list"}))]
