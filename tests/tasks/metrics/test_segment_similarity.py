"""Where clips are cut, and that the two parts say how many voices there are."""

import pytest

from bystander.schemas.engines import RowFault
from bystander.schemas.errors import InputError
from bystander.schemas.recogniser_configs import FakeVerifierConfig
from bystander.tasks.engines.fake_speech import FakeVerifier
from bystander.tasks.metrics.segment_similarity import SpeechCut, find_cut, find_cuts, measure_dissimilarities
from control_rows import make_bench, make_bench_row
from final_rows import make_table


def segments(*bounds):
    names = ("primary", "third_party")
    return [{"speaker": n, "start_s": s, "end_s": e} for n, (s, e) in zip(names, bounds, strict=False)]


@pytest.mark.parametrize(
    ("bounds", "cut"),
    [
        (((0.1, 2.0), (1.5, 4.0)), SpeechCut(0.1, 1.5, 2.0, 4.0)),  # overlap
        (((0.0, 2.0), (2.5, 4.0)), SpeechCut(0.0, 2.0, 2.5, 4.0)),  # pause
    ],
)
def test_two_speakers_are_cut_around_what_is_between_them(bounds, cut):
    assert find_cut({"n_speakers": 2, "segments": segments(*bounds)}) == cut


def test_one_speaker_alone_is_cut_at_the_texts_seam():
    # 6 letters and 2 letters that are one digit's four: 6 of 10.
    row = {"n_speakers": 1, "segments": segments((1.0, 3.0)), "primary_text": "Go, home.", "third_party_text": "7!"}
    assert find_cut(row) == SpeechCut(1.0, 2.2, 2.2, 3.0)


def test_a_twin_is_cut_at_the_relative_times_of_the_other():
    cut = SpeechCut(0.0, 1.0, 1.5, 4.0).move_to(2.0, 4.0)
    assert cut == SpeechCut(2.0, 2.5, 2.75, 4.0)
    pair, single = make_bench_row(0), make_bench_row(0, one_speaker=True)
    of_pair, of_single = find_cuts(make_table([pair, single]))
    assert of_pair == find_cut(pair)
    assert of_single.end_s == pytest.approx(single["duration_s"])
    for name in ("before_end_s", "after_start_s"):
        assert getattr(of_single, name) / of_single.end_s == pytest.approx(getattr(of_pair, name) / of_pair.end_s)
    assert of_single.after_start_s > of_single.before_end_s
    # Without its twin here, there is no gap.
    (alone,) = find_cuts(make_table([single]))
    assert alone == find_cut(single)


def test_two_voices_are_less_alike_than_one():
    rows = make_bench(pairs=6, alone=2)
    measured = measure_dissimilarities(rows, FakeVerifier(FakeVerifierConfig()))
    two = [value for value, n in zip(measured, rows["n_speakers"].to_pylist(), strict=True) if n == 2]
    one = [value for value, n in zip(measured, rows["n_speakers"].to_pylist(), strict=True) if n == 1]
    assert max(one) < 0.05
    assert min(two) > 0.5
    again = measure_dissimilarities(rows.take(list(range(len(rows)))[::-1]), FakeVerifier(FakeVerifierConfig()))
    assert again[::-1] == measured


def test_parts_that_are_too_short_are_faults_of_their_rows():
    rows = make_table(
        [make_bench_row(0, linked=False), make_bench_row(1, linked=False, third_party="Oh no", overlap_characters=4)]
    )
    fine, short = measure_dissimilarities(rows, FakeVerifier(FakeVerifierConfig()))
    assert isinstance(fine, float)
    assert isinstance(short, RowFault)
    assert short.reason == "too_short_to_embed"


def test_a_clip_that_cannot_be_decoded_is_named():
    row = make_bench_row(0)
    row["audio"] = {"bytes": b"noise", "path": "x"}
    with pytest.raises(InputError, match="row-0000"):
        measure_dissimilarities(make_table([row]), FakeVerifier(FakeVerifierConfig()))
