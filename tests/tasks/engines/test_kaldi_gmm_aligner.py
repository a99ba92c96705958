"""The aligner on synthesised voices that its models did not hear, and on what it must refuse."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from bystander.schemas.alignment import AlignedWord, Aligner, AlignmentReply, AlignmentRequest
from bystander.schemas.engines import RowFault, SpeechReply, SpeechRequest
from bystander.schemas.errors import EngineSetupError, ModelStoreError
from bystander.schemas.sid_engine_configs import KaldiGmmAlignerConfig
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.audio.speech_edges import find_sounding
from bystander.tasks.engines.kaldi_gmm_aligner import KaldiGmmAligner
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.texts.turn_words import split_turn_words
from bystander.tasks.training.aligner_speech import HELD_OUT_VOICES

RATE = 24000
PAIRS = {
    "en": (
        ("Yeah.", "But how much is the ticket?"),
        ("Mm-hmm.", "Actually, I need three."),
        ("Right.", "What about Sunday?"),
    ),
    "zh": (
        ("嗯。", "那个多少钱？"),
        ("好的。", "其实我要三个。"),
        ("对对。", "星期天呢？"),
    ),
}
LANGUAGES = ("en", "zh")
TEXTS = {"en": ("the", "kettle", "is", "broken"), "zh": ("水", "壶", "坏", "了")}


@pytest.fixture(scope="module")
def aligner() -> Iterator[KaldiGmmAligner]:
    opened = KaldiGmmAligner(KaldiGmmAlignerConfig(), ModelStore().resolve)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def spoken() -> dict[str, list[tuple[SpeechReply, SpeechReply]]]:
    engine = KokoroSpeechEngine(KokoroSpeechConfig(languages=LANGUAGES), ModelStore().resolve)
    found = {}
    for language, pairs in PAIRS.items():
        voices = HELD_OUT_VOICES[language]
        replies = engine.synthesise(
            [
                SpeechRequest(text, voices[i % len(voices)], 70 + i, language)
                for i, pair in enumerate(pairs)
                for text in pair
            ]
        )
        assert all(isinstance(reply, SpeechReply) for reply in replies)
        found[language] = list(zip(replies[::2], replies[1::2], strict=True))
    engine.close()
    return found  # type: ignore[return-value]


def join(first: SpeechReply, second: SpeechReply, gap_s: float) -> tuple[np.ndarray, float]:
    """Return the samples of both with silence between, and when the sound of the second begins."""
    head = np.concatenate([first.samples, np.zeros(round(gap_s * RATE), np.float32)])
    return np.concatenate([head, second.samples]), len(head) / RATE + float(find_sounding(second.samples, RATE)[0, 0])


def ask(aligner: KaldiGmmAligner, samples: np.ndarray, words: tuple[str, ...], language: str, rate: int = RATE):
    (reply,) = aligner.align([AlignmentRequest("clip", samples.astype(np.float32), rate, words, language)])
    return reply


def check_contract(reply: AlignmentReply, words: tuple[str, ...], duration_s: float) -> None:
    assert tuple(word.word for word in reply.words) == words
    edges: list[AlignedWord] = list(reply.words)
    assert all(0 <= word.start_s < word.end_s <= duration_s for word in edges)
    assert all(a.start_s < b.start_s and a.end_s <= b.start_s for a, b in pairwise(edges))
    for word in edges:
        assert word.phones
        assert word.phones[0].start_s == word.start_s
        assert word.phones[-1].end_s == word.end_s
        assert all(a.end_s == b.start_s for a, b in pairwise(word.phones))
        assert all(phone.start_s < phone.end_s for phone in word.phones)
        assert word.score is not None


def test_fits_the_protocol_and_names_itself(aligner: KaldiGmmAligner) -> None:
    assert isinstance(aligner, Aligner)
    assert aligner.languages == {"en", "zh"}
    assert aligner.identity.kind == "aligner"
    again = KaldiGmmAligner(KaldiGmmAlignerConfig(), ModelStore().resolve)
    assert again.identity.digest() == aligner.identity.digest()
    for limit in ("min_score", "min_word_score", "min_speech_score"):
        other = KaldiGmmAligner(KaldiGmmAlignerConfig(**{limit: -3.0}), ModelStore().resolve)
        assert other.identity.digest() != aligner.identity.digest()


@pytest.mark.models
def test_each_limit_can_be_set(spoken) -> None:
    first, _ = spoken["en"][1]
    words = split_turn_words(PAIRS["en"][1][0])
    for limits in ({"min_score": 0.0}, {"min_word_score": 0.0}, {"min_speech_score": 100.0}):
        strict = KaldiGmmAligner(KaldiGmmAlignerConfig(**limits), ModelStore().resolve)
        answer = ask(strict, first.samples, words, "en")
        assert isinstance(answer, RowFault)
        assert answer.reason == "low_alignment_score"
        strict.close()


@pytest.mark.models
@pytest.mark.parametrize("language", LANGUAGES)
def test_break_words_after_a_pause_are_found_within_50_ms(aligner, spoken, language) -> None:
    errors = []
    for number, ((first, second), texts) in enumerate(zip(spoken[language], PAIRS[language], strict=True)):
        for gap_s in (0.0, 0.2, 0.5, 1.1):
            samples, true_start_s = join(first, second, gap_s)
            before = split_turn_words(texts[0])
            words = (*before, *split_turn_words(texts[1]))
            reply = ask(aligner, samples, words, language)
            assert isinstance(reply, AlignmentReply), (texts, gap_s, reply)
            check_contract(reply, words, len(samples) / RATE)
            errors.append(reply.words[len(before)].start_s - true_start_s)
            if number == 0 and gap_s == 0.5:
                telephone = ask(aligner, samples[::3], words, language, RATE // 3)
                assert isinstance(telephone, AlignmentReply)
                assert telephone.words[len(before)].start_s == pytest.approx(true_start_s, abs=0.05)
    assert np.mean(np.abs(errors) < 0.05) >= 0.9
    assert abs(np.median(errors)) < 0.02


@pytest.mark.models
@pytest.mark.parametrize("language", LANGUAGES)
def test_pauses_and_level_change_nothing(aligner, spoken, language) -> None:
    (first, second), texts = spoken[language][0], PAIRS[language][0]
    words = (*split_turn_words(texts[0]), *split_turn_words(texts[1]))
    samples, _ = join(first, second, 0.5)
    plain = ask(aligner, samples, words, language)
    padded = ask(aligner, 0.05 * np.concatenate([np.zeros(2 * RATE), samples, np.zeros(3 * RATE)]), words, language)
    assert isinstance(plain, AlignmentReply)
    assert isinstance(padded, AlignmentReply)
    for a, b in zip(plain.words, padded.words, strict=True):
        assert b.start_s - 2 == pytest.approx(a.start_s, abs=0.025)


@pytest.mark.models
@pytest.mark.parametrize("language", LANGUAGES)
def test_another_text_is_refused(aligner, spoken, language) -> None:
    wrong = {"en": ("seven", "giraffes", "juggle", "my", "oval", "shoes"), "zh": tuple("七匹长颈鹿在跳舞吧")}[language]
    for first, second in spoken[language]:
        samples, _ = join(first, second, 0.4)
        fault = ask(aligner, samples, wrong, language)
        assert isinstance(fault, RowFault)
        assert fault.reason in {"low_alignment_score", "no_alignment"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_noise_and_silence_are_refused(aligner, language) -> None:
    rng = np.random.default_rng(3)
    white = rng.standard_normal(2 * RATE) * 0.05
    tone = 0.1 * np.sin(2 * np.pi * 300 * np.arange(2 * RATE) / RATE)
    for sound in (white, np.cumsum(white) * 0.01, tone, white * (np.arange(2 * RATE) % 6000 < 600)):
        fault = ask(aligner, sound, TEXTS[language], language)
        assert isinstance(fault, RowFault)
        assert fault.reason in {"low_alignment_score", "no_alignment"}
    for silent in (np.zeros(2 * RATE), white * 1e-3):
        fault = ask(aligner, silent, TEXTS[language], language)
        assert isinstance(fault, RowFault)
        assert fault.reason == "no_alignment"


def test_what_cannot_be_aligned_says_why(aligner) -> None:
    sound = np.random.default_rng(1).standard_normal(RATE) * 0.1
    for samples, words, language, reason in (
        (sound, ("bonjour",), "fr", "language_not_aligned"),
        (sound, ("hello", "…"), "en", "no_pronunciation"),
        (sound, ("hello", "你好"), "en", "no_pronunciation"),
        (sound, (), "en", "no_pronunciation"),
        (np.zeros(0), ("hello",), "en", "audio_too_short"),
        (sound[:2000], ("extraordinarily",), "en", "audio_too_short"),
        (np.full(RATE, np.nan), ("hello",), "en", "no_alignment"),
    ):
        fault = ask(aligner, samples, words, language)
        assert isinstance(fault, RowFault)
        assert fault.reason == reason, (words, fault)


@pytest.mark.models
def test_unknown_words_and_numbers_are_said_and_marked(aligner) -> None:
    engine = KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve)
    (reply,) = engine.synthesise([SpeechRequest("Order 25 zorblaxes at 7:30.", "af_river", 1)])
    engine.close()
    assert isinstance(reply, SpeechReply)
    words = ("Order", "25", "zorblaxes", "at", "7:30.")
    found = ask(aligner, reply.samples, words, "en-GB")
    assert isinstance(found, AlignmentReply)
    check_contract(found, words, len(reply.samples) / RATE)
    assert [word.in_vocabulary for word in found.words][:4] == [True, True, False, True]


@pytest.mark.models
def test_threads_get_what_one_caller_gets(aligner, spoken) -> None:
    asked = []
    for language in LANGUAGES:
        for (first, second), texts in zip(spoken[language][:2], PAIRS[language], strict=False):
            words = (*split_turn_words(texts[0]), *split_turn_words(texts[1]))
            asked.append(AlignmentRequest("x", join(first, second, 0.3)[0], RATE, words, language))
    alone = aligner.align(asked)
    fresh = KaldiGmmAligner(KaldiGmmAlignerConfig(), ModelStore().resolve)
    results: dict[int, list] = {}

    def work(number: int) -> None:
        results[number] = fresh.align(asked)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == alone for result in results.values())


def test_a_missing_or_damaged_model_is_one_line(tmp_path) -> None:
    with pytest.raises(ModelStoreError):
        KaldiGmmAligner(KaldiGmmAlignerConfig(models={"en": str(tmp_path / "none")}), ModelStore().resolve)
    with pytest.raises(EngineSetupError, match="no alignment model"):
        KaldiGmmAligner(KaldiGmmAlignerConfig(models={"en": str(tmp_path)}), ModelStore().resolve)
    with pytest.raises(EngineSetupError, match="pronunciations of en, zh only"):
        KaldiGmmAligner(KaldiGmmAlignerConfig(models={"fr": str(tmp_path)}), ModelStore().resolve)
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK\x03\x04 not really")
    opened = KaldiGmmAligner(KaldiGmmAlignerConfig(models={"en": str(broken)}), ModelStore().resolve)
    with pytest.raises(EngineSetupError, match="damaged"):
        ask(opened, np.ones(RATE) * 0.1, ("hello",), "en")
