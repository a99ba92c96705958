"""Alignments that a Kaldi run made elsewhere, looked up by the clip's id."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from bystander.schemas.alignment import AlignedPhone, AlignmentReply, AlignmentRequest
from bystander.schemas.alignment_contract import find_broken_promise
from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.identity import digest_json
from bystander.schemas.sid_engine_configs import KaldiArkAlignerConfig
from bystander.tasks.engines.alignment_input import find_unalignable, shift_words
from bystander.tasks.engines.found_words import SILENCES, FoundWord, join_found
from bystander.tasks.engines.kaldi_files import check_path, read_ctm, read_phone_ark, read_phone_table
from bystander.tasks.engines.model_revision import ResolveModel, read_revision

_PLACES = ("_B", "_I", "_E", "_S")
"""Kaldi's marks of a phone's position in its word."""

Utterances = Mapping[str, Sequence[FoundWord]]


class KaldiArkAligner:
    """Reads a Kaldi run's word CTM, and its phones from a CTM or from an ark of phone numbers frame by frame."""

    def __init__(
        self,
        config: KaldiArkAlignerConfig,
        resolve_model: ResolveModel | None = None,  # noqa: ARG002 - all aligners are built alike
    ) -> None:
        """Find the files; they are read by the first call.

        Raises:
            EngineSetupError: a path is a pipe, a command or no file, or `phones_ark` comes without `phone_table`.
        """
        if config.phones_ark and config.phones_ctm:
            raise EngineSetupError("kaldi_ark: give phones_ctm or phones_ark, not both")
        if config.phones_ark and not config.phone_table:
            raise EngineSetupError("kaldi_ark: phones_ark needs phone_table, the run's phones.txt")
        self._config = config
        given = {name: getattr(config, name) for name in ("words_ctm", "phones_ctm", "phones_ark", "phone_table")}
        self._paths = {name: check_path(path, name) for name, path in given.items() if path is not None}
        self._lock = threading.Lock()
        self._found: tuple[Utterances, Utterances | None] | None = None
        self._identity = EngineIdentity(
            kind="aligner",
            name="kaldi_ark",
            model=Path(config.words_ctm).name,
            revision=digest_json([[name, read_revision("", path)] for name, path in sorted(self._paths.items())]),
            settings=(
                ("bias_s", f"{config.bias_s:g}"),
                ("frame_shift_s", f"{config.frame_shift_s:g}"),
                ("languages", ",".join(sorted(config.languages))),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def languages(self) -> frozenset[str]:
        return frozenset(self._config.languages)

    def align(self, requests: Sequence[AlignmentRequest]) -> list[AlignmentReply | RowFault]:
        """Look the requests up by their ids. Scores are the CTM's confidences, in [0, 1]; None where it has none.

        Row faults: `language_not_aligned`, `no_pronunciation`, `audio_too_short`, `no_alignment` (the run has none of
        this id; silence), `alignment_incomplete`.

        Raises:
            InputError: a file cannot be read: names it and the line.
        """
        words, phones = self._read()
        return [self._align(request, words, phones) for request in requests]

    def close(self) -> None:
        self._found = None

    def _read(self) -> tuple[Utterances, Utterances | None]:
        with self._lock:
            if self._found is None:
                phones: Utterances | None = None
                if "phones_ctm" in self._paths:
                    phones = read_ctm(self._paths["phones_ctm"])
                elif "phones_ark" in self._paths:
                    table = read_phone_table(self._paths["phone_table"])
                    phones = read_phone_ark(self._paths["phones_ark"], table, self._config.frame_shift_s)
                self._found = read_ctm(self._paths["words_ctm"]), phones
            return self._found

    def _align(
        self, request: AlignmentRequest, words: Utterances, phones: Utterances | None
    ) -> AlignmentReply | RowFault:
        fault = find_unalignable(request, self.languages)
        if fault is not None:
            return fault
        entries = words.get(request.id)
        if not entries:
            return RowFault("no_alignment", f"{self._paths['words_ctm'].name} has no utterance {request.id}")
        sounds: Sequence[FoundWord] = () if phones is None else phones.get(request.id, ())
        if phones is not None and not sounds:
            return RowFault("alignment_incomplete", f"there are no phones of utterance {request.id}")
        joined = join_found(request.words, entries, _strip_places(sounds), 1.5 * self._config.frame_shift_s)
        if isinstance(joined, RowFault):
            return joined
        duration_s = len(request.samples) / request.sampling_rate
        late_s = joined[-1].end_s - duration_s
        if late_s > 1.5 * self._config.frame_shift_s:
            return RowFault("alignment_incomplete", f"its words end {late_s:.2f} s after the clip: another utterance?")
        scores = [word.score for word in joined if word.score is not None]
        reply = AlignmentReply(
            shift_words(joined, -self._config.bias_s, duration_s), sum(scores) / len(scores) if scores else None
        )
        return find_broken_promise(request, reply) or reply


def _strip_places(sounds: Sequence[FoundWord]) -> list[AlignedPhone]:
    return [
        AlignedPhone(sound.label[:-2] if sound.label.endswith(_PLACES) else sound.label, sound.start_s, sound.end_s)
        for sound in sounds
        if sound.label.casefold() not in SILENCES
    ]
