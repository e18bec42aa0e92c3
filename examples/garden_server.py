"""A garden, kept with `mooring.authoring`: typed functions become tools, resources and prompts.

Runs on stdio; `--port 8000` serves HTTP instead.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Literal

from msgspec import Meta

from mooring.authoring import Check, ClientCannot, Context, HttpSettings, Link, NotFound, Server, ToolError

server = Server("garden", version="1.0", instructions="Look at `garden://beds` before you plant anything.")


class Plant(Enum):
    BEAN = "bean"
    CARROT = "carrot"
    TOMATO = "tomato"


DAYS_TO_HARVEST = {Plant.BEAN: 55, Plant.CARROT: 75, Plant.TOMATO: 70}


@dataclass
class Bed:
    """A bed of one kind of plant.

    Attributes:
        name: How the gardener calls it
        plant: What grows there
        count: How many plants
        day: Days since planting
        litres: Water so far
    """

    name: str
    plant: Plant
    count: int
    day: int = 0
    litres: float = 0.0


@dataclass
class Garden:
    beds: dict[str, Bed] = field(default_factory=dict[str, Bed])

    def bed(self, name: str) -> Bed:
        if name not in self.beds:
            raise ToolError(f"there is no bed `{name}`; there are: {', '.join(self.beds) or 'none yet'}")
        return self.beds[name]


garden = Garden({"south": Bed("south", Plant.BEAN, 12, day=60)})


@dataclass
class Confirmation:
    """Attributes:
    really: Pull the plants out although they are not ripe?
    """

    really: bool


def is_plain(name: str) -> bool:
    return name.isidentifier()


@server.tool
def plant(
    bed: Annotated[str, Check(is_plain, "one plain word")],
    kind: Plant,
    count: Annotated[int, Meta(ge=1, le=100)] = 10,
) -> Bed:
    """Plant a new bed.

    Args:
        bed: What to call the bed
        kind: What to plant
        count: How many plants
    """
    if bed in garden.beds:
        raise ToolError(f"`{bed}` is taken; harvest it first or choose another name")
    garden.beds[bed] = Bed(bed, kind, count)
    server.resource_updated("garden://beds")
    return garden.beds[bed]


@server.tool(idempotent=False)
def water(bed: str, litres: Annotated[float, Meta(ge=0.1, le=50)], ctx: Context) -> str:
    """Water a bed.

    :param bed: Which bed
    :param litres: How much water
    """
    garden.bed(bed).litres += litres
    ctx.resource_updated(f"garden://bed/{bed}")
    return f"{bed} has had {garden.bed(bed).litres:g} litres"


@server.tool(destructive=True)
async def harvest(bed: str, ctx: Context) -> str:
    """Harvest a bed, which empties it.

    Parameters
    ----------
    bed : str
        Which bed
    """
    found = garden.bed(bed)
    missing = DAYS_TO_HARVEST[found.plant] - found.day
    if missing > 0:
        try:
            answer = await ctx.elicit(f"{bed} needs {missing} more days. Harvest it now?", Confirmation)
        except ClientCannot:
            raise ToolError(f"`{bed}` needs {missing} more days") from None
        if not answer.content or not answer.content.really:
            return "left alone"
    del garden.beds[bed]
    server.resource_updated("garden://beds")
    return f"{found.count} plants of {found.plant.value} harvested"


@server.tool(read_only=True)
def survey(ctx: Context, minutes: Annotated[int, Meta(ge=0, le=30)] = 0) -> list[str | Link]:
    """Walk through the garden: a summary, and a link to each bed."""
    beds = list(garden.beds.values())
    for number, bed in enumerate(beds, 1):
        ctx.progress(number, len(beds), f"looking at {bed.name}")
        ctx.sleep(minutes * 60 / len(beds))  # ends at once when the client gives up
    links = [
        Link(f"garden://bed/{bed.name}", bed.name, description=f"{bed.count} × {bed.plant.value}")
        for bed in beds
    ]
    return [f"{len(beds)} beds", *links]


@server.resource("garden://beds")
def all_beds() -> dict[str, Bed]:
    """Every bed and what grows there."""
    return garden.beds


@server.resource_template("garden://bed/{name}", name="bed")
def one_bed(name: str) -> Bed:
    """One bed."""
    if name not in garden.beds:
        raise NotFound(f"there is no bed `{name}`")
    return garden.beds[name]


@server.prompt
def plan(bed: str, season: Literal["spring", "summer", "autumn"]) -> str:
    """Plan what to do with a bed.

    Args:
        bed: Which bed
        season: For when
    """
    return (
        f"Look at garden://bed/{bed} and plan its {season}: what to water, when to harvest, what comes next."
    )


@server.completion(plan, "bed")
@server.completion(one_bed, "name")
def bed_names(value: str) -> list[str]:
    return [name for name in garden.beds if name.startswith(value)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, help="serve HTTP at this port instead of stdio")
    options = parser.parse_args()
    if options.port is None:
        server.run()
    else:
        server.run_http(HttpSettings(port=options.port))
