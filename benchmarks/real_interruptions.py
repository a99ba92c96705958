"""A small bench of real speech for detectors of interruptions, in the published layout of SID-Bench.

Usage: python benchmarks/real_interruptions.py DATA OUT
       bystander evaluate sid --bench OUT --detectors silero_vad,NAME=k2:recurrent:model=FOLDER

DATA is a folder of transcribed recordings (`speech_aligned/mfa`, `speech_transcribed/pocketsphinx` and
`speech_transcribed/lhotse` of the development data). Each recording is cut into turns at pauses of 0.25 s or more, by
the word times of its TextGrid or else of the embedded aligner. A turn whose words are all acknowledgements by the
lexicon is not to be yielded to; in another, the break is the start of the first word that is none. Turns are cut after
4 s, as a user is heard out by then.

It is real in its voices, rooms and microphones, and small; nobody in it talks over an assistant. English only.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile

from bystander.schemas.alignment import AlignmentReply, AlignmentRequest
from bystander.schemas.engines import Samples
from bystander.schemas.sid_engine_configs import PocketsphinxAlignerConfig
from bystander.storage.transcripts.text_grid import parse_text_grid
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.resampling import resample
from bystander.tasks.engines.pocketsphinx_aligner import PocketsphinxAligner
from bystander.tasks.texts.backchannels import find_new_intent, is_backchannel

RATE = 16000
PAUSE_S, MARGIN_S, LONGEST_S = 0.25, 0.3, 4.0
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    aligner = PocketsphinxAligner(PocketsphinxAlignerConfig())
    lines, counts = [], Counter[str]()
    for audio, text, grid in list_recordings(arguments.data):
        samples, rate = decode_audio(audio.read_bytes())
        samples = resample(samples, rate, RATE)
        words = find_words(audio, samples, text, grid, aligner)
        if not words:
            counts["recordings that could not be aligned"] += 1
        ends = [word.end_s for word in words]
        for number, turn in enumerate(cut_turns(words)):
            said = " ".join(word.text for word in turn)
            at = None if is_backchannel(said, "en") else find_new_intent(said, "en")
            before = max((end for end in ends if end <= turn[0].start_s), default=0.0)
            start_s = max(turn[0].start_s - MARGIN_S, before, 0.0)
            after = min((word.start_s for word in words if word.start_s >= turn[-1].end_s), default=len(samples) / RATE)
            end_s = min(turn[-1].end_s + MARGIN_S, after)
            clip = samples[round(start_s * RATE) : round(end_s * RATE)]
            name, duration_s = f"en_{audio.stem}_{number:02d}.wav", len(clip) / RATE
            soundfile.write(arguments.out / name, clip, RATE, subtype="PCM_16")
            tagged = [("<break> " if position == at else "") + word.text for position, word in enumerate(turn)]
            category = "uninterrupted" if at is None else "middle" if at else "beginning"
            counts[category] += 1
            lines.append(
                {
                    "audio": name,
                    "total_nonbreak": at is None,
                    "duration": duration_s,
                    "break_time": duration_s if at is None else turn[at].start_s - start_s,
                    "text_with_break": " ".join(tagged),
                    "category": category,
                    "language": "en",
                    "source": audio.stem,
                    "recording_id": audio.stem,
                }
            )
    aligner.close()
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (arguments.out / "references.jsonl").write_text(text, "utf-8")
    print(f"{len(lines)} turns of {len({line['source'] for line in lines})} recordings:", dict(counts))


if __name__ == "__main__":
    main()
