"""What an assistant's reply makes of a remark: whether it says that somebody spoke, takes words up, or asks back."""

from __future__ import annotations

import re

from bystander.tasks.texts.spoken_text import list_content_words

_OTHER_PERSON = re.compile(
    r"\b(?:someone|somebody|the (?:other )?person|another person|other (?:person|speaker|voice)|"
    r"your (?:friend|companion|partner|guest)|"
    r"(?:they|he|she|people) (?:said|says?|mentioned|mentions|suggested|suggests|wants?|thinks?|added|asked)|"
    r"i (?:just )?(?:over)?heard|with you (?:said|says|mentioned|suggested)|was (?:said|mentioned|suggested)|"
    r"near(?:by)? you)\b",
    re.IGNORECASE,
)
_ASKS_TO_SAY = re.compile(
    r"\b(?:just say|say (?:yes|so|no|the word)|let me know|tell me (?:if|whether|which|what|how))\b", re.IGNORECASE
)


def refers_to_other_person(reply: str) -> bool:
    """Whether a reply says that another person has spoken."""
    return bool(_OTHER_PERSON.search(reply))


def find_remark_words(reply: str, request: str, remark: str) -> list[str]:
    """Return the distinctive words of the remark that are in the reply and not in the request, sorted."""
    distinctive = {word for word in list_content_words(remark) if len(word) >= 3} - set(list_content_words(request))
    return sorted(distinctive & set(list_content_words(reply)))


def asks_user(reply: str) -> bool:
    """Whether a reply ends with a question, or tells the user to say what is wanted ("just say yes")."""
    return reply.rstrip(" \n\t\"')").endswith("?") or bool(_ASKS_TO_SAY.search(reply))
