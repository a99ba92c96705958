"""Why a recognised clip is rejected, where several stages say so alike."""

from __future__ import annotations

from bystander.schemas.engines import RecognitionReply, RowFault


def find_no_words(reply: RecognitionReply) -> RowFault:
    """Return the fault of a clip in which the recogniser found no words, with those that it took for made up."""
    if reply.withheld is None:
        return RowFault("nothing_recognised", "the recogniser found no words", reply.text)
    detail = f"the recogniser found no words; it took {reply.withheld!r} for made up ({reply.withheld_as})"
    return RowFault("nothing_recognised", detail, reply.withheld)
