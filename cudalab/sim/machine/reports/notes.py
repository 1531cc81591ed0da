"""What a check could not cover, in words: the notes of a sanitizer report."""

from __future__ import annotations

WAITED_FOR_FAULT = "blocks that wait for one which ended with a fault could not go on"
LAUNCH_TOO_LARGE = "the launch is very large; races, initialisation and barriers were checked in its first blocks only"
RACES_IN_FIRST_BLOCKS = "the launch is very large; races were looked for in its first blocks only"
VALUES_NOT_FOLLOWED = "the blocks wait for each other, and are too many for shuffles of absent lanes to be looked for"
TOO_MUCH_MEMORY = "the launch touches too much memory to compare all blocks; races between blocks may be missed"


def races_until(seconds: float) -> str:
    """Following the accesses has taken as long as a launch may take."""
    return f"races were looked for in the first accesses only, until the time limit of {seconds:g} s"


def block_too_long(block: int, events: int) -> str:
    """A block made more trace records than are kept."""
    return f"block {block} did more than could be recorded; its first {events} events were checked"


def accesses_lost(lost: int, kept: int) -> str:
    """More invalid accesses were skipped than are kept one by one."""
    return f"{lost} more accesses were skipped; the first {kept} or so of a launch are looked at one by one"


def many_faults(blocks: int) -> str:
    """The launch was given up."""
    return f"{blocks} blocks ended with a fault; the others were not run"
