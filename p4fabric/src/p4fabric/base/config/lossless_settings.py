"""The keys of lossless links, which experiment files and network files share."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from p4fabric.base.config.fields import Choice, Quantity, Section, Whole, WordOr
from p4fabric.base.config.units import SIZE

PFC, CREDITS = "pfc", "cbfc"
Bytes = Annotated[int | None, Quantity(SIZE, 1, 2**40, (("auto", None),))]


class LosslessSettings(Section):
    """Links that lose nothing to full queues: a switch stops the far end of a link before its
    buffer is full. An *input* is the packets of a class that have come in by one port."""

    control: Annotated[str, Choice((PFC, CREDITS))] = Field(
        default=PFC,
        description="`pfc`: pause frames (IEEE 802.1Qbb); `cbfc`: credits for the bytes that an"
        " input has room for, as in InfiniBand.",
    )
    buffer_bytes: Bytes = Field(
        default=None,
        alias="buffer",
        description="Buffer of each switch. auto: 16 MB for each 50 Gbit/s of its fastest port (as"
        " HPCC's simulator), and at least twice what reserve and headroom take. With cbfc: what"
        " the inputs have together.",
    )
    threshold_bytes: Annotated[int | None, Quantity(SIZE, 1, 2**40, (("dynamic", None),))] = Field(
        default=None,
        alias="threshold",
        description="An input that uses so much shared memory is paused. dynamic: what is left of"
        " shared memory, divided by 2^`shift`.",
    )
    shift: Annotated[int, Whole(0, 16)] = Field(
        default=3, description="Of a dynamic threshold: each input may use 1 / 2^shift of the rest."
    )
    resume_bytes: Annotated[int, Quantity(SIZE, 0, 2**40)] = Field(
        default=3072,
        alias="resume",
        description="A paused input goes on when it uses so much less than the threshold.",
    )
    reserve_bytes: Annotated[int, Quantity(SIZE, 0, 2**40)] = Field(
        default=4096,
        alias="reserve",
        description="Memory that each input has for itself.",
    )
    headroom_bytes: Bytes = Field(
        default=None,
        alias="headroom",
        description="Memory of each input for what still comes when it has been paused. auto: what"
        " can come, from the link's rate and delay and the longest frame. With cbfc: the whole"
        " memory of an input, of which its credits tell.",
    )
    pause_by: Annotated[str, Choice(("input", "output"))] = Field(
        default="input",
        description="`input`: the inputs that fill the buffer are paused (virtual input queues);"
        " `output`: an output queue above the threshold pauses all ports of its switch.",
    )


WORDS = ("none", PFC, CREDITS)
Word: TypeAlias = Literal["none", "pfc", "cbfc"]
Lossless: TypeAlias = LosslessSettings | Word | None  # as it stands in a file
LOSSLESS = WordOr(LosslessSettings, WORDS, "{control: pfc, threshold: 100 KiB}")


def settings_of(given: Lossless) -> LosslessSettings | None:
    """The settings that a word stands for; None: links lose packets."""
    if isinstance(given, LosslessSettings):
        return given
    return None if given in (None, "none") else LosslessSettings(control=given)
