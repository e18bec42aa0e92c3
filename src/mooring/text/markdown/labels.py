"""The search for the bracket that closes a label, with a bound on what it may cost."""

from markdown_it.helpers import parseLinkDestination, parseLinkTitle
from markdown_it.rules_inline import StateInline

_LABEL_STEPS = 40
_STEPS = -1


def find_label_end(state: StateInline, start: int, disableNested: bool = False) -> int:  # noqa: N803
    """The `]` that closes the `[` at `start`, or -1.

    Looking for one that is not there costs the rest of the text each time, so a text that is all opening
    brackets would cost its square. After a generous number of steps further brackets are taken as text.
    """
    # Kept with the positions the parser remembers, where no position can be.
    taken = state.cache
    steps = taken.get(_STEPS, 0)
    limit = _LABEL_STEPS * len(state.src) + 10_000
    position, state.pos = state.pos, start + 1
    depth, end = 1, -1
    source, maximum = state.src, state.posMax
    skip = state.md.inline.skipToken
    while state.pos < maximum and steps < limit:
        steps += 1
        before = state.pos
        character = source[before]
        if character == "]":
            depth -= 1
            if not depth:
                end = before
                break
        taken[_STEPS] = steps
        skip(state)
        steps = taken[_STEPS]
        if character == "[":
            if state.pos == before + 1:
                depth += 1
            elif disableNested:
                break
    taken[_STEPS] = steps
    state.pos = position
    return end


class Helpers:
    """The parser's helpers, with the bounded search above."""

    parseLinkLabel = staticmethod(find_label_end)  # noqa: N815
    parseLinkDestination = staticmethod(parseLinkDestination)  # noqa: N815
    parseLinkTitle = staticmethod(parseLinkTitle)  # noqa: N815
