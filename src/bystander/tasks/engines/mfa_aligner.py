"""Forced alignment by the Montreal Forced Aligner, through its command line.

A batch of requests of one language is one corpus, since the program takes seconds to start: clips of 16 bits and their
words under numbers for names, in a temporary folder that no other run shares (MFA keys its own files by the corpus
folder's name). What it writes is read back clip by clip; none is taken on trust, for it exits 0 with files missing.
"""

from __future__ import annotations

import re
import tempfile
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bystander.schemas.alignment import AlignedPhone, AlignmentReply, AlignmentRequest
from bystander.schemas.alignment_contract import find_broken_promise
from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.identity import digest_json
from bystander.schemas.sid_engine_configs import MfaAlignerConfig
from bystander.tasks.engines.alignment_input import find_unalignable, shift_words
from bystander.tasks.engines.engine_audio import convert_rate, encode_wav
from bystander.tasks.engines.found_words import SILENCES, FoundWord, fold_label, join_found
from bystander.tasks.engines.mfa_models import ModelKind, find_model, locate_root
from bystander.tasks.engines.mfa_program import align_corpus, find_version
from bystander.tasks.engines.model_revision import ResolveModel, read_revision

SAMPLING_RATE = 16000
_SLACK_S = 0.015  # MFA's frames are 10 ms
_RULES = "2"  # raise when the texts that MFA is given, or the way back from its words, change
_NOT_SPOKEN = re.compile(r"[^\w'-]")
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\uff07": "'", "`": "'"})


class MfaAligner:
    """Runs `mfa align`, one corpus a call and language; calls from several threads run side by side."""

    def __init__(
        self,
        config: MfaAlignerConfig,
        resolve_model: ResolveModel | None = None,  # noqa: ARG002 - all aligners are built alike
    ) -> None:
        """Find the program and its models.

        Raises:
            EngineSetupError: the program is missing, cannot run or is too old; a model is missing; or a language has a
                dictionary or an acoustic model only.
        """
        alone = set(config.dictionary) ^ set(config.acoustic)
        if alone or not config.dictionary:
            missing = ", ".join(sorted(alone)) or "any language"
            raise EngineSetupError(f"mfa: {missing} needs both a dictionary and an acoustic model")
        self._config = config
        root = locate_root(config.root_dir)
        asked: dict[ModelKind, dict[str, str]] = {
            "dictionary": config.dictionary,
            "acoustic": config.acoustic,
            "g2p": config.g2p,
        }
        version = find_version(config)
        self._models: dict[ModelKind, dict[str, Path]] = {
            kind: {language: find_model(kind, name, root) for language, name in sorted(names.items())}
            for kind, names in asked.items()
        }
        self._identity = EngineIdentity(
            kind="aligner",
            name="mfa",
            model=", ".join(f"{language}: {path.stem}" for language, path in self._models["acoustic"].items()),
            revision=digest_json(
                [version, [[k, read_revision("", path)] for m in self._models.values() for k, path in m.items()]]
            ),
            settings=(
                ("beam", str(config.beam)),
                ("bias_s", f"{config.bias_s:g}"),
                ("fine_tune", str(config.fine_tune)),
                ("retry_beam", str(config.retry_beam)),
                ("rules", _RULES),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def languages(self) -> frozenset[str]:
        return frozenset(self._config.acoustic)

    def align(self, requests: Sequence[AlignmentRequest]) -> list[AlignmentReply | RowFault]:
        """Align the requests. There are no scores.

        Row faults: `language_not_aligned`, `no_pronunciation`, `audio_too_short`, `no_alignment` (MFA wrote nothing for
        the clip; silence), `alignment_incomplete` (what it wrote is blank, unreadable, or not the words).

        Raises:
            EngineError: MFA failed as a whole, with the last lines of what it said.
        """
        replies: list[AlignmentReply | RowFault | None] = [self._find_fault(request) for request in requests]
        for language in sorted(self.languages):
            places = [
                place
                for place, request in enumerate(requests)
                if replies[place] is None and request.language.split("-")[0].lower() == language
            ]
            if places:
                made = self._align_language(language, [requests[place] for place in places])
                for place, reply in zip(places, made, strict=True):
                    replies[place] = reply
        assert all(reply is not None for reply in replies)
        return [reply for reply in replies if reply is not None]

    def close(self) -> None:
        """Nothing to close: the program ends with each call."""

    def _find_fault(self, request: AlignmentRequest) -> RowFault | None:
        fault = find_unalignable(request, self.languages)
        if fault is not None:
            return fault
        for index, word in enumerate(request.words):
            if not fold_label(word):
                return RowFault("no_pronunciation", f"word {index}, {word!r}, has nothing that can be pronounced")
        return None

    def _align_language(self, language: str, requests: Sequence[AlignmentRequest]) -> list[AlignmentReply | RowFault]:
        with tempfile.TemporaryDirectory(prefix="bystander-mfa-", ignore_cleanup_errors=True) as folder:
            base = Path(folder)
            corpus, output, scratch = base / f"corpus-{base.name}", base / "aligned", base / "scratch"
            for made in (corpus, output, scratch):
                made.mkdir()
            for number, request in enumerate(requests):
                audio = convert_rate(request.samples, request.sampling_rate, SAMPLING_RATE)
                (corpus / f"{number:06d}.wav").write_bytes(encode_wav(audio, SAMPLING_RATE))
                (corpus / f"{number:06d}.lab").write_text(write_text(request.words), "utf-8")
            g2p = self._models["g2p"].get(language)
            align_corpus(
                self._config,
                str(self._models["dictionary"][language]),
                str(self._models["acoustic"][language]),
                None if g2p is None else str(g2p),
                (corpus, output, scratch),
            )
            return [
                self._read(request, sorted(output.rglob(f"{number:06d}.json")))
                for number, request in enumerate(requests)
            ]

    def _read(self, request: AlignmentRequest, paths: Sequence[Path]) -> AlignmentReply | RowFault:
        if not paths:
            return RowFault("no_alignment", "MFA wrote no alignment of the clip")
        tiers = read_tiers(paths[0])
        if isinstance(tiers, RowFault):
            return tiers
        words, phones = tiers
        joined = join_found(request.words, words, phones, _SLACK_S)
        if isinstance(joined, RowFault):
            return joined
        duration_s = len(request.samples) / request.sampling_rate
        reply = AlignmentReply(shift_words(joined, -self._config.bias_s, duration_s))
        return find_broken_promise(request, reply) or reply


def write_text(words: Sequence[str]) -> str:
    """Return the words as MFA is to read them: nothing that it would split at but spaces and hyphens."""
    plain = (unicodedata.normalize("NFKC", word).translate(_APOSTROPHES).lower() for word in words)
    return " ".join(_NOT_SPOKEN.sub("", word).strip("-'_") or "_" for word in plain) + "\n"


def read_tiers(path: Path) -> tuple[list[FoundWord], list[AlignedPhone]] | RowFault:
    """Return the words and phones of a TextGrid or JSON file that MFA wrote.

    Faults: `alignment_incomplete`, where it cannot be read, lacks a tier of words or phones, or holds no word.
    """
    from praatio import textgrid
    from praatio.utilities.errors import PraatioException

    try:
        grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=False, reportingMode="silence")
        words, phones = (_find_tier(grid, kind) for kind in ("words", "phones"))
    except (PraatioException, OSError, ValueError, LookupError, TypeError, AttributeError) as exc:
        return RowFault("alignment_incomplete", f"what MFA wrote cannot be read ({type(exc).__name__}: {exc})")
    if words is None or phones is None:
        return RowFault("alignment_incomplete", f"MFA's tiers are {', '.join(grid.tierNames)}: no words and phones")
    found = [FoundWord(entry.label.strip(), float(entry.start), float(entry.end)) for entry in words]
    if not any(entry.label.casefold() not in SILENCES for entry in found):
        return RowFault("alignment_incomplete", "MFA's alignment is blank")
    sounds = [AlignedPhone(entry.label, float(entry.start), float(entry.end)) for entry in phones]
    return found, [sound for sound in sounds if sound.phone.casefold() not in SILENCES]


def _find_tier(grid: Any, kind: str) -> Any:
    # With several speakers a tier is named after its speaker too: "ann - words".
    name = next((name for name in grid.tierNames if name == kind or name.endswith(f" - {kind}")), None)
    return None if name is None else grid.getTier(name).entries
