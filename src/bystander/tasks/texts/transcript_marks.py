"""What transcribers write that nobody said: marks of sounds, overlaps, doubt and pronunciation."""

from __future__ import annotations

import re

_SOUNDS = frozenset(
    """
    applause background beep breath breathing clears clearing click cough coughing coughs crosstalk cry crying gasp
    inaudible indiscernible laugh laughing laughs laughter lipsmack music mumbling noise noises pause sigh sighing
    sighs silence silent sings singing sneeze sniff sniffs sound static throat tsk unintelligible unk whistle whistling
    笑 笑声 咳嗽 噪音 音乐 掌声 静音 呼吸 叹气
    """.split()
)
_LAUGHED = re.compile(r"\[(?:laughter|noise)-([^\]\[]+)\]", re.IGNORECASE)
_MEANT = re.compile(r"\[([^\]\[/]+)/([^\]\[/]+)\]")
_CUT_OFF = re.compile(r"(?<=\w)\[[^\]\[]*\](?=-)|(?<=-)\[[^\]\[]*\](?=\w)")
_MARKED = re.compile(r"\[[^\]\[]*\]|<[^<>]*>|\{[^{}]*\}|\u3010[^\u3010\u3011]*\u3011")
_BRACKETED = re.compile(r"[(\uff08]([^()\uff08\uff09]*)[)\uff09]")
_STARRED = re.compile(r"\*[^*\s]+\*")
_SIGILS = re.compile(r"(?<!\S)[%&~^#@+*]+(?=\w)|(?<=\w)[*~]+(?!\S)|[\u266a\u266b#=]+|(?<!\S)-+(?!\S)")
_SPOKEN = re.compile(r"\w")


def drop_marks(text: str) -> str:
    """Return what was said of a transcript's text, with single spaces; empty where nothing was.

    Left out: what stands in square, angle or curly brackets ([laughter], <noise>, {um}), sounds in round ones
    ((laughs), *coughs*), signs of overlap and of music. Kept are the words in doubt ((like these)), words said with a
    laugh ([laughter-yeah] is yeah), the word meant of one mispronounced ([it'n/isn't] is isn't), what was said of a
    word cut off (th[is]- is th-) and words with a sigil (%uh is uh).
    """
    text = _LAUGHED.sub(r"\1", text)
    text = _CUT_OFF.sub("", text)
    text = _MEANT.sub(r"\2", text)
    text = _MARKED.sub(" ", text)
    for _ in range(2):  # doubt is written ((so))
        text = _BRACKETED.sub(lambda match: " " if _is_sound(match.group(1)) else f" {match.group(1)} ", text)
    text = _STARRED.sub(lambda match: " " if _is_sound(match.group().strip("*")) else match.group().strip("*"), text)
    text = " ".join(_SIGILS.sub(" ", text).split())
    text = re.sub(r"\s+(?=[,.!?;:\uff0c\u3002\uff01\uff1f])", "", text)
    return text if _SPOKEN.search(text) else ""


def _is_sound(text: str) -> bool:
    words = re.findall(r"\w+", text.lower())
    return not words or any(word in _SOUNDS for word in words)
