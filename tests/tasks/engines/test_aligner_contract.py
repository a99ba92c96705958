"""One suite for every aligner: one entry a word, in order, inside the clip, or a typed failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soxr

from alignment_samples import (
    RATE,
    TEXT,
    get_reason,
    get_reply,
    make_noise,
    make_request,
    put_together,
    speak,
    speak_code,
    write_ctm,
    write_fake_mfa,
    write_mfa_models,
)
from bystander.schemas.alignment import ALIGNER_REASONS, Aligner, AlignmentReply
from bystander.schemas.alignment_contract import find_broken_promise
from bystander.schemas.engines import Samples
from bystander.schemas.sid_engine_configs import (
    AlignerConfig,
    ByLanguageAlignerConfig,
    FakeAlignerConfig,
    KaldiArkAlignerConfig,
    KaldiGmmAlignerConfig,
    MfaAlignerConfig,
    PocketsphinxAlignerConfig,
    RecogniserAlignerConfig,
)
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.registry import open_aligner

WORDS = tuple(TEXT.split())
ALIGNERS = ("fake", "kaldi_ark", "mfa")
ALIGNERS_OF_SPEECH = ("pocketsphinx", "kaldi_gmm", "by_language", "recogniser_words")


@dataclass(frozen=True)
class Case:
    """An aligner and a clip of `WORDS` that it should align."""

    name: str
    aligner: Aligner
    clip: Samples


def _write_kaldi(folder: Path, seconds: float) -> KaldiArkAlignerConfig:
    edges = np.round(np.linspace(0.1, seconds - 0.1, len(WORDS) + 1), 2).tolist()
    labels = [word.strip(",.").lower() for word in WORDS]
    entries = list(zip(edges, edges[1:], labels, strict=False))
    return KaldiArkAlignerConfig(words_ctm=str(write_ctm(folder / "words.ctm", {"clip": entries}, " 0.9")))


@pytest.fixture(
    scope="module", params=[*ALIGNERS, *(pytest.param(name, marks=pytest.mark.models) for name in ALIGNERS_OF_SPEECH)]
)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    folder = tmp_path_factory.mktemp("aligner")
    real = request.param in ALIGNERS_OF_SPEECH
    clip = put_together([0.3, *speak((TEXT,), "am_michael"), 0.3])[0] if real else speak_code(TEXT)
    sphinx = PocketsphinxAlignerConfig()
    configs: dict[str, AlignerConfig] = {
        "fake": FakeAlignerConfig(),
        "kaldi_ark": _write_kaldi(folder, len(clip) / RATE),
        "mfa": MfaAlignerConfig(
            command=str(write_fake_mfa(folder)),
            root_dir=str(write_mfa_models(folder / "root", "english_us_arpa", "mandarin_mfa")),
        ),
        "pocketsphinx": sphinx,
        "kaldi_gmm": KaldiGmmAlignerConfig(),
        "by_language": ByLanguageAlignerConfig(aligners={"en": sphinx, "zh": FakeAlignerConfig()}),
        "recogniser_words": RecogniserAlignerConfig(),
    }
    aligner = open_aligner(configs[request.param], ModelStore().resolve)
    yield Case(request.param, aligner, clip)
    aligner.close()


def test_fits_the_protocol_and_names_itself(case: Case) -> None:
    assert isinstance(case.aligner, Aligner)
    assert case.aligner.identity.kind == "aligner"
    assert case.aligner.identity.name == case.name.replace("fake", "fake_aligner")
    assert len(case.aligner.identity.digest()) == 64
    assert "en" in case.aligner.languages


def test_aligns_the_same_whatever_comes_before_and_keeps_the_order(case: Case) -> None:
    request = make_request(case.clip, WORDS)
    silence = make_request(np.zeros(RATE, np.float32), WORDS)
    first, nothing, again = case.aligner.align([request, silence, request])
    reply = get_reply(first)
    assert again == reply
    assert get_reason(nothing) == "no_alignment"
    assert find_broken_promise(request, reply) is None
    assert [word.word for word in reply.words] == list(WORDS)
    assert reply.is_fallback == (case.name == "recogniser_words")
    assert reply.words[0].start_s < 0.6
    assert reply.words[-1].end_s > 0.7 * len(case.clip) / RATE
    assert case.aligner.align([request]) == [reply]
    assert case.aligner.align([]) == []


def test_other_rates_give_the_same_times(case: Case) -> None:
    first = get_reply(*case.aligner.align([make_request(case.clip, WORDS)]))
    for rate in (8000,) if case.name == "recogniser_words" else (8000, 16000, 48000):
        samples = soxr.resample(case.clip, RATE, rate)
        reply = get_reply(*case.aligner.align([make_request(samples, WORDS, rate)]))
        # Whisper hears other words' edges in narrow bands.
        tolerance = 0.25 if case.name == "recogniser_words" else 0.061
        distances = [abs(a.start_s - b.start_s) for a, b in zip(first.words, reply.words, strict=True)]
        assert max(distances) < tolerance, rate


ODD_CLIPS = {
    "silence": np.zeros(2 * RATE, np.float32),
    "empty": np.zeros(0, np.float32),
    "one sample": np.full(1, 0.5, np.float32),
    "10 ms": make_noise(0.01, 0.1),
    "50 ms": make_noise(0.05, 0.1),
    "noise": make_noise(2, 0.1),
    "faint noise": make_noise(2, 0.003),
    "constant": np.full(RATE, 0.5, np.float32),
    "clipped": np.sign(make_noise(1, 1.0)),
    "not finite": np.full(RATE, np.nan, np.float32),
}


@pytest.mark.parametrize("name", ODD_CLIPS)
def test_odd_clips_are_aligned_by_contract_or_fail_by_type(case: Case, name: str) -> None:
    request = make_request(ODD_CLIPS[name], WORDS)
    (answer,) = case.aligner.align([request])
    if isinstance(answer, AlignmentReply):
        assert find_broken_promise(request, answer) is None
        assert case.name in ("fake", "mfa", "kaldi_ark")  # they do not listen
    else:
        assert answer.reason in ALIGNER_REASONS
        assert answer.detail
    if name in ("silence", "not finite"):
        assert get_reason(answer) == "no_alignment"
    if name == "empty":
        assert get_reason(answer) == "audio_too_short"


ODD_WORDS = [
    ("Right,", "7:30", "O’Brien", "well-known", "Zoë", "U.S.", "can't", "$5", "3rd"),
    ("xqzvtw", "Mm-hmm.", "uh-huh", "HMM", "'cause", "C++"),
    ("a",),
    ("你", "好"),
    ("word",) * 60,
]


@pytest.mark.parametrize("words", ODD_WORDS, ids=lambda words: words[0])
def test_odd_words_are_aligned_by_contract_or_fail_by_type(case: Case, words: tuple[str, ...]) -> None:
    request = make_request(case.clip, words)
    (answer,) = case.aligner.align([request])
    if isinstance(answer, AlignmentReply):
        assert find_broken_promise(request, answer) is None
    else:
        assert answer.reason in ALIGNER_REASONS


@pytest.mark.parametrize("words", [(), ("Right,", "..."), ("",), ("—", "but")], ids=str)
def test_words_without_sound_are_named(case: Case, words: tuple[str, ...]) -> None:
    assert get_reason(*case.aligner.align([make_request(case.clip, words)])) == "no_pronunciation"


def test_unknown_languages_are_refused(case: Case) -> None:
    languages = ["tlh", "en-GB"]
    refused, taken = case.aligner.align([make_request(case.clip, WORDS, language=name) for name in languages])
    assert get_reason(refused) == "language_not_aligned"
    get_reply(taken)


def test_a_wrong_text_gets_no_alignment_from_those_who_listen(case: Case) -> None:
    wrong = "yes we can go there too".split()
    (answer,) = case.aligner.align([make_request(case.clip, wrong)])
    if case.name in ("pocketsphinx", "kaldi_gmm", "by_language"):
        assert get_reason(answer) in ("low_alignment_score", "no_alignment")
    elif case.name in ("recogniser_words", "kaldi_ark"):
        assert get_reason(answer) == "alignment_incomplete"
