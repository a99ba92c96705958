"""Which rows are twins."""

from bystander.tasks.metrics.twin_pairs import find_twins


def test_a_pair_is_whole_and_names_each_other_with_the_two_speaker_row_first():
    rows = [
        ("single-b", 1, "pair-b"),
        ("pair-a", 2, "single-a"),
        ("pair-b", 2, "single-b"),
        ("single-a", 1, "pair-a"),
        ("alone", 2, None),
        ("twin-elsewhere", 2, "not-here"),
    ]
    assert find_twins(*zip(*rows, strict=True)) == [(1, 3), (2, 0)]


def test_links_that_do_not_hold_in_both_directions_make_no_pair():
    assert find_twins(["a", "b"], [2, 1], ["b", None]) == []
    assert find_twins(["a", "b"], [2, 1], [None, "a"]) == []
    assert find_twins(["a", "b"], [2, 2], ["b", "a"]) == []
    assert find_twins(["a"], [2], ["a"]) == []
    assert find_twins([], [], []) == []
