from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.engines import RowFault, SpeechReply, SpeechRequest
from bystander.tasks.engines.speech_jobs import JobQueue, SpeechCall, SpeechJob

CALL = SpeechCall(100, None)
REPLY = SpeechReply(np.zeros(1, np.float32), 24000)


def make_jobs(voices: str, call: SpeechCall = CALL) -> list[SpeechJob]:
    return [SpeechJob(call, i, SpeechRequest(f"text {i}", voice, i)) for i, voice in enumerate(voices)]


def open_queue(workers: int, voices: str = "") -> JobQueue:
    queue = JobQueue()
    for worker in range(workers):
        queue.join(worker)
    queue.put(make_jobs(voices))
    return queue


def voices_of(jobs: list[SpeechJob]) -> str:
    return "".join(job.request.voice for job in jobs)


def test_jobs_come_voice_by_voice_each_in_its_order():
    queue = open_queue(1, "abacab")
    jobs = queue.take(0, 99)
    assert voices_of(jobs) == "aaabbc"
    assert [job.index for job in jobs] == [0, 2, 4, 1, 5, 3]


def test_a_worker_leaves_the_others_their_share():
    queue = open_queue(3, "abcdef")
    assert voices_of(queue.take(0, 99)) == "ab"
    assert voices_of(queue.take(1, 1)) == "c"
    assert voices_of(queue.take(2, 99)) == "d"


def test_a_voice_stays_with_its_worker_until_another_has_nothing_else():
    queue = open_queue(2, "ab")
    assert voices_of(queue.take(0, 1)) == "a"
    assert voices_of(queue.take(1, 1)) == "b"
    queue.put(make_jobs("bbbbaac"))
    assert voices_of(queue.take(0, 2)) == "aa"
    assert voices_of(queue.take(0, 1)) == "c"
    assert voices_of(queue.take(0, 1)) == "b"  # nothing else is left
    assert voices_of(queue.take(1, 99)) == "bb"  # it is no longer his, but nobody else's jobs are waiting
    queue.put(make_jobs("ab"))
    assert voices_of(queue.take(1, 1)) == "b"


def test_voices_of_a_worker_that_left_are_free():
    queue = open_queue(2, "aa")
    first = queue.take(0, 1)
    queue.give_back(first)
    queue.leave(0)
    assert [job.index for job in queue.take(1, 99)] == [0, 1]
    assert queue.take(0, 99) == []


@given(st.text("abcd", max_size=30), st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.booleans())))
def test_every_job_is_handed_out_once(voices, steps):
    queue = open_queue(3, voices)
    done: list[int] = []
    waiting = len(voices)
    for worker, limit, returned in steps:
        if not waiting:
            break
        jobs = queue.take(worker, limit)
        assert 1 <= len(jobs) <= limit
        if returned:
            queue.give_back(jobs)
        else:
            done += [job.index for job in jobs]
            waiting -= len(jobs)
    done += [job.index for job in queue.drop_all()]
    assert sorted(done) == list(range(len(voices)))


def test_a_closed_queue_sends_a_waiting_worker_home():
    queue = open_queue(1)
    got: list[list[SpeechJob]] = []
    thread = threading.Thread(target=lambda: got.append(queue.take(0, 1)))
    thread.start()
    queue.close()
    thread.join(10)
    assert got == [[]]


def test_dropping_a_call_leaves_the_others_jobs():
    queue = open_queue(1)
    other = SpeechCall(3, None)
    queue.put([*make_jobs("ab"), *make_jobs("abc", other)])
    queue.drop(other)
    assert [job.call is CALL for job in queue.take(0, 99)] == [True, True]


def test_a_call_is_done_when_all_is_answered_and_reported():
    seen: list[int] = []
    call = SpeechCall(2, lambda index, reply: seen.append(index))
    call.answer(1, REPLY)
    call.answer(1, RowFault("late"))  # a worker that was given up answers after all
    call.answer(0, RowFault("empty_text"))
    assert call.wait() == [RowFault("empty_text"), REPLY]
    assert seen == [1]


def test_an_error_of_whoever_is_told_of_a_reply_ends_the_call():
    def refuse(index: int, reply: SpeechReply) -> None:
        raise KeyError("full")

    call = SpeechCall(2, refuse)
    call.answer(0, REPLY)
    assert call.failed
    with pytest.raises(KeyError, match="full"):
        call.wait()
