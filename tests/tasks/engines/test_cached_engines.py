from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from bystander.schemas.engines import (
    AnswerReply,
    AnswerRequest,
    EngineIdentity,
    RecognitionReply,
    RecognitionRequest,
    RowFault,
    SpeechReply,
    SpeechRequest,
    SpokenWord,
    TextReply,
    TextRequest,
    Voice,
)
from bystander.schemas.errors import EngineUnavailableError
from bystander.tasks.engines.cached import CachedCandidate, CachedRecogniser, CachedSpeechEngine, CachedTextEngine


class DictCache(dict):
    def put(self, key, value):
        self[key] = value


class CountingEngine:
    """Plays all three parts; keeps each batch; reports the replies in reverse order, or not at all."""

    def __init__(self, answer, revision="1", reports=True, breaks_after=None):
        self.identity = EngineIdentity("test", "counting", "m", revision)
        self.voices = (Voice("v", "en"),)
        self.batches = []
        self.closed = False
        self._answer = answer
        self._reports = reports
        self._breaks_after = breaks_after

    def generate(self, requests, on_reply=None):
        self.batches.append(list(requests))
        replies = [self._answer(request) for request in requests]
        for done, index in enumerate(reversed(range(len(requests)))):
            if self._breaks_after is not None and done == self._breaks_after:
                raise EngineUnavailableError("broke down")
            if self._reports and not isinstance(replies[index], RowFault):
                on_reply(index, replies[index])
        return replies

    synthesise = recognise = answer = generate

    def close(self):
        self.closed = True


def text(name, **fields):
    return TextRequest(name, (), seed=1, **fields)


def answer_text(request):
    if request.task == "bad":
        return RowFault("bad_row")
    return TextReply(
        request.task.upper(), value={"a": request.task}, option_probs={"Yes": 0.1 + 0.2, "No": 0.7}, reasoning="é"
    )


@pytest.mark.parametrize("reports", [True, False])
def test_hits_are_not_called_and_misses_are_one_batch(reports):
    cache, inner = DictCache(), CountingEngine(answer_text, reports=reports)
    engine = CachedTextEngine(inner, cache)
    engine.generate([text("a"), text("b")])
    heard = []
    replies = engine.generate([text("c"), text("a"), text("d"), text("c")], lambda i, r: heard.append((i, r.text)))
    assert [reply.text for reply in replies] == ["C", "A", "D", "C"]
    assert replies[1] == answer_text(text("a"))
    assert [[request.task for request in batch] for batch in inner.batches] == [["a", "b"], ["c", "d"]]
    assert sorted(heard) == [(0, "C"), (1, "A"), (2, "D"), (3, "C")]
    assert (engine.hits, engine.misses) == (2, 4)


def test_faults_are_asked_again():
    cache, inner = DictCache(), CountingEngine(answer_text)
    engine = CachedTextEngine(inner, cache)
    for _ in range(2):
        assert engine.generate([text("bad"), text("a"), text("bad")]) == [
            RowFault("bad_row"),
            answer_text(text("a")),
            RowFault("bad_row"),
        ]
    assert [[request.task for request in batch] for batch in inner.batches] == [["bad", "a"], ["bad"]]


def test_replies_before_a_breakdown_are_kept():
    cache, inner = DictCache(), CountingEngine(answer_text, breaks_after=2)
    with pytest.raises(EngineUnavailableError):
        CachedTextEngine(inner, cache).generate([text("a"), text("b"), text("c")])
    again = CountingEngine(answer_text)
    CachedTextEngine(again, cache).generate([text("a"), text("b"), text("c")])
    assert [request.task for request in again.batches[0]] == ["a"]


def test_another_model_or_any_other_field_is_another_call():
    cache = DictCache()
    CachedTextEngine(CountingEngine(answer_text), cache).generate([text("a")])
    CachedTextEngine(CountingEngine(answer_text, revision="2"), cache).generate([text("a")])
    assert len(cache) == 2
    others = [
        text("a", temperature=0.1),
        text("a", options=("x",)),
        text("a", variables={"k": "v"}),
        text("a", reply_schema={}),
    ]
    engine = CachedTextEngine(CountingEngine(answer_text), cache)
    engine.generate(others)
    assert engine.misses == 4


@pytest.mark.parametrize("damaged", [b"", b"\xff", b"{", b"[]", b"3", b"null", b'{"unknown": 1}', b"{}"])
def test_damaged_entry_is_a_miss(damaged):
    cache = DictCache()
    CachedTextEngine(CountingEngine(answer_text), cache).generate([text("a")])
    [key] = cache
    cache[key] = damaged
    engine = CachedTextEngine(CountingEngine(answer_text), cache)
    assert engine.generate([text("a")]) == [answer_text(text("a"))]
    assert engine.misses == 1
    assert cache[key] != damaged


def speak(request):
    rng = np.random.default_rng(request.seed)
    return SpeechReply(rng.uniform(-1.2, 1.2, 2400).astype(np.float32), 24000)


def test_fresh_and_kept_clips_are_equal_to_the_bit():
    cache, inner = DictCache(), CountingEngine(speak)
    engine = CachedSpeechEngine(inner, cache)
    request = SpeechRequest("Hello.", "v", 3)
    heard = []
    [fresh] = engine.synthesise([request], lambda _, reply: heard.append(reply))
    [kept] = engine.synthesise([request])
    assert len(inner.batches) == 1
    assert fresh.samples.dtype == kept.samples.dtype == np.float32
    np.testing.assert_array_equal(fresh.samples, kept.samples)
    np.testing.assert_array_equal(heard[0].samples, kept.samples)
    np.testing.assert_allclose(kept.samples, np.clip(speak(request).samples, -1, 1), atol=1 / 32768)
    assert kept.sampling_rate == 24000
    assert next(iter(cache.values()))[:4] == b"fLaC"
    assert engine.voices == inner.voices


def speak_with_words(request):
    words = (SpokenWord('"对', 0.1, 0.2), SpokenWord("b\nc", 0.3, 1 / 3)) if request.word_times else None
    return dataclasses.replace(speak(request), words=words)


def test_word_times_are_kept_beside_clips_without_them():
    cache, bare = DictCache(), SpeechRequest("Hello.", "v", 3)
    timed = dataclasses.replace(bare, word_times=True)
    CachedSpeechEngine(CountingEngine(speak), cache).synthesise([bare])
    inner = CountingEngine(speak_with_words)
    engine = CachedSpeechEngine(inner, cache)
    [fresh] = engine.synthesise([timed])
    old, kept = engine.synthesise([bare, timed])
    assert [request.word_times for batch in inner.batches for request in batch] == [True]
    assert old.words is None
    assert fresh.words == kept.words == speak_with_words(timed).words
    np.testing.assert_array_equal(kept.samples, old.samples)


@pytest.mark.parametrize("head", [b"[", b"[\n", b"[1]\n", b'[["a", 1]]\n', b'[["a", 1, "x"]]\n'])
def test_damaged_word_times_are_a_miss(head):
    cache, request = DictCache(), SpeechRequest("Hello.", "v", 3, word_times=True)
    CachedSpeechEngine(CountingEngine(speak_with_words), cache).synthesise([request])
    [key] = cache
    cache[key] = head + cache[key].partition(b"\n")[2]
    engine = CachedSpeechEngine(CountingEngine(speak_with_words), cache)
    [again] = engine.synthesise([request])
    assert engine.misses == 1
    assert again.words == speak_with_words(request).words


def test_clips_that_flac_cannot_hold_pass_uncached():
    answers = {1: np.zeros(0, np.float32), 2: np.array([0, np.nan], np.float32)}
    engine = CachedSpeechEngine(CountingEngine(lambda r: SpeechReply(answers[r.seed], 24000)), DictCache())
    requests = [SpeechRequest("x", "v", 1), SpeechRequest("x", "v", 2)]
    for _ in range(2):
        empty, broken = engine.synthesise(requests)
        assert len(empty.samples) == 0
        assert np.isnan(broken.samples[1])
    assert engine.misses == 4


def test_damaged_clip_is_a_miss():
    cache = DictCache()
    request = SpeechRequest("Hello.", "v", 3)
    CachedSpeechEngine(CountingEngine(speak), cache).synthesise([request])
    [key] = cache
    cache[key] = b"fLaC" + b"\0" * 100
    engine = CachedSpeechEngine(CountingEngine(speak), cache)
    [reply] = engine.synthesise([request])
    assert len(reply.samples) == 2400
    assert engine.misses == 1


def test_audio_is_known_by_samples_rate_and_language():
    cache = DictCache()
    inner = CountingEngine(lambda request: RecognitionReply(f"{len(request.samples)}", -0.25, None))
    engine = CachedRecogniser(inner, cache)
    one = RecognitionRequest(np.linspace(0, 1, 100, dtype=np.float32), 16000)
    same = dataclasses.replace(one, samples=np.repeat(one.samples, 2)[::2])  # equal values, other memory layout
    others = [
        dataclasses.replace(one, samples=one.samples * np.float32(0.5)),
        dataclasses.replace(one, sampling_rate=8000),
        dataclasses.replace(one, language="zh"),
    ]
    engine.recognise([one])
    assert engine.recognise([same]) == [RecognitionReply("100", -0.25, None)]
    engine.recognise(others)
    assert [len(batch) for batch in inner.batches] == [1, 3]
    assert (engine.hits, engine.misses) == (1, 4)


def test_transcripts_kept_before_temperatures_were_have_the_only_one_there_was():
    cache = DictCache()
    one = RecognitionRequest(np.ones(100, np.float32), 16000)
    reply = RecognitionReply('of "temperature" 7', -0.25, 0.1, temperature=0.4)
    CachedRecogniser(CountingEngine(lambda request: reply), cache).recognise([one])
    engine = CachedRecogniser(CountingEngine(lambda request: RecognitionReply("new")), cache)
    assert engine.recognise([one]) == [reply]
    [key] = cache
    old = {"text": reply.text, "mean_logprob": -0.25, "no_speech_prob": 0.1}
    cache[key] = json.dumps(old).encode()
    assert engine.recognise([one]) == [dataclasses.replace(reply, temperature=0.0)]
    cache[key] = json.dumps({**old, "mean_logprob": None}).encode()  # near-silence, which nobody decoded
    assert engine.recognise([one])[0].temperature is None
    assert engine.misses == 0


def test_an_answer_is_known_by_samples_rate_and_seed_and_not_by_the_row():
    cache = DictCache()
    inner = CountingEngine(lambda request: AnswerReply(f"{request.samples.sum():.3f} {request.seed}"))
    engine = CachedCandidate(inner, cache)
    one = AnswerRequest("row-1", np.linspace(0, 1, 100, dtype=np.float32), 16000, 5, {"reply": "x"})
    first = engine.answer([one])
    assert engine.answer([dataclasses.replace(one, id="row-2", variables={})]) == first
    engine.answer(
        [
            dataclasses.replace(one, samples=one.samples * np.float32(0.5)),
            dataclasses.replace(one, sampling_rate=8000),
            dataclasses.replace(one, seed=6),
        ]
    )
    assert [len(batch) for batch in inner.batches] == [1, 3]
    assert (engine.hits, engine.misses) == (1, 4)
    other = CachedCandidate(CountingEngine(lambda request: AnswerReply("new"), revision="2"), cache)
    assert other.answer([one]) == [AnswerReply("new")]


def test_a_candidate_s_fault_is_not_kept():
    inner = CountingEngine(lambda request: RowFault("empty_reply"))
    engine = CachedCandidate(inner, DictCache())
    one = AnswerRequest("row-1", np.ones(4, np.float32), 16000, 5)
    assert [engine.answer([one]), engine.answer([one])] == [[RowFault("empty_reply")]] * 2
    assert len(inner.batches) == 2


def test_close_closes_the_inner_engine():
    inner = CountingEngine(answer_text)
    CachedTextEngine(inner, DictCache()).close()
    assert inner.closed
