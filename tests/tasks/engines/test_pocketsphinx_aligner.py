"""What is particular to pocketsphinx: how well it places breaks, how it pronounces, and who may call it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import soxr

from alignment_samples import RATE, TEXT, get_reason, get_reply, make_noise, make_request, put_together, speak
from bystander.schemas.sid_engine_configs import PocketsphinxAlignerConfig
from bystander.tasks.engines.pocketsphinx_aligner import PocketsphinxAligner

pytestmark = pytest.mark.models
BACKCHANNEL = "Uh-huh."
CLAUSES = ("Actually, can you stop it?", "What about tomorrow?", "Not that one, please.")
VOICES = ("am_eric", "bf_lily")
"""Not those that its bias was calibrated with."""


@pytest.fixture(scope="module")
def aligner() -> PocketsphinxAligner:
    return PocketsphinxAligner(PocketsphinxAlignerConfig())


def test_break_words_lie_within_50_ms_of_the_truth(aligner: PocketsphinxAligner) -> None:
    errors = []
    for voice in VOICES:
        backchannel, *clauses = speak((BACKCHANNEL, *CLAUSES), voice)
        for number, (text, clause) in enumerate(zip(CLAUSES, clauses, strict=True)):
            alone, alone_starts = put_together([0.25, clause, 0.3])
            after, after_starts = put_together([0.3, backchannel, 0.3 + 0.2 * number, clause, 0.3])
            immediate, grown = aligner.align([make_request(alone, text), make_request(after, f"{BACKCHANNEL} {text}")])
            errors.append(get_reply(immediate).words[0].start_s - alone_starts[0])
            errors.append(get_reply(grown).words[1].start_s - after_starts[1])
        pure, starts = put_together([0.4, backchannel, 0.4])
        (only,) = get_reply(*aligner.align([make_request(pure, BACKCHANNEL)])).words
        errors.append(only.start_s - starts[0])
    assert np.mean(np.abs(errors) < 0.0501) >= 0.9  # frames of 10 ms: five of them are 50 ms
    assert np.median(np.abs(errors)) < 0.025


def test_unknown_words_are_pronounced_by_rules_and_said_to_be(aligner: PocketsphinxAligner) -> None:
    clip, _ = put_together([0.2, *speak(("Call Kubernetes at 7:30, okay?",), "am_eric"), 0.2])
    reply = get_reply(*aligner.align([make_request(clip, "Call Kubernetes at 7:30, okay?")]))
    assert [word.in_vocabulary for word in reply.words] == [True, False, True, False, True]
    assert [phone.phone for phone in reply.words[3].phones] == "S EH V AH N TH ER T IY".split()
    assert reply.words[3].phones[-1].end_s == reply.words[3].end_s
    assert all(word.score is not None and -30 < word.score < 0 for word in reply.words)


def test_a_strict_word_limit_finds_one_wrong_word() -> None:
    strict = PocketsphinxAligner(PocketsphinxAlignerConfig(min_score=-35, min_word_score=-60))
    clip, _ = put_together([0.3, *speak((TEXT,), "am_michael"), 0.3])
    get_reply(*strict.align([make_request(clip, TEXT)]))
    (answer,) = strict.align([make_request(clip, TEXT.replace("sister", "Washington"))])
    assert get_reason(answer) == "low_alignment_score"
    lenient = PocketsphinxAligner(PocketsphinxAlignerConfig(min_score=-1000, min_word_score=-1000))
    reply = get_reply(*lenient.align([make_request(clip, TEXT.replace("sister", "Washington"))]))
    assert min(reply.words, key=lambda word: word.score or 0).word == "Washington"


def test_telephone_speech_is_believed_and_a_wrong_text_is_not(aligner: PocketsphinxAligner) -> None:
    for voice in VOICES:
        clip, starts = put_together([0.3, *speak((TEXT,), voice), 0.3])
        telephone = soxr.resample(clip, RATE, 8000)
        reply = get_reply(*aligner.align([make_request(telephone, TEXT, 8000)]))
        assert abs(reply.words[0].start_s - starts[0]) < 0.05
        (answer,) = aligner.align([make_request(telephone, "The window is seven miles away.", 8000)])
        assert get_reason(answer) == "low_alignment_score"


def test_noise_and_level_change_little(aligner: PocketsphinxAligner) -> None:
    clip, starts = put_together([0.3, *speak((TEXT,), "am_michael"), 0.3])
    level = float(np.sqrt(np.mean(clip**2)))
    for changed in (0.01 * clip, clip + make_noise(len(clip) / RATE, 0.3 * level)[: len(clip)]):
        lenient = PocketsphinxAligner(PocketsphinxAlignerConfig(min_score=-1000, min_word_score=-1000))
        reply = get_reply(*lenient.align([make_request(changed, TEXT)]))
        assert abs(reply.words[0].start_s - starts[0]) < 0.08


def test_threads_may_share_it_and_it_opens_again(aligner: PocketsphinxAligner) -> None:
    clip, _ = put_together([0.3, *speak((TEXT,), "am_michael"), 0.3])
    requests = [make_request(clip, TEXT), make_request(clip, "Right, but"), make_request(clip, "Zyzzyva")]
    alone = [aligner.align([request]) for request in requests]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda request: aligner.align([request]), requests * 2)) == alone * 2
    aligner.close()
    assert aligner.align(requests[:1]) == alone[0]
