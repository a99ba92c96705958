"""One suite for every speech engine, and what is particular to each."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from bystander.schemas.engines import RowFault, SpeechEngine, SpeechReply, SpeechRequest
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig, FakeSpeechConfig, KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.chatterbox_speech import ChatterboxSpeechEngine
from bystander.tasks.engines.fake_speech import FakeSpeechEngine
from bystander.tasks.engines.kokoro import (
    LATE_AFTER_MARK_S,
    LATE_AFTER_PAUSE_S,
    LATE_WITHIN_S,
    SPEED_SPREAD,
    STYLE_SPREAD,
    KokoroSpeechEngine,
    cut_ellipsis,
    time_words,
    vary_delivery,
)
from bystander.tasks.engines.kokoro_styles import load_styles, load_symbols
from bystander.tasks.engines.kokoro_words import WordSpan
from voice_banks import make_bank


@pytest.fixture(scope="module", params=["fake", "workers", pytest.param("kokoro", marks=pytest.mark.models)])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpeechEngine]:
    opened: SpeechEngine
    if request.param == "fake":
        opened = FakeSpeechEngine(FakeSpeechConfig())
    elif request.param == "workers":
        folder = str(tmp_path_factory.mktemp("workers"))
        config = ChatterboxSpeechConfig(
            bank="memory", model="tone", devices=("cpu", "cpu"), cache_folder=folder, log_folder=folder
        )
        opened = ChatterboxSpeechEngine(config, make_bank())
    else:
        opened = KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve)
    yield opened
    opened.close()


def test_fits_the_protocol_and_names_itself(engine: SpeechEngine) -> None:
    assert isinstance(engine, SpeechEngine)
    assert engine.identity.kind == "speech"
    assert len(engine.identity.digest()) == 64


def test_voices_are_ordered_distinct_and_described(engine: SpeechEngine) -> None:
    ids = [voice.id for voice in engine.voices]
    assert ids == sorted(set(ids))
    assert len(ids) >= 2
    assert {voice.gender for voice in engine.voices} == {"female", "male"}
    assert all(voice.language == "en" and voice.licence and voice.source for voice in engine.voices)


def test_replies_come_in_order_repeat_exactly_and_are_reported(engine: SpeechEngine) -> None:
    first, second = engine.voices[0].id, engine.voices[-1].id
    requests = [
        SpeechRequest("Turn the kitchen lights on, please.", first, 5),
        SpeechRequest("...", first, 1),
        SpeechRequest("Wait!", second, 6),
        SpeechRequest("Wait!", second, 7),
    ]
    seen: dict[int, SpeechReply] = {}
    lock = threading.Lock()

    def keep(index: int, reply: SpeechReply) -> None:
        with lock:
            assert index not in seen
            seen[index] = reply

    replies = engine.synthesise(requests, keep)
    assert len(replies) == 4
    fault = replies[1]
    assert isinstance(fault, RowFault)
    assert fault.reason == "empty_text"
    assert sorted(seen) == [0, 2, 3]
    for index, reply in seen.items():
        assert reply is replies[index]
        assert reply.samples.dtype == np.float32
        assert reply.samples.ndim == 1
        assert reply.sampling_rate == 24000
        assert np.isfinite(reply.samples).all()
        assert 0.05 < np.abs(reply.samples).max() <= 1
    assert len(seen[0].samples) > 1.5 * len(seen[2].samples)
    (again,) = engine.synthesise(requests[:1])
    assert isinstance(again, SpeechReply)
    np.testing.assert_array_equal(again.samples, seen[0].samples)


def test_word_times_are_told_when_asked_for_and_change_no_sample(engine: SpeechEngine) -> None:
    text, voice = "Okay, so -- what about 7:30?", engine.voices[0].id
    bare, timed = engine.synthesise([SpeechRequest(text, voice, 3), SpeechRequest(text, voice, 3, word_times=True)])
    assert isinstance(bare, SpeechReply)
    assert isinstance(timed, SpeechReply)
    np.testing.assert_array_equal(bare.samples, timed.samples)
    assert bare.words is None
    if isinstance(engine, ChatterboxSpeechEngine):  # it cannot tell
        assert timed.words is None
        return
    assert timed.words is not None
    assert [word.word for word in timed.words] == ["Okay,", "so", "what", "about", "7:30?"]
    starts, ends = zip(*((word.start_s, word.end_s) for word in timed.words), strict=True)
    assert sorted(starts) == list(starts)
    assert all(start < end for start, end in zip(starts, ends, strict=True))
    assert 0 <= starts[0] < 0.6
    assert ends[-1] <= len(timed.samples) / timed.sampling_rate


def test_bad_texts_are_row_faults(engine: SpeechEngine) -> None:
    voice = engine.voices[0].id
    texts = ["", "   ", "?!", "far too long " * 300]
    reasons = [fault.reason for fault in engine.synthesise([SpeechRequest(t, voice, 0) for t in texts])]  # type: ignore[union-attr]
    assert reasons == ["empty_text", "empty_text", "empty_text", "text_too_long_to_speak"]


def test_unknown_voice_is_named(engine: SpeechEngine) -> None:
    with pytest.raises(EngineSetupError, match="no voice 'zz_nobody'"):
        engine.synthesise([SpeechRequest("Hello there.", "zz_nobody", 0)])


def test_no_requests_give_no_replies(engine: SpeechEngine) -> None:
    assert engine.synthesise([]) == []


# ---- Kokoro -------------------------------------------------------------------------------------------------


@pytest.mark.models
def test_kokoro_takes_differ_by_seed_and_cut_sentences_are_not_drawn_out(engine: SpeechEngine) -> None:
    if not isinstance(engine, KokoroSpeechEngine):
        pytest.skip("of Kokoro only")
    one, two, cut, bare, foreign = engine.synthesise(
        [
            SpeechRequest("Set a timer.", "af_heart", 1),
            SpeechRequest("Set a timer.", "af_heart", 2),
            SpeechRequest("Set a timer for...", "am_michael", 1),
            SpeechRequest("Set a timer for", "am_michael", 1),
            SpeechRequest("Set a timer.", "af_heart", 1, language="zh"),
        ]
    )
    assert isinstance(one, SpeechReply)
    assert isinstance(two, SpeechReply)
    assert isinstance(cut, SpeechReply)
    assert isinstance(bare, SpeechReply)
    assert isinstance(foreign, RowFault)
    assert len(one.samples) != len(two.samples) or not np.array_equal(one.samples, two.samples)
    np.testing.assert_array_equal(cut.samples, bare.samples)
    assert foreign.reason == "unsupported_language"


def test_kokoro_delivery_depends_on_the_seed_alone_and_stays_small() -> None:
    drawn = [vary_delivery(seed) for seed in range(400)]
    assert drawn == [vary_delivery(seed) for seed in range(400)]
    speeds, shifts = zip(*drawn, strict=True)
    assert 1 - SPEED_SPREAD <= min(speeds) < 0.95 < 1.05 < max(speeds) <= 1 + SPEED_SPREAD
    assert set(shifts) == set(range(-STYLE_SPREAD, STYLE_SPREAD + 1))


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Can you turn on the...", "Can you turn on the"),
        ("Can you, ...", "Can you"),
        ("Can you… ", "Can you"),
        ("It's done.", "It's done."),
        ("Wait... what?", "Wait... what?"),
        ("...", ""),
    ],
)
def test_kokoro_speaks_no_dots_of_a_cut_sentence(text: str, spoken: str) -> None:
    assert cut_ellipsis(text) == spoken


@pytest.mark.models
def test_kokoro_speaks_mandarin_where_it_is_asked_to() -> None:
    engine = KokoroSpeechEngine(KokoroSpeechConfig(languages=("zh", "en")), ModelStore().resolve)
    assert [voice.id for voice in engine.voices if voice.language == "zh"] == [*load_styles("zh").voices]
    assert len(engine.voices) == 36
    text = "对，那明天呢？"
    spoken, foreign, mute = engine.synthesise(
        [
            SpeechRequest(text, "zm_yunxi", 4, "zh-CN", word_times=True),
            SpeechRequest("Hello.", "zm_yunxi", 4, "en"),
            SpeechRequest("？！", "zm_yunxi", 4, "zh"),
        ]
    )
    engine.close()
    assert isinstance(spoken, SpeechReply)
    assert spoken.words is not None
    assert [word.word for word in spoken.words] == ["对", "那", "明", "天", "呢"]
    assert 0.8 < len(spoken.samples) / 24000 < 3.5
    assert isinstance(foreign, RowFault)
    assert isinstance(mute, RowFault)
    assert (foreign.reason, mute.reason) == ("unsupported_language", "empty_text")


@pytest.mark.models
def test_kokoro_without_mandarin_is_the_engine_that_it_was(engine: SpeechEngine) -> None:
    if not isinstance(engine, KokoroSpeechEngine):
        pytest.skip("of Kokoro only")
    assert [name for name, _ in engine.identity.settings] == ["g2p", "rules", "speed", "voices"]
    assert dict(engine.identity.settings)["voices"] == "00515468a5f95d7d"
    both = KokoroSpeechEngine(KokoroSpeechConfig(languages=("en", "zh")), ModelStore().resolve)
    assert both.identity.settings[:4] == engine.identity.settings
    assert [name for name, _ in both.identity.settings[4:]] == ["zh_g2p", "zh_rules", "zh_voices"]
    both.close()


def test_kokoro_durations_become_word_times() -> None:
    # Symbols of four words, in frames of 25 ms: a b , _ c d _ e f g . and a pad on either side; f follows e at once.
    durations = np.array([8, 2, 3, 4, 4, 2, 2, 1, 3, 2, 2, 6, 3])
    spans = [("ab,", 0, 2), ("cd", 4, 6), ("e", 7, 8), ("fg.", 8, 10)]
    words = tuple(WordSpan(*span) for span in spans)
    timed = time_words(words, range(11), durations, 42 * 600)
    assert timed is not None
    assert [word.word for word in timed] == ["ab,", "cd", "e", "fg."]
    expected = [
        (0.2 - LATE_AFTER_PAUSE_S, 0.325 - LATE_AFTER_MARK_S),
        (0.525 - LATE_AFTER_PAUSE_S, 0.625 - LATE_AFTER_MARK_S),  # .2 s of marks: a pause
        (0.625 - LATE_AFTER_MARK_S, 0.725 - LATE_WITHIN_S),  # a space is its own
        (0.725 - LATE_WITHIN_S, 0.825 - LATE_AFTER_MARK_S),
    ]
    np.testing.assert_allclose([(word.start_s, word.end_s) for word in timed], expected)
    assert time_words((WordSpan("x", 11, 12),), range(11), durations, 42 * 600) is None
    with pytest.raises(EngineError, match="durations"):
        time_words(words, range(11), durations, 41 * 600)


@pytest.mark.parametrize(("language", "groups", "count"), [("en", "af am bf bm", 28), ("zh", "zf zm", 8)])
def test_kokoro_ships_voices_of_sane_styles(language: str, groups: str, count: int) -> None:
    styles = load_styles(language)
    assert len(styles.voices) == count
    assert {voice[:2] for voice in styles.voices} == set(groups.split())
    for voice in styles.voices:
        norms = [float(np.linalg.norm(styles.read_row(voice, row))) for row in (0, 50, 509)]
        assert all(2 < norm < 13 for norm in norms), (voice, norms)
    assert styles.read_row(styles.voices[0], 9).shape == (256,)
    assert load_symbols()["ə"] == 83
