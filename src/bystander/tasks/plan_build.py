"""`bystander plan`: what a build will take, before anyone pays for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bystander.prompts.load import load_pack
from bystander.schemas.config import TpiConfig
from bystander.schemas.errors import InputError
from bystander.schemas.plan import BuildMeasures, PlanAssumptions, PlanReport, load_assumptions
from bystander.schemas.taxonomy import load_taxonomy
from bystander.storage.build_measures import measure_build
from bystander.storage.query_files import read_queries
from bystander.storage.releases import open_build
from bystander.tasks.plan_costs import (
    Resources,
    add_gpu_hours,
    combine,
    count_tracks,
    measure_wall_clock,
    plan_calls,
    plan_roles,
)
from bystander.tasks.plan_rows import PlannedRows, estimate, simulate_builds
from bystander.tasks.plan_texts import list_example_texts, measure_prompts
from bystander.tasks.stages import HARD_NEGATIVE_STAGES, PAIR_STAGES
from bystander.tasks.stages.strata import choose_scenarios

MAX_TASK_RUN_SHARE = 0.01
"""Prefect is asked for at most so many task runs a row: each costs it some milliseconds and a row of its database."""
_FEW_ROWS = 10_000
"""Builds of fewer rows are not held to that: whatever they take is little."""
_SAMPLE_REQUESTS = 8
_SAMPLE_TEXTS = 100
_SEARCH_SIMULATIONS = 20


def plan_build(config: TpiConfig, measured_in: str | None, given: Resources) -> PlanReport:
    """Return what a TPI build will take. No engine is opened and no server asked.

    Args:
        config: what is to be built.
        measured_in: folder or URL of a finished TPI-Train build, whose yields and lengths are taken.
        given: the user's own rates, devices and price.

    Raises:
        UserError: the queries, the taxonomy, the pack or the finished build cannot be read.
    """
    assumptions = load_assumptions()
    taxonomy = load_taxonomy(config.taxonomy)
    pack = load_pack(config.pack)
    scenarios = choose_scenarios(config.stages.draw_scenarios, taxonomy)
    measures, texts = assumptions.measures, list_example_texts(taxonomy)
    if measured_in is not None:
        floor = config.stages.build_hard_negatives.min_ambiguity
        measures, texts = measure_build(open_build(measured_in), floor)
    builds = simulate_builds(config, measures, [scenario.key for scenario in scenarios])
    requests, requests_there = _sample_requests(config)
    prompts = measure_prompts(pack, taxonomy, scenarios, requests, texts[:_SAMPLE_TEXTS])
    calls = plan_calls(config, pack, measures, builds, prompts, assumptions, given.thinking_tokens)
    spoken_s = combine(builds, lambda build: count_tracks(config, measures, build)[1])
    roles = plan_roles(config, calls, spoken_s, assumptions, given)
    hours, slowest = measure_wall_clock(roles)
    busy, held = add_gpu_hours(roles, hours)
    rows = config.targets.pairs + config.targets.hard_negatives
    row_s = (measures.primary_characters + measures.third_party_characters) * measures.speech_s_per_character
    draws = min(config.stages.draw_scenarios.draws_per_query, len(scenarios))
    usable = measures.yields.get("normalise_queries")
    per_request = draws * (usable.share if usable is not None else 1.0)
    task_runs = combine(builds, lambda build: build.task_runs)
    report = PlanReport(
        dataset=config.dataset,
        profile=config.profile,
        rows=rows,
        yields_from=measures.source,
        candidates=combine(builds, lambda build: build.candidates),
        requests=combine(builds, lambda build: build.candidates / per_request),
        requests_there=requests_there,
        waves=combine(builds, lambda build: build.waves),
        stages={name: estimate([build.stages[name] for build in builds]) for name in _list_stages(builds)},
        calls=tuple(calls),
        roles=tuple(roles),
        tracks=combine(builds, lambda build: count_tracks(config, measures, build)[0]),
        spoken_hours=combine(builds, lambda build: count_tracks(config, measures, build)[1] / 3600),
        published_hours=combine(builds, lambda build: min(rows, _count_finished(build)) * row_s / 3600),
        cache_gb=combine(
            builds,
            lambda build: (
                (
                    build.kept["synthesise_speech"] * row_s * assumptions.track_bytes_per_s
                    + build.kept["mix_speakers"] * row_s * measures.flac_bytes_per_s
                    + count_tracks(config, measures, build)[1] * measures.flac_bytes_per_s
                )
                / 1e9
            ),
        ),
        shards_gb=combine(
            builds, lambda build: min(rows, _count_finished(build)) * row_s * measures.flac_bytes_per_s / 1e9
        ),
        rejects_gb=combine(builds, lambda build: _measure_rejects(build, rows, row_s, measures, assumptions) / 1e9),
        partition_mb=config.partition_rows * row_s * (assumptions.track_bytes_per_s + measures.flac_bytes_per_s) / 1e6,
        task_runs=task_runs,
        task_run_share=task_runs.expected / rows,
        hours=hours,
        slowest=slowest,
        gpu_hours=busy,
        gpu_hours_held=held,
        price_per_gpu_hour=given.price_per_gpu_hour,
        assumptions=_list_assumptions(assumptions),
    )
    return report.model_copy(update={"warnings": tuple(_list_warnings(config, measures, report, builds))})


def _sample_requests(config: TpiConfig) -> tuple[list[str], int]:
    """Return some requests of the source that are short enough to be used, and how many requests it has.

    Raises:
        InputError: it has none.
    """
    longest = config.stages.normalise_queries.max_characters
    sample: list[str] = []
    count = 0
    for table in read_queries(config.queries):
        count += len(table)
        if len(sample) < _SAMPLE_REQUESTS:
            sample += [text for text in table["query_text"].to_pylist() if text and len(text) <= longest]
    if not sample:
        raise InputError(f"{config.queries.path}: none of the {count} requests has 1 to {longest} characters")
    return sample[:_SAMPLE_REQUESTS], count


def _list_stages(builds: Sequence[PlannedRows]) -> list[str]:
    order = list(dict.fromkeys((*PAIR_STAGES, *HARD_NEGATIVE_STAGES)))
    return [name for name in order if any(build.stages[name] for build in builds)]


def _count_finished(build: PlannedRows) -> int:
    return build.finished_pairs + build.finished_singles


def _measure_rejects(
    build: PlannedRows, rows: int, row_s: float, measures: BuildMeasures, assumptions: PlanAssumptions
) -> float:
    """Return the bytes of rejects that have audio: surplus rows with their clip, and rows lost after speech."""
    surplus = max(0, _count_finished(build) - rows)
    lost = build.kept["synthesise_speech"] - _count_finished(build)
    return row_s * (surplus * measures.flac_bytes_per_s + max(0, lost) * assumptions.track_bytes_per_s)


def _list_assumptions(assumptions: PlanAssumptions) -> tuple[str, ...]:
    return tuple(f"{name.replace('_', ' ')}: {words}" for name, words in assumptions.sources.items())


def _list_other_engines(config: TpiConfig, measures: BuildMeasures) -> list[str]:
    """Return the roles whose engine was another one where the figures were measured, with what it was."""
    differing = []
    for role, engine in config.engines:
        asked = engine if engine is not None else config.engines.writer
        measured = measures.engines.get(role)
        if measured is not None and (
            asked.engine != measured.split()[0] or getattr(asked, "model", "") not in measured
        ):
            differing.append(f"{role}: {measured}")
    return differing


def _list_warnings(
    config: TpiConfig, measures: BuildMeasures, report: PlanReport, builds: Sequence[PlannedRows]
) -> Iterator[str]:
    if differing := _list_other_engines(config, measures):
        yield f"the yields, {measures.source}, are those of other engines ({'; '.join(differing)})"
    if measures.labels and not set(measures.labels) & set(config.targets.labels):
        yield (
            f"the yields, {measures.source}, are those of a pack with other classes "
            f"({', '.join(sorted(measures.labels))}): {', '.join(config.targets.labels)} are taken for equally frequent"
        )
    if report.requests.expected > report.requests_there:
        source = config.queries.path or "the starter set"
        yield (
            f"{report.requests.expected:,.0f} requests are needed, and {source} has {report.requests_there:,}: the "
            "build would end short; name more with --queries"
        )
    if report.rows >= _FEW_ROWS and report.task_run_share >= MAX_TASK_RUN_SHARE:
        yield _advise_partitions(config, measures, report)
    short = sum(build.short for build in builds)
    if short:
        yield (
            f"{short} of {len(builds)} simulated builds ended short after max_waves={config.max_waves} waves: a stage "
            "or a label yields next to nothing"
        )
    missing = [role.role for role in report.roles if role.hours is None]
    if missing:
        yield f"no rate is known of the {' and the '.join(missing)}: without it there are no hours; see --rate"


def _advise_partitions(config: TpiConfig, measures: BuildMeasures, report: PlanReport) -> str:
    """Name the smallest power of two that keeps Prefect's task runs below their share, if there is one."""
    share = f"{report.task_run_share:.1%} of the rows are task runs (at most {MAX_TASK_RUN_SHARE:.0%} should be)"
    taxonomy = load_taxonomy(config.taxonomy)
    scenarios = [item.key for item in choose_scenarios(config.stages.draw_scenarios, taxonomy)]
    size = config.partition_rows
    while size < report.candidates.expected:
        size = 1 << size.bit_length()
        larger = config.model_copy(update={"partition_rows": size})
        builds = simulate_builds(larger, measures, scenarios, _SEARCH_SIMULATIONS)
        if combine(builds, lambda build: build.task_runs).expected < MAX_TASK_RUN_SHARE * report.rows:
            return f"{share}; partition_rows={size} would do"
    return f"{share}; so few rows take no fewer, whatever partition_rows is"
