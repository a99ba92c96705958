"""A small bench of real sound for detectors of interruptions, in the published layout of SID-Bench.

Usage: python benchmarks/real_interruptions.py DATA OUT [--phrases FOLDER]
       bystander evaluate sid --bench OUT --detectors silero_vad,NAME=recurrent:model=FOLDER
       python benchmarks/weigh_categories.py EVALUATION

DATA is a folder of transcribed recordings (`speech_aligned/mfa`, `speech_transcribed/pocketsphinx`,
`speech_transcribed/lhotse` and `noise` of the development data). Each recording is cut into turns at pauses of 0.25 s
or more, by the word times of its TextGrid or else of the embedded aligner. A turn whose words are all acknowledgements
by the lexicon is not to be yielded to; in another, the break is the start of the first word that is none. Turns are cut
after 4 s, as a user is heard out by then. What lies between the words of a recording where it pauses, joined, is a clip
of silence; noises are clips as they are, 10 s at most.

FOLDER is where the Debian packages of `data/recorded_phrases.tsv` were unpacked (`apt-get download megaglest-data
hedgewars-data`, `dpkg -x` each into it): short phrases that people recorded for games. An acknowledgement is a turn
without a break, another phrase one that begins with it; a phrase after an acknowledgement of the same voice and a pause
is one that breaks in the middle. That turn is joined, its two parts are real.

It is real in its voices, rooms and microphones, and small; nobody in it talks over an assistant. English only.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from bystander.schemas.alignment import AlignmentReply, AlignmentRequest
from bystander.schemas.engines import Samples
from bystander.schemas.identity import make_rng
from bystander.schemas.sid_engine_configs import PocketsphinxAlignerConfig
from bystander.storage.transcripts.text_grid import parse_text_grid
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.resampling import resample
from bystander.tasks.engines.pocketsphinx_aligner import PocketsphinxAligner
from bystander.tasks.texts.backchannels import find_new_intent, is_backchannel

RATE = 16000
PAUSE_S, MARGIN_S, LONGEST_S = 0.25, 0.3, 4.0
LONGEST_WITHOUT_SPEECH_S, SHORTEST_SILENCE_S, EDGE_S = 10.0, 0.8, 0.08
"""Clips without speech are at most as long as SID-Bench's; EDGE_S of a pause still sounds of the words beside."""
JOINED_PAUSE_S = (0.15, 0.6)
AUDIBLE_DB = -30.0
"""Level of a frame, below the loudest of its phrase, at which the phrase has begun."""
PHRASES = Path(__file__).parent / "data" / "recorded_phrases.tsv"
_LHOTSE = {
    "LJ002-0020.wav": "in eighteen thirteen",
    "LJ002-0035.wav": "eight the press yard",
}


@dataclass(frozen=True)
class Word:
    """A word of a recording, in seconds from its start."""

    text: str
    start_s: float
    end_s: float


def list_recordings(data: Path) -> Iterator[tuple[Path, str, Path | None]]:
    """Yield the recordings with their text, and the TextGrid where it has words."""
    mfa = data / "speech_aligned" / "mfa"
    for lab in sorted([*(mfa / "lab").glob("*.lab"), *(mfa / "lab").glob("multilingual_ipa*.txt")]):
        if lab.stem.startswith(("se10x", "13697", "common_voice_ja")):
            continue  # other languages
        audio = next((path for path in sorted((mfa / "wav").glob(f"{lab.stem}.*")) if path.suffix != ".lab"), None)
        grid = mfa / "textgrid" / f"{lab.stem}.TextGrid"
        if audio is not None:
            yield audio, lab.read_text("utf-8"), grid if grid.is_file() else None
    folder = data / "speech_transcribed" / "pocketsphinx"
    for name in ("transcription", "cards.transcription"):
        for line in (folder / name).read_text("utf-8").splitlines():
            text, _, key = line.replace("<s>", "").replace("</s>", "").rpartition("(")
            yield folder / f"{key.strip(') ')}.wav", text, None
    for name, text in _LHOTSE.items():
        yield data / "speech_transcribed" / "lhotse" / name, text, None


def find_words(audio: Path, samples: Samples, text: str, grid: Path | None, aligner: PocketsphinxAligner) -> list[Word]:
    """Return a recording's words with their times; none where they cannot be aligned."""
    if grid is not None:
        segments = parse_text_grid(grid.read_text("utf-8")).segments
        words = [word for segment in segments for word in segment.words]
        if words:
            return [
                Word(word.word, word.start_s, word.end_s)
                for word in words
                if word.start_s is not None and word.end_s is not None
            ]
    request = AlignmentRequest(audio.stem, samples, RATE, tuple(text.lower().split()), "en")
    (reply,) = aligner.align([request])
    if not isinstance(reply, AlignmentReply):
        return []
    return [Word(word.word, word.start_s, word.end_s) for word in reply.words]


def cut_turns(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Yield the words between pauses, at most LONGEST_S of them."""
    turn: list[Word] = []
    for word in words:
        if turn and (word.start_s - turn[-1].end_s >= PAUSE_S):
            yield turn
            turn = []
        if not turn or word.end_s - turn[0].start_s <= LONGEST_S:
            turn.append(word)
    if turn:
        yield turn


@dataclass(frozen=True)
class Phrase:
    """A recorded phrase: its sound without the quiet around it, and what is said."""

    voice: str
    text: str
    samples: Samples


class Bench:
    """Writes clips and collects their references."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self.lines: list[dict[str, Any]] = []

    def add(self, name: str, clip: Samples, category: str, recording: str, break_s: float | None, text: str) -> None:
        """Write a clip; `recording` is what is drawn together for intervals."""
        duration_s = len(clip) / RATE
        soundfile.write(self._out / f"{name}.wav", clip, RATE, subtype="PCM_16")
        line = {"audio": f"{name}.wav", "total_nonbreak": break_s is None, "duration": duration_s}
        line |= {"break_time": duration_s if break_s is None else break_s, "text_with_break": text}
        line |= {"category": category, "language": None if category in ("silence", "noise") else "en"}
        self.lines.append(line | {"source": recording, "recording_id": recording})


def add_turns(bench: Bench, audio: Path, samples: Samples, words: Sequence[Word]) -> None:
    """Add the turns of a recording, and its pauses."""
    ends = [word.end_s for word in words]
    for number, turn in enumerate(cut_turns(words)):
        said = " ".join(word.text for word in turn)
        at = None if is_backchannel(said, "en") else find_new_intent(said, "en")
        before = max((end for end in ends if end <= turn[0].start_s), default=0.0)
        start_s = max(turn[0].start_s - MARGIN_S, before, 0.0)
        after = min((word.start_s for word in words if word.start_s >= turn[-1].end_s), default=len(samples) / RATE)
        end_s = min(turn[-1].end_s + MARGIN_S, after)
        clip = samples[round(start_s * RATE) : round(end_s * RATE)]
        tagged = [("<break> " if position == at else "") + word.text for position, word in enumerate(turn)]
        category = "uninterrupted" if at is None else "middle" if at else "beginning"
        break_s = None if at is None else turn[at].start_s - start_s
        bench.add(f"en_{audio.stem}_{number:02d}", clip, category, audio.stem, break_s, " ".join(tagged))
    edges = [0.0, *(time for word in words for time in (word.start_s, word.end_s)), len(samples) / RATE]
    pauses = [
        samples[round((start_s + EDGE_S) * RATE) : round((end_s - EDGE_S) * RATE)]
        for start_s, end_s in zip(edges[::2], edges[1::2], strict=True)
        if words and end_s - start_s >= PAUSE_S
    ]
    silence = np.concatenate([*pauses, np.zeros(0, np.float32)])[: round(LONGEST_WITHOUT_SPEECH_S * RATE)]
    if len(silence) >= SHORTEST_SILENCE_S * RATE:
        bench.add(f"silence_{audio.stem}", silence, "silence", audio.stem, None, "")


def add_noises(bench: Bench, folder: Path) -> None:
    """Add the noises of a folder."""
    for path in sorted(path for path in folder.rglob("*") if path.suffix in (".wav", ".ogg", ".opus")):
        samples, rate = decode_audio(path.read_bytes())
        clip = resample(samples, rate, RATE)[: round(LONGEST_WITHOUT_SPEECH_S * RATE)]
        bench.add(f"noise_{path.stem}", clip, "noise", path.stem, None, "")


def read_phrases(folder: Path) -> dict[str, list[Phrase]]:
    """Return the phrases of each voice: those that are acknowledgements throughout, or begin with something new."""
    voices: dict[str, list[Phrase]] = {}
    with PHRASES.open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table, delimiter="\t"):
            if find_new_intent(row["text"], "en"):
                continue  # an acknowledgement and then more: when that begins is not known
            samples, rate = decode_audio((folder / row["file"]).read_bytes())
            trimmed = trim_quiet(resample(samples, rate, RATE))
            voices.setdefault(row["voice"], []).append(Phrase(row["voice"], row["text"], trimmed))
    return voices


def trim_quiet(samples: Samples) -> Samples:
    """Return a phrase without the quiet before and after it."""
    frame = RATE // 100
    power = np.mean(samples[: len(samples) // frame * frame].reshape(-1, frame) ** 2, axis=1)
    loud = np.flatnonzero(power >= power.max() * 10 ** (AUDIBLE_DB / 10))
    return samples[loud[0] * frame : (loud[-1] + 1) * frame]


def add_phrases(bench: Bench, voice: str, phrases: Sequence[Phrase]) -> None:
    """Add the turns that phrases of one voice make, alone and joined."""
    known = [phrase for phrase in phrases if is_backchannel(phrase.text, "en")]
    new = [phrase for phrase in phrases if phrase not in known]
    margin = np.zeros(round(MARGIN_S * RATE), np.float32)
    for number, phrase in enumerate(known):
        clip = np.concatenate([margin, phrase.samples, margin])
        bench.add(f"en_{voice}_known_{number:02d}", clip, "uninterrupted", voice, None, phrase.text)
    for number, phrase in enumerate(new):
        clip = np.concatenate([margin, phrase.samples, margin])
        bench.add(f"en_{voice}_new_{number:02d}", clip, "beginning", voice, MARGIN_S, f"<break> {phrase.text}")
        if not known:
            continue
        first = known[number % len(known)]
        pause = np.zeros(round(make_rng(0, voice, "pause", number).uniform(*JOINED_PAUSE_S) * RATE), np.float32)
        clip = np.concatenate([margin, first.samples, pause, phrase.samples, margin])
        break_s = (len(margin) + len(first.samples) + len(pause)) / RATE
        text = f"{first.text} <break> {phrase.text}"
        bench.add(f"en_{voice}_joined_{number:02d}", clip, "middle", voice, break_s, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--phrases", type=Path, help="where the packages of recorded phrases were unpacked")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    aligner = PocketsphinxAligner(PocketsphinxAlignerConfig())
    bench, unaligned = Bench(arguments.out), 0
    for audio, text, grid in list_recordings(arguments.data):
        samples, rate = decode_audio(audio.read_bytes())
        samples = resample(samples, rate, RATE)
        words = find_words(audio, samples, text, grid, aligner)
        unaligned += not words
        add_turns(bench, audio, samples, words)
    aligner.close()
    add_noises(bench, arguments.data / "noise")
    if arguments.phrases is not None:
        for voice, phrases in read_phrases(arguments.phrases).items():
            add_phrases(bench, voice, phrases)
    references = "".join(json.dumps(line) + "\n" for line in bench.lines)
    (arguments.out / "references.jsonl").write_text(references, "utf-8")
    counts = Counter(str(line["category"]) for line in bench.lines)
    sources = len({line["source"] for line in bench.lines})
    print(f"{len(bench.lines)} clips of {sources} recordings or voices:", dict(counts))
    if unaligned:
        print(f"{unaligned} recordings could not be aligned")


if __name__ == "__main__":
    main()
