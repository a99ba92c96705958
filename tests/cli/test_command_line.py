"""The `bystander` command: mistakes are one line and exit code 2, and help comes at once."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bystander.storage.build_lock import lock_build
from bystander.storage.call_cache import SqliteCallCache
from bystander.storage.filesystem import open_store
from tasks.engines.scripted_chat_server import answer_well, serve_script
from tpi_builds import write_queries
from web_folder import serve_folder

Run = Callable[..., tuple[int, str, str]]
SLOW_MODULES = {"prefect", "pandas", "onnxruntime", "librosa", "scipy", "openai", "xllamacpp", "ctranslate2", "torch"}
PROBE = """
import sys
sys.argv = ["bystander", *{arguments}]
from bystander.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
import resource
used = resource.getrusage(resource.RUSAGE_SELF)
import json
print(json.dumps([used.ru_utime + used.ru_stime, sorted(sys.modules)]))
"""


@pytest.fixture
def run(run_command: Run) -> Run:
    return run_command


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def fail(run: Run, *arguments: object) -> str:
    """Run a command that must fail by the user's fault, and return its one line."""
    code, out, err = run(*arguments)
    assert code == 2, (code, out, err)
    assert err.startswith("error: ")
    assert err.count("\n") == 1, err
    assert "Traceback" not in err + out
    return err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--profile", "huge"], "no profile 'huge'; there are fake, laptop, paper, playbook"),
        (["--set", "targets"], "--set 'targets': write it as field.name=value"),
        (["--set", "no.such=1"], "no: no such field; there are build, dataset, disjoint_from, engines, max_waves, "),
        (
            ["--set", "stages.mix_speakers.offset=1"],
            "stages.mix_speakers.offset: no such field; there are level_difference_sd_db, loudness, ",
        ),
        (
            ["--set", "engines.writer={engine: openai, base_url: x, model: m, key: k}"],
            "engines.writer.key: no such field; there are api_key_env, base_url, engine, logprobs, ",
        ),
        (["--set", "stages.mix_speakers.offset_mean_s=.nan"], "offset_mean_s: Input should be a finite number"),
        (["--set", "wave_surplus=.inf"], "wave_surplus: Input should be a finite number"),
        (["--set", "stages.mix_speakers.noise_snr_db=[0, .inf]"], "noise_snr_db.1: Input should be a finite number"),
        (["--set", "stages.mix_speakers.offset_mean_s=-11"], "offset_mean_s: Input should be greater than or equal"),
        (["--set", "workers=257"], "workers: Input should be less than or equal to 256"),
        (["--set", "targets.labels={actionable: 100000001}"], "actionable: Input should be less than or equal to"),
        (["--set", "targets.labels={actionable: -1}"], "targets.labels.actionable: Input should be greater than"),
        (["--rows", str(10**30)], f"{10**30} rows are asked for; at most 100000000 can be"),
        (["--seed", str(2**63)], f"seed: Input should be less than or equal to {2**63 - 1}"),
        (["--out", ""], "store '': is empty; name a folder or URL"),
        (["--out", " "], "store ' ': is empty; name a folder or URL"),
        (["--name", "x" * 101], "cannot be a name; use at most 100 letters, digits, dots, hyphens and underscores"),
        (["--set", "stages.mix_speakers.offset_sd_s=-1"], "stages.mix_speakers.offset_sd_s: Input should be greater"),
        (["--set", "partition_rows=many"], "partition_rows: Input should be a valid integer"),
        (["--set", "workers=[1"], "--set 'workers=[1': '[1' is not a YAML value"),
        (["--set", "engines.speech.engine=gramophone"], "engines.speech: Input tag 'gramophone'"),
        (["--set", "engines.writer.engine=openai"], "engines.writer.base_url: Field required"),
        (
            ["--set", "stages.draw_scenarios.scenarios=[small_talk]"],
            "taxonomy 'reference-26' has no small_talk; it has ",
        ),
        (["--set", "stages.draw_scenarios.timings=[]"], "timings: name at least one timing"),
        (["--set", "taxonomy=no/such.yaml"], "taxonomy no/such.yaml: cannot be read (No such file or directory)"),
        (
            ["--set", "pack=no/such"],
            "pack 'no/such': neither a built-in pack (household, reference, strict_primary) nor a folder",
        ),
        (["--set", "targets.labels={urgent: 3}"], "pack 'reference' has no class urgent; it has actionable, ignorable"),
        (["--set", "targets.labels={actionable: 0}"], "targets: labels: one count must be above 0"),
        (
            ["--set", "stages.label_actionability.thresholds={urgent: 0.6}"],
            "stages.label_actionability.thresholds: pack 'reference' has no class urgent; it has actionable, "
            "ignorable, and all but the last may have a threshold",
        ),
        (
            ["--set", "stages.label_actionability.thresholds.ignorable=0.4"],
            "thresholds: ignorable is the last class of pack 'reference', which the judge is not asked about: a row "
            "has it when no other class reaches its threshold; thresholds are for actionable",
        ),
        (
            ["--set", "stages.normalise_queries.languages=[en, tlh]"],
            "stages.normalise_queries.languages: there are no rules for tlh; there are for en",
        ),
        (["--set", "stages.mix_speakers.sampling_rate=1000000"], "sampling_rate: Input should be less than or equal"),
        (["--set", "stages.mix_speakers.sampling_rate=96001"], "above 65535 Hz only in steps of 10 Hz"),
        (["--rows", "10", "--hard-negatives", "11"], "each is the twin of one of the two-speaker rows"),
        (["--grow", "a", "--same-rows-as", "b"], "--grow and --same-rows-as: name one build"),
        (["--same-rows-as", "b", "--rows", "5"], "as many rows as the other; leave out --rows"),
        (["--same-rows-as", "no/such"], "--same-rows-as/--grow (on_top_of) no/such: "),
        (["--grow", "no/latest"], "--same-rows-as/--grow (on_top_of) no/latest: no/latest: nothing was released"),
        (["--rows", "0"], "Invalid value for '--rows': Input should be greater than or equal to 1"),
        (["--rows", "ten"], "Invalid value for '--rows'"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--colour", "red"], "No such option: --colour"),
        (["--name", "../elsewhere"], "build: '../elsewhere' cannot be a name; use at most 100 letters, digits"),
        (["--queries", "no/such.jsonl"], "queries no/such.jsonl: there is no such file"),
        (["--queries", "no/such/*.jsonl"], "no file matches this pattern"),
        (["--out", "telegraph://x/y"], "store telegraph://x/y: cannot be opened"),
        (["--config", "no/such.yaml"], "configuration file no/such.yaml: cannot be read (No such file or directory)"),
    ],
)
def test_mistake_is_one_line(run: Run, store: Path, options: list[str], words: str) -> None:
    out = [] if "--out" in options else ["--out", store]
    line = fail(run, "build", "tpi-train", "--profile", "fake", *out, *options)
    assert words in line
    assert not (store / "tpi-train").exists()


def test_hard_negatives_alone(run: Run, store: Path) -> None:
    options = ["--set", "targets.hard_negatives=1000", "--set", "targets.labels={actionable: 1}", "--rows", "1"]
    line = fail(run, "build", "tpi-train", "--profile", "fake", "--out", store, *options)
    assert "leave no two-speaker row; ask for more rows" in line


@pytest.mark.parametrize(
    ("name", "content", "options", "words"),
    [
        ("empty.jsonl", "", [], "there is no row in them"),
        ("q.docx", "x", [], "unknown format '.docx'"),
        ("q.csv", "question\nPlay a song now.\n", ["--text-column", "speech"], "speech"),
        ("q.csv", "colour,size\nred,3\n", [], "--set queries.text_column=NAME"),
        ("q.parquet", "not parquet", [], "q.parquet"),
    ],
)
def test_bad_query_file_is_named(
    run: Run, store: Path, tmp_path: Path, name: str, content: str, options: list[str], words: str
) -> None:
    queries = tmp_path / name
    queries.write_text(content, "utf-8")
    line = fail(run, "build", "tpi-train", "--profile", "fake", "--out", store, "--queries", queries, *options)
    assert words in line
    assert name in line


@pytest.mark.parametrize("text", ["a: [1, 2", "- just\n- a list\n", "\x00"])
def test_wrong_yaml(run: Run, store: Path, tmp_path: Path, text: str) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(text, "utf-8")
    assert f"configuration file {config}" in fail(run, "build", "tpi-train", "--out", store, "--config", config)


def test_model_that_is_an_empty_file(run: Run, store: Path, tmp_path: Path) -> None:
    model = tmp_path / "some.gguf"
    model.write_bytes(b"")
    options = ["--set", f"engines.writer={{engine: llama_cpp, model: {model}}}"]
    line = fail(run, "build", "tpi-train", "--profile", "fake", "--out", store, *options)
    assert line == f"model {model}: the file is empty"


def test_store_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    line = fail(run, "build", "tpi-train", "--profile", "fake", "--out", tmp_path / "file" / "store")
    assert f"store {tmp_path}/file/store: cannot be written" in line


def test_missing_model_says_how_to_get_it(
    run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYSTANDER_MODELS", str(tmp_path / "models"))
    line = fail(run, "build", "tpi-train", "--profile", "playbook", "--out", store)
    assert "run: bystander models fetch kokoro-v1.0-int8" in line


def test_model_of_no_such_name(run: Run, store: Path) -> None:
    options = ["--set", "engines.writer={engine: llama_cpp, model: gpt-9}"]
    assert "gpt-9" in fail(run, "build", "tpi-train", "--profile", "fake", "--out", store, *options)


@pytest.mark.usefixtures("prefect_server")
def test_failure_within_the_flow_is_one_line_too(run: Run, store: Path, tmp_path: Path) -> None:
    queries = write_queries(tmp_path / "q.jsonl", 0, ("https://example.com",))
    line = fail(run, "build", "tpi-train", "--profile", "fake", "--out", store, "--queries", queries)
    assert "none of the 1 queries can be used; rejected were normalise_queries: url 1" in line


FEW_VOICES = ["--set", "engines.speech.voices=2"]


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            [*FEW_VOICES, "--set", "stages.choose_voices.voices=[fake_00, zoe]"],
            "stages.choose_voices.voices: the speech engine has no voice zoe; it has fake_00, fake_01",
        ),
        (
            [*FEW_VOICES, "--set", "stages.choose_voices.avoid_pairs=[[fake_00, zoe]]"],
            "stages.choose_voices.avoid_pairs: the speech engine has no voice zoe; it has fake_00, fake_01",
        ),
        (
            [*FEW_VOICES, "--set", "stages.choose_voices.avoid_pairs=[[fake_01, fake_00]]"],
            "stages.choose_voices: 2 voices leave no pair to draw",
        ),
    ],
)
def test_what_the_engines_do_not_have_is_said_before_any_work(
    run: Run, store: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    queries = write_queries(tmp_path / "q.jsonl", 3)
    line = fail(run, "build", "tpi-train", "--profile", "fake", "--out", store, "--queries", queries, *options)
    assert words in line
    assert not (store / "cache" / "stages").exists()


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("role", ["writer", "judge"])
def test_key_that_is_not_set(run: Run, store: Path, tmp_path: Path, role: str) -> None:
    queries = write_queries(tmp_path / "q.jsonl", 3)
    with serve_script(answer_well) as server:
        engine = f"{{engine: openai, base_url: '{server.base_url}', model: m, api_key_env: NO_SUCH_KEY}}"
        options = ["--queries", queries, "--rows", 2, "--set", f"engines.{role}={engine}"]
        line = fail(run, "build", "tpi-train", "--profile", "fake", "--out", store, *options)
    assert "set the environment variable NO_SUCH_KEY" in line
    assert not (store / "cache" / "stages").exists()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://127.0.0.1:9/v1", "text engine at http://127.0.0.1:9/v1: cannot be reached (Connection refused)"),
        ("localhost:8000", "text engine at 'localhost:8000': not an address"),
    ],
)
def test_text_engine_that_is_not_there(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch, address: str, words: str
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    option = f"engines.writer={{engine: openai, base_url: '{address}', model: m}}"
    assert words in fail(run, "build", "tpi-train", "--profile", "fake", "--out", store, "--set", option)


@pytest.mark.usefixtures("prefect_server")
def test_build_and_verify(run: Run, store: Path, tmp_path: Path) -> None:
    queries = write_queries(tmp_path / "q.jsonl", 12)
    options = ["--queries", queries, "--rows", 4, "--hard-negatives", 0, "--name", "small", "--seed", 3]
    options += ["--set", "stages.draw_scenarios.scenarios=[endorsement, alignment]", "--set", "report_rows=1"]
    code, out, err = run("build", "tpi-train", "--profile", "fake", "--out", store, *options)
    folder = store / "tpi-train" / "small"
    assert (code, err) == (0, "")
    assert f"{folder}: 4 rows (2 actionable, 2 ignorable)" in out
    assert json.loads((folder / "manifest.json").read_text("utf-8"))["seed"] == 3
    assert run("verify", folder) == (0, f"{folder}: sound.\n", "")
    assert run("verify", "--quick", folder)[0] == 0
    (shard,) = (folder / "data").iterdir()
    shard.write_bytes(shard.read_bytes()[:-1])
    code, out, err = run("verify", folder)
    assert code == 2
    assert f"data/{shard.name}: has " in out
    assert err.startswith(f"{folder}: ")


@pytest.mark.usefixtures("prefect_server")
def test_a_short_build_fails_where_all_rows_are_required(run: Run, store: Path, tmp_path: Path) -> None:
    queries = write_queries(tmp_path / "q.jsonl", 1)
    options = ["--profile", "fake", "--out", store, "--name", "s", "--queries", queries, "--set", "report_rows=0"]
    options += ["--set", "stages.draw_scenarios.scenarios=[alignment, endorsement]", "--hard-negatives", 0]
    code, out, err = run("build", "tpi-train", *options, "--rows", 40, "--require-all")
    folder = store / "tpi-train" / "s"
    assert (folder / "manifest.json").exists()
    assert "Short: label 'actionable': " in out
    short = "actionable 1 of 18, ignorable 1 of 18, 2 of the scenarios"
    assert (code, err) == (1, f"error: {folder}: is published, but short: {short}\n")
    assert run("build", "tpi-train", *options, "--rows", 40)[0] == 0
    there = "targets.labels={actionable: 1, ignorable: 1}"
    assert run("build", "tpi-train", *options, "--set", there, "--require-all")[0] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "stages.synthesise_speech.max_wer=0.1"], "synthesise_speech.max_wer must be 0 in a bench"),
        (["--set", "targets.labels={urgent: 3}"], "pack 'reference' has no class urgent"),
        (["--hard-negatives", "3"], "No such option: --hard-negatives"),
        (["--disjoint-from", "no/such"], "disjoint_from no/such: "),
        (
            ["--set", "stages.choose_voices.use=mine"],
            "stages.choose_voices.use: Input should be 'all', 'rest'",
        ),
    ],
)
def test_mistake_about_a_bench_is_one_line(run: Run, store: Path, options: list[str], words: str) -> None:
    assert words in fail(run, "build", "tpi-bench", "--profile", "fake", "--out", store, *options)
    assert not (store / "tpi-bench").exists()


@pytest.mark.usefixtures("prefect_server")
def test_bench_split_and_verify_against(run: Run, store: Path, tmp_path: Path) -> None:
    queries = write_queries(tmp_path / "q.jsonl", 60)
    common = ["--profile", "fake", "--queries", queries, "--out", store, "--name", "small", "--set", "report_rows=1"]
    assert run("build", "tpi-train", *common, "--rows", 8, "--hard-negatives", 0)[0] == 0
    train, bench = store / "tpi-train" / "small", store / "tpi-bench" / "small"
    code, out, err = run("build", "tpi-bench", *common, "--rows", 10, "--one-speaker", 3, "--disjoint-from", train)
    assert (code, err) == (0, "")
    assert f"{bench}: 8 rows (3 actionable, 3 hard_negative, 2 ignorable)" in out
    assert "Nothing in common with tpi-train/small: no query, no text, no pair of voices." in out
    assert run("verify", bench, "--against", train) == (0, f"{bench}: sound.\n", "")
    code, out, err = run("split", train, "--out", store, "--name", "cut", "--parts", "train=0.5,test=0.5")
    assert (code, err) == (0, "")
    cut = store / "tpi-train" / "cut"
    assert out.startswith(f"{cut}: ")
    assert run("verify", cut) == (0, f"{cut}: sound.\n", "")
    code, out, err = run("verify", cut, "--against", train)
    assert (code, err.startswith(f"{cut}: ")) == (2, True)
    assert " is in tpi-train/small too." in out
    shutil.rmtree(train)
    code, out, err = run("verify", bench)
    assert (code, err) == (0, "")
    assert f"note: not held against tpi-train/small ({train}), which cannot be read: " in out
    assert out.endswith(f"{bench}: sound.\n")
    assert "is missing, so this is not a finished build" in fail(run, "verify", bench, "--against", train)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--name", "x", "--seed", str(2**63)], "Invalid value for '--seed': Input should be less than or equal"),
        (["--name", "x", "--parts", "train"], "--parts 'train': write name=share"),
        (["--name", "x"], "is missing, so this is not a finished build"),
        ([], "Missing option '--name'"),
    ],
)
def test_mistake_about_a_split_is_one_line(run: Run, store: Path, options: list[str], words: str) -> None:
    assert words in fail(run, "split", store / "nothing", "--out", store, *options)


def test_verify_of_what_is_not_there(run: Run, tmp_path: Path) -> None:
    assert fail(run, "verify", tmp_path / "nothing") == f"{tmp_path}/nothing: there is no such folder"


def test_verify_of_what_is_no_build(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("verify", tmp_path)
    assert code == 2
    assert out == "manifest.json: is missing, so this is not a finished build.\n"


def test_doctor_reports_on_every_profile(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BYSTANDER_MODELS", str(tmp_path))
    code, out, err = run("doctor")
    assert (code, err) == (1, "")  # without models, the laptop profile cannot run
    assert "Profile fake: can run" in out
    assert "Profile laptop: cannot run" in out
    assert "bystander models fetch whisper-tiny.en-ct2" in out


def test_version(run: Run) -> None:
    code, out, err = run("--version")
    assert (code, err) == (0, "")
    assert out.startswith("bystander ")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["build", "tpi-bench", "--help"], ["split", "--help"], ["cache", "--help"], ["--version"]]
)
def test_help_is_quick_and_loads_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(arguments=arguments)], capture_output=True, text=True, check=True
    )
    cpu_s, modules = json.loads(done.stdout.splitlines()[-1])
    assert not SLOW_MODULES & set(modules)
    assert cpu_s < 1.0


@pytest.mark.parametrize(("dataset", "own"), [("tpi-train", "hard-negatives"), ("tpi-bench", "one-speaker")])
def test_every_option_of_a_build_is_explained(
    run: Run, monkeypatch: pytest.MonkeyPatch, dataset: str, own: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = run("build", dataset, "--help")
    named = (
        own,
        "profile",
        "queries",
        "text-column",
        "rows",
        "seed",
        "disjoint-from",
        "out",
        "name",
        "workers",
        "config",
        "set",
    )
    assert all(f"--{name}" in out for name in named)


def test_command_alone_shows_its_help(run: Run) -> None:
    code, out, err = run("build")
    assert (code, err) == (2, "")
    assert "tpi-train" in out


@pytest.fixture
def used_store(store: Path) -> Path:
    """A store with half a megabyte of parts that no build uses, and two calls."""
    for name, size in (("kept.parquet", 500_000), ("result.json", 1_000)):
        part = store / "cache" / "stages" / "mix_speakers" / "f1" / name
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(bytes(size))
    calls = SqliteCallCache(store / "cache" / "calls.sqlite")
    calls.put("a", b"1")
    calls.put("b", b"2")
    calls.close()
    return store


def test_cache_is_shown(run: Run, used_store: Path) -> None:
    code, out, err = run("cache", "show", used_store)
    assert (code, err) == (0, "")
    row = next(line for line in out.splitlines() if "mix_speakers" in line)
    assert row.replace("│", " ").split() == ["mix_speakers", "0", "0.0", "1", "0.5"]
    assert "Finished builds: none." in out
    assert "Parts: 0.5 MB, 0.5 MB unused." in out
    assert "Calls: 2, " in out


def test_cache_is_cleaned_and_what_was_freed_is_said(run: Run, used_store: Path) -> None:
    assert run("cache", "clean", used_store, "--yes") == (0, f"{used_store}: 0.5 MB freed.\n", "")
    assert not (used_store / "cache" / "stages" / "mix_speakers" / "f1").exists()
    assert (used_store / "cache" / "calls.sqlite").exists()
    assert run("cache", "clean", used_store, "--calls", "--yes")[0] == 0
    assert not (used_store / "cache" / "calls.sqlite").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "remove unused parts, 0.5 MB? Nobody can be asked here; say --yes"),
        (["--all-parts", "--calls"], "remove all parts and all calls, 0.5 MB? Nobody can be asked"),
        (["--keep-builds", "--all-parts", "--yes"], "--keep-builds and --all-parts: name one of them"),
    ],
)
def test_cleaning_that_is_not_meant_removes_nothing(
    run: Run, used_store: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert words in fail(run, "cache", "clean", used_store, *options)
    assert (used_store / "cache" / "stages" / "mix_speakers" / "f1" / "result.json").exists()
    assert (used_store / "cache" / "calls.sqlite").exists()


def test_cleaning_while_a_build_runs_is_refused(run: Run, used_store: Path) -> None:
    with lock_build(open_store(used_store), "tpi-train", "mine"):
        line = fail(run, "cache", "clean", used_store, "--yes")
    assert f"build tpi-train/mine is being made by process {os.getpid()} on" in line
    assert (used_store / "cache" / "stages" / "mix_speakers" / "f1").exists()


@pytest.mark.parametrize("command", [["show"], ["clean", "--yes"]])
def test_cache_of_what_is_no_store(run: Run, tmp_path: Path, command: list[str]) -> None:
    assert f"{tmp_path}/typo: holds no cache; name the store" in fail(run, "cache", *command, tmp_path / "typo")
    assert list(tmp_path.iterdir()) == []


def test_queries_that_the_web_does_not_have_are_one_line(run: Run, store: Path, tmp_path: Path) -> None:
    with serve_folder(tmp_path) as address:
        asked = f"{address}/none.jsonl?download=true"
        line = fail(run, "build", "tpi-train", "--profile", "fake", "--out", store, "--queries", asked)
    assert line == f"queries {asked}: cannot be fetched (the server answers 404 File not found)"
