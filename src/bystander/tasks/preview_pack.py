"""A prompt pack before any build: its prompts for sample rows and, with engines, its labels and replies."""

from __future__ import annotations

from collections.abc import Sequence

from bystander.prompts.load import load_pack
from bystander.schemas.config import TpiConfig
from bystander.schemas.engines import EngineRole
from bystander.schemas.errors import InputError
from bystander.schemas.pack_preview import PackAnswers, PackPreview, PreviewedClass, SampleRow
from bystander.schemas.packs import PackClass
from bystander.schemas.plan import load_assumptions
from bystander.schemas.stage_job import StageJob
from bystander.schemas.taxonomy import load_taxonomy
from bystander.storage.build_manifest import read_manifest
from bystander.tasks.ask_pack import ask_pack
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.preview_rows import open_build_of_rows, read_sample_rows
from bystander.tasks.render_prompts import render_prompts


def preview_pack(
    pack: str,
    *,
    rows_from: str | None = None,
    limit: int = 2,
    task: str | None = None,
    scenario: str | None = None,
    shown_class: str | None = None,
    config: TpiConfig | None = None,
    seed: int | None = None,
    against: Sequence[str] = (),
) -> PackPreview:
    """Return the prompts of a pack for sample rows and, with a configuration, what its engines make of the rows.

    Args:
        pack: name of a built-in pack, or its address as for `load_pack`.
        rows_from: a finished build, a file of rows (see `read_sample_rows`), or None for the package's own.
        limit: rows at most.
        task: only the prompts of this task.
        scenario: only rows of this scenario.
        shown_class: only the prompts of this class.
        config: whose engines, settings, taxonomy and store (with its cache of calls) are used; None asks no engine.
        seed: of what is random; by default the build's that the rows are of, else the configuration's.
        against: packs that are asked for the same rows.

    Raises:
        UserError: a pack, the rows or a choice of them is wrong, or an engine cannot be opened.
        EngineError: an engine failed as a whole.
    """
    if limit < 1:
        raise InputError(f"--limit {limit}: at least one row has to be shown")
    loaded = load_pack(pack)
    # Equal packs would be asked twice for the same replies.
    others = [other for other in map(load_pack, against) if other.digest != loaded.digest] if config else []
    taxonomy = load_taxonomy(config.taxonomy if config is not None else None)
    build = open_build_of_rows(rows_from) if rows_from is not None else None
    if seed is None:
        seed = read_manifest(build).seed if build is not None else config.seed if config is not None else 0
    rows = read_sample_rows(build or rows_from, taxonomy, scenario, limit, seed)
    assumptions = load_assumptions()
    prompts = render_prompts(loaded, taxonomy, rows, assumptions, task, shown_class)
    engines: dict[str, str] = {}
    answers: list[PackAnswers] = []
    if config is not None:
        # All packs are asked under the job of the one that is looked at: only the prompts differ.
        job = StageJob.of(config.model_copy(update={"seed": seed, "pack": pack}))
        environment = StageEnvironment(job)
        try:
            answers = [ask_pack(rows, one, environment) for one in (loaded, *others)]
            engines = {role: _name_engine(environment, role) for role in ("writer", "judge")}
        finally:
            environment.close()
    return PackPreview(
        pack=loaded.name,
        digest=loaded.digest,
        description=loaded.description,
        language=loaded.language,
        classes=tuple(_describe_class(item) for item in loaded.classes),
        rows=tuple(rows),
        rows_from=_describe_source(rows_from, rows),
        prompts=tuple(prompts),
        tokens_per_character=assumptions.tokens_per_character,
        engines=engines,
        answers=tuple(answers),
    )


def _describe_class(item: PackClass) -> PreviewedClass:
    return PreviewedClass(
        key=item.key,
        criteria=item.criteria,
        policy=item.policy,
        kinds={kind.key: kind.definition for kind in item.kinds},
        mentions="must" if item.requires_mention else "may" if item.mentions_third_party else "never",
    )


def _describe_source(rows_from: str | None, rows: Sequence[SampleRow]) -> str:
    return f"{rows_from or 'samples of the package'}, {len(rows)} rows"


def _name_engine(environment: StageEnvironment, role: EngineRole) -> str:
    identity = environment.engine(role).identity
    return f"{identity.name} {identity.model}".strip()
