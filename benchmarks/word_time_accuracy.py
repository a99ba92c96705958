"""How well Kokoro's own durations tell when words begin: against the rise of sound, and against a forced aligner.

Usage: python benchmarks/word_time_accuracy.py [--voices 3] [--seed 7] [--details FILE]

Words that follow a pause begin where sound rises in the clean clip: the first word of each clip, and those after a mark
where the clip is silent for 60 ms or more. Within speech, pocketsphinx gives an estimate for English (its own constant
bias taken out). Printed: how late the durations are, by language and kind of first sound.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bystander.schemas.alignment import AlignmentReply, AlignmentRequest
from bystander.schemas.engines import SpeechReply, SpeechRequest, Voice
from bystander.schemas.sid_engine_configs import PocketsphinxAlignerConfig
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.audio.speech_edges import ONSET_DB, find_sounding, find_speech_start
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.engines.pocketsphinx_aligner import PocketsphinxAligner
from bystander.tasks.texts.turn_words import find_turn_words

TEXTS = {
    "en": (
        "Right, so what about Friday?",
        "Yeah, find me another one.",
        "Uh-huh, how far is that?",
        "Okay, stop there.",
        "Sure, show me the second one.",
        "I see, but is it open?",
        "Mm-hmm, think of something cheaper.",
        "Yeah. That is enough.",
        "Right. Can you say it again?",
        "Okay. Wait, when was that?",
        "Sure. Actually, let us skip it.",
        "Hold on.",
        "Find a cheaper flight.",
        "How long does it take?",
        "She said something else.",
        "Three of them, please.",
        "Please stop.",
        "Actually, no.",
        "Well, where is it?",
    ),
    "zh": (
        "嗯，那个多少钱？",
        "对，先说明天的。",
        "好的，换一个吧。",
        "是的，不过我想问时间。",
        "嗯嗯，可以便宜点吗？",
        "哦，我要两张票。",
        "对。停一下。",
        "好。发给我看看。",
        "是。什么时候开门？",
        "等一下。",
        "换一首歌。",
        "先别说了。",
        "发短信给妈妈。",
        "什么时候到？",
        "其实我不想去。",
        "我要听新闻。",
    ),
}
_MARKS = set(".,?!，。？！")
_PAUSE_S = 0.06


class Clip(NamedTuple):
    language: str
    text: str
    reply: SpeechReply


def speak(voices_per_language: int, seed: int) -> list[Clip]:
    engine = KokoroSpeechEngine(KokoroSpeechConfig(languages=("en", "zh")), ModelStore().resolve)
    requests = [
        SpeechRequest(text, voice.id, seed, language, word_times=True)
        for language, texts in TEXTS.items()
        for voice in pick_voices([v for v in engine.voices if v.language == language], voices_per_language)
        for text in texts
    ]
    replies = engine.synthesise(requests)
    engine.close()
    return [
        Clip(request.language, request.text, reply)
        for request, reply in zip(requests, replies, strict=True)
        if isinstance(reply, SpeechReply) and reply.words
    ]


def pick_voices(voices: Sequence[Voice], count: int) -> list[Voice]:
    """Return voices spread evenly over all of a language's, so that both genders and accents are there."""
    return [voices[i * len(voices) // count] for i in range(min(count, len(voices)))]


def compare_with_sound(clip: Clip) -> Iterator[tuple[str, str, float]]:
    """Yield (place, word, seconds that the durations are late) of the words that a pause precedes."""
    reply, places = clip.reply, find_turn_words(clip.text)
    assert reply.words is not None
    sounding = find_sounding(reply.samples, reply.sampling_rate)
    yield "first", reply.words[0].word, reply.words[0].start_s - float(sounding[0, 0])
    for before, place, word in zip(places, places[1:], reply.words[1:], strict=False):
        if not _MARKS.isdisjoint(clip.text[before.end - 1 : place.start]):
            found = find_speech_start(reply.samples, reply.sampling_rate, word.start_s, 0.2, _PAUSE_S)
            if found is not None:
                yield "after a pause", word.word, word.start_s - found


def compare_with_aligner(clips: Sequence[Clip]) -> Iterator[tuple[str, str, float]]:
    """Yield the same of the English words within speech, against pocketsphinx."""
    aligner = PocketsphinxAligner(PocketsphinxAlignerConfig())
    english = [clip for clip in clips if clip.language == "en" and clip.reply.words]
    replies = aligner.align(
        [
            AlignmentRequest(
                str(i), c.reply.samples, c.reply.sampling_rate, tuple(w.word for w in c.reply.words or ()), "en"
            )
            for i, c in enumerate(english)
        ]
    )
    aligner.close()
    for clip, aligned in zip(english, replies, strict=True):
        places = find_turn_words(clip.text)
        if not isinstance(aligned, AlignmentReply) or clip.reply.words is None:
            continue
        for i, (word, other) in enumerate(zip(clip.reply.words, aligned.words, strict=True)):
            place = "first (aligner)" if not i else "within"
            if i and not _MARKS.isdisjoint(clip.text[places[i - 1].end - 1 : places[i].start]):
                place = "after a mark (aligner)"
            yield place, word.word, word.start_s - other.start_s


def print_table(found: dict[str, list[float]]) -> None:
    print(
        f"{'':38} {'n':>4} {'median':>7} {'p10':>6} {'p90':>6} {'spread':>6}  (ms; spread: median absolute deviation)"
    )
    for name, late in sorted(found.items()):
        ms = sorted(1000 * x for x in late)
        middle = statistics.median(ms)
        spread = statistics.median(abs(x - middle) for x in ms)
        p10, p90 = ms[len(ms) // 10], ms[len(ms) * 9 // 10]
        print(f"{name:38} {len(ms):4d} {middle:7.0f} {p10:6.0f} {p90:6.0f} {spread:6.0f}")


def measure_threshold(clips: Sequence[Clip]) -> None:
    """Print how far the first sound moves when the threshold does: the uncertainty of the measure itself."""
    moved: dict[str, list[float]] = defaultdict(list)
    for clip in clips:
        samples, rate = clip.reply.samples, clip.reply.sampling_rate
        here = float(find_sounding(samples, rate)[0, 0])
        for step in (-6, 6, 12):
            moved[f"{clip.language}: onset at -{ONSET_DB + step:g} dB"].append(
                float(find_sounding(samples, rate, ONSET_DB + step)[0, 0]) - here
            )
    print_table(moved)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--voices", type=int, default=3, help="voices a language")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--details", type=Path, help="JSONL file for every single word")
    arguments = parser.parse_args()
    clips = speak(arguments.voices, arguments.seed)
    rows = [(clip.language, *row) for clip in clips for row in compare_with_sound(clip)]
    rows += [("en", *row) for row in compare_with_aligner(clips)]
    found: dict[str, list[float]] = defaultdict(list)
    for language, place, _, late in rows:
        found[f"{language}: {place}"].append(late)
    print_table(found)
    print()
    measure_threshold(clips)
    if arguments.details:
        arguments.details.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
