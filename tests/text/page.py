"""A page as people write them, of about 42 KB of ADF, for measuring speed."""

import json

from mooring.text.tree import Node, doc, node, text

from .hard_cases import (
    CODE,
    EM,
    LINK,
    STRONG,
    bullets,
    cell,
    code_block,
    head,
    item,
    marked,
    p,
    panel,
    rows,
    task,
)

SIZE = 42_000


def page(size: int = SIZE) -> Node:
    blocks: list[Node] = []
    number = 0
    while len(json.dumps(blocks)) < size:
        number += 1
        blocks += _section(number)
    return doc(*blocks)


def _section(number: int) -> list[Node]:
    strong_cell = cell(p("team ", marked("alpha", STRONG)))
    nested = bullets(item(p("nested a")), item(p("nested b with ", marked("code", CODE))))
    first = ["The ", marked("release", STRONG), " of version ", marked(f"2.{number}", CODE), " moves "]
    second = [marked("most of the traffic", EM), " to the new cluster, see ", marked("the design page", LINK)]
    third = [" for the reasons and ", marked("both", STRONG, EM), " open questions. It took some weeks."]
    mention = node("mention", id=f"5b10a{number}", text="@Ann Lee", accessLevel="")
    when, status = node("date", timestamp="1782864000000"), node("status", text="IN PROGRESS", color="blue")
    values = [[cell(p(f"key {at}")), cell(p(marked(f"value_{at}", CODE))), strong_cell] for at in range(4)]
    tasks = [task("write the tests", local=f"t{number}a"), task("tell everybody", "DONE", f"t{number}b")]
    return [
        node("heading", [text(f"Section {number}: what changed and why")], level=2),
        p(*first, *second, *third),
        p("Ask ", mention, " before ", when, " ", status, "."),
        bullets(
            item(p("First thing to do with ", marked("care", STRONG))),
            item(p("Second thing"), nested),
            item(p("Third thing that takes a whole sentence to explain to the reader.")),
        ),
        panel("info", p("Remember to announce the change in the channel."), p("And again afterwards.")),
        code_block("def f(x):\n    return x + 1\n\nprint(f(2))", language="python"),
        rows(head("Name", "Value", "Owner"), *values),
        node("taskList", tasks, localId=f"l{number}"),
    ]
