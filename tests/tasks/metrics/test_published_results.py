"""The published table, and what a user's own file of published results may hold."""

import pytest

from bystander.schemas.errors import InputError
from bystander.tasks.metrics.published_results import load_published_results
from bystander.tasks.metrics.score_definitions import TABLE_SCORES

HEAD = "source: {title: T, authors: A, address: https://example.org, place: Table 1}\nsystems:\n"


def test_holds_the_published_table():
    results = load_published_results()
    rows = {system.name: [system.scores[score.key] for score in TABLE_SCORES] for system in results.systems}
    assert rows == {
        "ChatGPT-4o-audio": [0.21, 4.06, 0.09, 4.95, 0.89, 0.93],
        "Kimi-Audio-Instruct-7B": [0.22, 3.29, 0.13, 4.52, 0.94, 0.99],
        "VITA-Audio-Instruct-7B": [0.21, 3.26, 0.10, 4.37, 0.42, 0.71],
        "Qwen2.5-Omni-7B": [0.24, 3.22, 0.12, 4.44, 0.31, 0.53],
        "Qwen3-Omni-30B-A3B-Instruct": [0.19, 3.55, 0.01, 4.45, 0.20, 0.39],
        "TPI-Base": [0.82, 4.32, 0.86, 3.54, 0.46, 0.63],
        "TPI-VA": [0.82, 4.29, 0.67, 3.75, 0.39, 0.58],
        "TPI-Full": [0.83, 4.16, 0.16, 4.80, 0.12, 0.34],
    }
    assert results.source.address == "https://arxiv.org/abs/2604.17358v1"
    assert results.systems[-1].trained_on == ("corpus", "dyadic", "hard_negatives")


def test_agrees_with_the_gains_stated_in_the_papers_text():
    systems = {system.name: system.scores for system in load_published_results().systems}
    gain = {key: systems["TPI-Full"][key] - systems["Qwen2.5-Omni-7B"][key] for key in ("tpi_test.rsf", "tpi_test.oh")}
    assert gain == pytest.approx({"tpi_test.rsf": 0.59, "tpi_test.oh": 0.94})


def test_reads_a_users_file_with_some_of_the_scores(tmp_path):
    path = tmp_path / "others.yaml"
    path.write_text(HEAD + "- {name: Ours, scores: {bleu: 0.5}}\n")
    system = load_published_results(path).systems[0]
    assert (system.name, system.scores, system.trained_on) == ("Ours", {"bleu": 0.5}, ())


@pytest.mark.parametrize(
    ("systems", "message"),
    [
        ("- {name: Ours, scores: {blue: 0.5}}", r"systems\.0\.scores: .*'blue' is no score; known are tpi_test\.rsf,"),
        ("- {name: Ours, scores: {tpi_test.oh: 0.5}}", r"systems\.0\.scores: .*tpi_test\.oh 0\.5 is not from 1 to 5"),
        ("- {name: Ours, scores: {bleu: .nan}}", r"bleu nan is not from 0 to 1"),
        ("- {name: Ours, scores: {bleu: 0}}\n- {name: Ours, scores: {bleu: 1}}", r"systems: .*stand there twice: Ours"),
        ("- {name: Ours, score: {bleu: 0}}", r"systems\.0\.scores: Field required"),
        ("- {name: Ours", r"cannot be read as YAML"),
    ],
)
def test_names_what_is_wrong_in_a_file(tmp_path, systems, message):
    path = tmp_path / "others.yaml"
    path.write_text(HEAD + systems + "\n")
    with pytest.raises(InputError, match=rf"^{path}: .*{message}|^{path} {message}"):
        load_published_results(path)


def test_names_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"none\.yaml cannot be read"):
        load_published_results(tmp_path / "none.yaml")
