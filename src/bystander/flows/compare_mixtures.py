"""The experiment with mixtures: rows into memory, models trained and scored, results written.

It runs in this process, without Prefect: nothing in it is shared out, and all of it takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bystander.flows.replaced_outcome import tell_replaced
from bystander.flows.training_packages import load_packages
from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.evaluation_scores import BenchInfo
from bystander.schemas.identity import digest_json
from bystander.schemas.mixture_config import CompareMixturesConfig
from bystander.schemas.mixture_results import DataInfo, MixtureResults
from bystander.schemas.training_config import TRAINED
from bystander.storage.build_lock import lock_build
from bystander.storage.build_manifest import REPORT_NAME, get_code_version, list_package_versions
from bystander.storage.filesystem import open_store
from bystander.storage.mixture_files import PACKAGES, TABLES_NAME, find_results, write_results
from bystander.storage.model_store import ModelStore
from bystander.tasks.training.row_index import RowIndex

Tell = Callable[[str], None]
_VERSION = 2
"""Raised when the same content would give other results."""
_NOTES = (
    "In `base` every row has two speakers, so that its model has nothing to learn about when nobody cuts in: it says "
    "that somebody does, whatever it perceives, as the paper's does on most rows.",
    "Builds refuse rows in which their own speaker encoder does not hear what it should. Where that encoder makes the "
    "frames (`speaker_windows`), the bench is easier by ear than real clips are.",
    "Intervals over seeds are about another start of the training, not about other rows.",
)


@dataclass(frozen=True, slots=True)
class MixturesOutcome:
    """A finished experiment: where it is, and what it found."""

    location: str
    results: MixtureResults
    reused: bool


def check_compare_mixtures(config: CompareMixturesConfig) -> None:
    """Find what is wrong with a configuration before anything is read.

    Raises:
        ConfigError: data, bench, or what a mixture needs is not named.
        EngineSetupError: torch or transformers is missing.
    """
    if not config.data:
        raise ConfigError("data: name a finished TPI-Train build with --data")
    if not config.bench:
        raise ConfigError("bench: name a finished TPI-Bench build with --bench")
    if not config.mixtures or not config.inputs:
        raise ConfigError("mixtures, inputs: name at least one of each")
    if not config.dyadic and set(config.mixtures) != {"base"}:
        raise ConfigError("dyadic: mixtures other than base need requests of one speaker; name them with --dyadic")
    load_packages()


def compare_mixtures(config: CompareMixturesConfig, tell: Tell = lambda _: None) -> MixturesOutcome:
    """Train the two-input model on each mixture with each seed, score it, and write `trained/<name>` of the store.

    Raises:
        UserError: the configuration, a build or dyadic Parquet is wrong, or a package or model is missing.
        BuildError: a build is damaged, or another process is making this experiment.
        StorageError: something cannot be read or written.
    """
    check_compare_mixtures(config)
    from bystander.pages.training_report import render_training_report
    from bystander.tasks.training.mixture_experiment import run_experiment
    from bystander.tasks.training.mixture_tables import format_tables
    from bystander.tasks.training.report_mixtures import describe_mixtures
    from bystander.tasks.training.spliced_rows import perceive_spliced
    from bystander.tasks.training.two_input_shards import index_rows, perceive_rows
    from bystander.tasks.training.two_input_sound import open_sound_front

    store = open_store(config.store)
    trained = index_rows(config.data, config.dyadic)
    bench = index_rows((config.bench,), config.bench_dyadic, to_train_on=False)
    content_digest = digest_json([_VERSION, config.content_digest(), _digest(trained), _digest(bench)])
    name = config.training_name
    folder = store.child(TRAINED, name)
    with lock_build(store, TRAINED, name):
        found = find_results(folder, content_digest)
        if found is not None:
            tell("nothing new: these results were found from just this")
            return MixturesOutcome(folder.uri, found, True)
        tell_replaced(folder, tell)
        front = open_sound_front(config.model, ModelStore().resolve)
        tell(f"reading {len(trained)} rows to train on and {len(bench)} to be scored")
        rows, bench_rows = perceive_rows(trained, front), perceive_rows(bench, front)
        spliced = perceive_spliced(bench, bench_rows, front, config.seed)
        findings = run_experiment(config, trained, rows, bench_rows, spliced, tell)
        results = MixtureResults(
            name=name,
            content_digest=content_digest,
            confidence=config.confidence,
            seeds=config.seed_list,
            bench=_describe_bench(bench, [row.twin_id for row in bench_rows if row.two_speakers]),
            data=(*_describe(trained), *_describe(bench, bench=True)),
            model=config.model.model_dump(mode="json"),
            rows=findings.rows,
            runs=findings.runs,
            summaries=findings.summaries,
            comparisons=findings.comparisons,
            confounds=findings.confounds,
            projections=findings.projections,
            separations=findings.separations,
            swaps=findings.swaps,
            swap_comparisons=findings.swap_comparisons,
            spliced=findings.spliced,
            notes=(*_NOTES, *findings.notes),
            code_version=get_code_version(),
            packages=list_package_versions(PACKAGES),
        )
        settings = config.model_dump(mode="json")
        page = render_training_report(describe_mixtures(results, settings))
        write_results(folder, results, settings, {TABLES_NAME: format_tables(results), REPORT_NAME: page})
    return MixturesOutcome(folder.uri, results, False)


def _digest(index: RowIndex) -> list[str]:
    return [source.rows_digest for source in index.sources]


def _describe(index: RowIndex, bench: bool = False) -> list[DataInfo]:
    """Return what is told of sources; of a bench, of its dyadic ones only."""
    uses = {"tpi": None if bench else "tpi", "dyadic": "bench_dyadic" if bench else "dyadic"}
    return [
        DataInfo(uri=source.address, use=uses[source.kind], content_digest=source.rows_digest, rows=source.rows)
        for source in index.sources
        if uses.get(source.kind)
    ]


def _describe_bench(index: RowIndex, twins: Sequence[str | None]) -> BenchInfo:
    source = next((source for source in index.sources if source.kind == "tpi"), None)
    if source is None:
        raise InputError("bench: names no build; name a finished TPI-Bench build with --bench")
    parts = index.rows["part"].to_pylist()
    ids = set(index.rows["id"].to_pylist())
    return BenchInfo(
        uri=source.address,
        dataset=source.dataset,
        build=source.build,
        content_digest=source.rows_digest,
        rows={"tpi_test": parts.count("two_speaker"), "janus_test": parts.count("hard_negative")},
        linked_pairs=sum(twin in ids for twin in twins),
    )
