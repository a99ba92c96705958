"""Tells texts that a recogniser makes up from what is said in a clip, by the text, its likelihood and the clip's level.

Whisper writes something for nearly any clip. Where nobody speaks, it writes what its training subtitles often held
there; where it loses the thread, it repeats itself or runs on. None of the rules looks at what the text should have
been, so they are no help to a text that is merely wrong: that is the word error rate's work.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, replace

from bystander.schemas.engines import RecognitionReply
from bystander.schemas.recogniser_configs import HallucinationGuards

RULES = "1"
"""Part of the identity of an engine that is guarded: raised when a rule or phrase changes."""
SILENCE_DBFS = -55.0
"""Audio whose loudest 50 ms lie below this has no text: Whisper would make one up."""

_FAINT_DBFS = -40.0
_DOUBTED_SPEECH = 0.3
"""A phrase of the list is believed unless the loudest 50 ms are fainter, or no speech is likelier, than this."""
_FREE_WORDS = 3.0
"""Words that are allowed beyond the rate: the edges of a short clip may cut them."""
_MIN_LOOP_BYTES = 32
"""Shorter texts are no loops: people do say "no, no, no, no"."""

_PHRASES = frozenset(
    """
    you | thank you | thanks | thank you very much | thank you so much | thanks for watching | thank you for watching
    thank you for watching this video | thanks for listening | thank you for listening | bye | bye bye
    see you next time | see you in the next video | please subscribe | please subscribe to my channel
    like and subscribe | dont forget to subscribe | subtitles by the amaraorg community | subtitles by
    transcript by | the end | to be continued | silence | music | applause
    谢谢 | 谢谢大家 | 谢谢观看 | 感谢观看 | 感谢收看 | 谢谢收看 | 请订阅 | 请点赞订阅 | 下期再见 | 我们下期再见 | 字幕
    字幕由amaraorg社区提供
    """.replace("\n", "|").split("|")
)
_PHANTOMS = frozenset(" ".join(phrase.split()) for phrase in _PHRASES if phrase.strip())
_HAN = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_CHINESE = re.compile(f"[{_HAN}]")
_WORD = re.compile(rf"[{_HAN}]|(?:(?![{_HAN}])[^\W_])+(?:['’](?:(?![{_HAN}])[^\W_])+)*")


@dataclass(frozen=True, slots=True)
class HeardClip:
    """What the rules know of a clip: its length and the level of its loudest 50 ms."""

    duration_s: float
    peak_dbfs: float


def measure_compression(text: str) -> float:
    """Return the bytes of a text (UTF-8) divided by its bytes after zlib: Whisper's measure of repetition."""
    data = text.encode("utf-8")
    return len(data) / len(zlib.compress(data))


def count_words(text: str) -> float:
    """Return the words of a text, a Chinese character being half a word: the time that both take to say is alike."""
    return sum(0.5 if _CHINESE.fullmatch(word) else 1.0 for word in _WORD.findall(text))


def find_hallucination(
    reply: RecognitionReply, clip: HeardClip, guards: HallucinationGuards, repetition: float | None = None
) -> str | None:
    """Return by which rule a reply's text is made up, or None.

    `no_speech`: the model sees no speech and doubts its text (Whisper's own rule, Radford et al. 2022, section 4.5).
    `phantom_phrase`: nothing but a phrase that Whisper is known for, in a clip that is faint or of doubtful speech.
    `repetition`: a loop; `repetition` is its compression ratio where that is not to be measured on the whole text.
    `too_many_words`: more than can be said in the time.
    """
    if not reply.text:
        return None
    doubt = reply.no_speech_prob or 0.0
    if (
        guards.no_speech_prob is not None
        and doubt > guards.no_speech_prob
        and reply.mean_logprob is not None
        and reply.mean_logprob < guards.mean_logprob
    ):
        return "no_speech"
    bare = " ".join(_WORD.findall(reply.text.casefold().replace("'", "").replace("’", "").replace(".", "")))
    if _CHINESE.search(bare):
        bare = bare.replace(" ", "")
    faint = clip.peak_dbfs < _FAINT_DBFS or doubt > _DOUBTED_SPEECH
    if guards.phantom_phrases and faint and bare in _PHANTOMS:
        return "phantom_phrase"
    ratio = measure_compression(reply.text) if repetition is None else repetition
    long_enough = len(reply.text.encode("utf-8")) >= _MIN_LOOP_BYTES
    if guards.compression_ratio is not None and long_enough and ratio > guards.compression_ratio:
        return "repetition"
    if guards.words_per_s is not None:
        words = count_words(reply.text)
        if words > _FREE_WORDS + guards.words_per_s * clip.duration_s:
            return "too_many_words"
    return None


def guard_reply(
    reply: RecognitionReply, clip: HeardClip, guards: HallucinationGuards | None, repetition: float | None = None
) -> RecognitionReply:
    """Return a reply as it is, or without its text if that is made up: what was written is kept as `withheld`."""
    rule = find_hallucination(reply, clip, guards, repetition) if guards is not None else None
    return reply if rule is None else replace(reply, text="", withheld=reply.text, withheld_as=rule)
