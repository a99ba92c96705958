"""A detector that listens to words: a recogniser's growing transcript, judged by the lexicon of acknowledgements.

While a VAD hears speech, what was said so far is transcribed anew every `step_s`, and once more at the pause after it.
It stops where the transcript holds a word that is no acknowledgement (`tasks.texts.backchannels`). The last words of a
transcript that still grows are unsure ("wa" may become "right" or "wait"), so some are held back until a pause.

It is a baseline of plain parts: what a VAD cannot know and a transcript can, at the cost of the recogniser's time.
"""

from __future__ import annotations

import hashlib

import numpy as np

from bystander.schemas.detection import Detector, DetectorStream
from bystander.schemas.detector_configs import LexiconWordsConfig
from bystander.schemas.engines import EngineIdentity, Recogniser, RecognitionRequest, RowFault, Samples
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.tasks.engines.detector_frames import RunLength
from bystander.tasks.texts.backchannels import find_new_intent, read_lexicon_bytes
from bystander.tasks.texts.turn_words import find_turn_words

SAMPLING_RATE, HEARD_S, BEFORE_SPEECH_S = 16000, 28, 0.3
MAX_NO_SPEECH_PROB = 0.6
"""Transcripts that the recogniser itself doubts more than this are none; the threshold of Whisper's own decoder."""
_REVISION = "1"


class LexiconWordsDetector:
    """Stops at the first word that the lexicon does not know for an acknowledgement."""

    def __init__(self, config: LexiconWordsConfig, recogniser: Recogniser, vad: Detector) -> None:
        """Take who transcribes and what says when there is speech; both are closed with this.

        Raises:
            EngineSetupError: the VAD hears another rate than 16 kHz.
        """
        if vad.sampling_rate != SAMPLING_RATE:
            raise EngineSetupError(f"lexicon_words: its vad hears {vad.sampling_rate} Hz; it must be {SAMPLING_RATE}")
        self._config = config
        self._recogniser = recogniser
        self._vad = vad
        heard = recogniser.identity
        self._identity = EngineIdentity(
            "detector",
            "lexicon_words",
            heard.model,
            hashlib.sha256(read_lexicon_bytes()).hexdigest(),
            (
                ("hold_back_words", str(config.hold_back_words)),
                ("language", config.language),
                ("min_mean_logprob", f"{config.min_mean_logprob:g}"),
                ("pause_s", f"{config.pause_s:g}"),
                ("recogniser_digest", heard.digest()),
                ("step_s", f"{config.step_s:g}"),
                ("transcripts_to_trigger", str(config.transcripts_to_trigger)),
                ("vad", vad.identity.name),
                ("vad_digest", vad.identity.digest()),
                ("version", _REVISION),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        """The revision is the digest of the lexicon."""
        return self._identity

    @property
    def sampling_rate(self) -> int:
        return SAMPLING_RATE

    @property
    def chunk_samples(self) -> int:
        return self._vad.chunk_samples

    def open_stream(self) -> DetectorStream:
        """Return a new stream with one of the VAD's."""
        return _LexiconWordsStream(self._config, self._recogniser, self._vad.open_stream())

    def close(self) -> None:
        self._recogniser.close()
        self._vad.close()


class _LexiconWordsStream:
    def __init__(self, config: LexiconWordsConfig, recogniser: Recogniser, vad: DetectorStream) -> None:
        self._config = config
        self._recogniser = recogniser
        self._vad = vad
        self._heard = np.zeros(0, np.float32)
        self._spoke = False
        self._fresh_samples = 0  # since the last transcript
        self._silent_samples = 0
        self._unfinished = False  # speech since the last pause
        self._run = RunLength(config.transcripts_to_trigger)
        self._stops = False

    def accept(self, chunk: Samples) -> bool:
        speech = self._vad.accept(chunk)
        self._spoke = self._spoke or speech
        self._unfinished = self._unfinished or speech
        kept = round((HEARD_S if self._spoke else BEFORE_SPEECH_S) * SAMPLING_RATE)
        self._heard = np.concatenate([self._heard, chunk])[-kept:]
        if not self._spoke:
            return False
        self._fresh_samples += len(chunk)
        self._silent_samples = 0 if speech else self._silent_samples + len(chunk)
        paused = self._silent_samples >= self._config.pause_s * SAMPLING_RATE
        grown = speech and self._fresh_samples >= self._config.step_s * SAMPLING_RATE
        if self._unfinished and (paused or grown):
            self._stops = self._run.add(self._find_intent(paused))
            self._fresh_samples, self._unfinished = 0, not paused
        return self._stops

    def _find_intent(self, paused: bool) -> bool:
        (reply,) = self._recogniser.recognise([RecognitionRequest(self._heard, SAMPLING_RATE, self._config.language)])
        if isinstance(reply, RowFault):
            raise EngineError(f"lexicon_words: the recogniser failed ({reply.reason}: {reply.detail})")
        if reply.no_speech_prob is not None and reply.no_speech_prob > MAX_NO_SPEECH_PROB:
            return False
        if reply.mean_logprob is not None and reply.mean_logprob < self._config.min_mean_logprob:
            return False
        at = find_new_intent(reply.text, self._config.language)
        sure = len(find_turn_words(reply.text)) - (0 if paused else self._config.hold_back_words)
        return at is not None and at < sure
