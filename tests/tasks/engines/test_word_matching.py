"""Finding the words of a text among those that a program or a recogniser wrote."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.alignment import AlignedPhone
from bystander.schemas.engines import RowFault
from bystander.tasks.engines.found_words import FoundWord, join_found
from bystander.tasks.engines.recogniser_aligner import HeardWord, match_words


def _find(*labels: str) -> list[FoundWord]:
    return [FoundWord(label, float(k), k + 1.0) for k, label in enumerate(labels)]


def _hear(*words: str) -> list[HeardWord]:
    return [HeardWord(f" {word}", float(k), k + 1.0, 0.8) for k, word in enumerate(words)]


def _starts(words: list | RowFault) -> list[float] | str:
    return words.reason if isinstance(words, RowFault) else [word.start_s for word in words]


def test_entries_are_joined_by_their_letters():
    assert _starts(
        join_found(("Well-known,", "isn’t", "it?"), _find("", "well", "known", "is", "n't", "it"), (), 0)
    ) == [
        1.0,
        3.0,
        5.0,
    ]
    assert _starts(join_found(("a", "ab", "b"), _find("a", "a", "b", "b"), (), 0)) == [0.0, 1.0, 3.0]
    assert _starts(join_found(("xx", "yes"), _find("<unk>", "sil", "yes"), (), 0)) == [0.0, 2.0]
    assert _starts(join_found(("uh", "huh"), _find("uh-huh"), (), 0)) == "alignment_incomplete"
    assert _starts(join_found(("yes",), (), (), 0)) == "alignment_incomplete"
    assert _starts(join_found(("yes", "…"), _find("yes"), (), 0)) == "no_pronunciation"


def test_phones_go_to_the_word_that_their_middle_lies_in():
    phones = [AlignedPhone("A", 0.01, 0.6), AlignedPhone("B", 0.6, 1.01), AlignedPhone("C", 1.01, 2.0)]
    joined = join_found(("a", "b"), _find("a", "b"), phones, 0.015)
    assert not isinstance(joined, RowFault)
    assert [[(p.phone, p.start_s, p.end_s) for p in word.phones] for word in joined] == [
        [("A", 0.0, 0.6), ("B", 0.6, 1.0)],
        [("C", 1.0, 2.0)],
    ]
    assert _starts(join_found(("a", "b"), _find("a", "b"), phones, 0.001)) == "alignment_incomplete"


@given(
    words=st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 3), min_size=8, max_size=8),
)
def test_however_words_are_taken_apart_they_are_found_again(words, cuts):
    labels = [(k, part) for k, word in enumerate(words) for part in (word[: cuts[k]], word[cuts[k] :]) if part]
    joined = join_found(words, _find(*(part for _, part in labels)), (), 0)
    assert not isinstance(joined, RowFault)
    assert [word.word for word in joined] == words
    starts = [word.start_s for word in joined]
    assert starts == sorted(set(starts))
    assert joined[-1].end_s == len(labels)


def test_words_take_the_times_of_what_was_heard():
    assert _starts(match_words(("Right,", "O’Brien", "said"), _hear("write", "right", "O'Bryan", "said"))) == [1, 2, 3]
    assert _starts(match_words(("对", "那", "个"), _hear("对", "那", "个"))) == [0, 1, 2]
    assert _starts(match_words(("well-known",), _hear("well", "known"))) == [0]


def test_words_that_were_not_heard_are_not_made_up():
    assert _starts(match_words(("right", "but", "wait"), _hear("right", "wait"))) == "alignment_incomplete"
    assert _starts(match_words(("a", "lot"), _hear("alot"))) == "alignment_incomplete"
    assert _starts(match_words(("hello",), _hear("goodbye"))) == "alignment_incomplete"


def test_scores_say_how_much_was_heard():
    words = match_words(("abcd", "efgh"), _hear("abcd", "efxx"))
    assert not isinstance(words, RowFault)
    assert [word.score for word in words] == [0.8, 0.4]
