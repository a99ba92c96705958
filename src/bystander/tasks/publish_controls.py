"""Measures the controls of a finished build, keeps them beside it as `controls.json`, and puts them on its card."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq

from bystander.prompts.load import load_pack
from bystander.schemas.engines import EngineIdentity
from bystander.schemas.errors import BuildError, CorruptPartError
from bystander.schemas.evaluate_config import ControlsConfig
from bystander.schemas.evaluation import BENCH_ROW
from bystander.schemas.evaluation_scores import BuildControls, RaterInfo
from bystander.schemas.text_engine_configs import TextEngineConfig
from bystander.storage.build_manifest import (
    BuildManifest,
    get_code_version,
    list_package_versions,
    read_manifest,
)
from bystander.storage.card_parts import CARD_NAME
from bystander.storage.control_section import CONTROLS_NAME, place_section, render_controls
from bystander.storage.filesystem import Store
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.registry import open_text_engine, open_verifier
from bystander.tasks.evaluation_controls import measure_controls
from bystander.tasks.metrics.bootstrap import LEVEL

_PACKAGES = ("numpy", "onnxruntime", "scikit-learn", "scipy")
_COLUMNS = [*(name for name in BENCH_ROW.names if name != "test"), "query_id"]
_SAME_VERIFIER = (
    "the build's own verifier, which refused rows that it could not tell apart: a check of the finished clips, not "
    "the chances of another listener"
)


def publish_controls(
    build: Store,
    config: ControlsConfig,
    seed: int = 0,
    judges: Mapping[str, TextEngineConfig] | None = None,
    pack: str = "reference",
    confidence: float = LEVEL,
) -> BuildControls:
    """Measure a build's controls, write `controls.json`, and give its card the section.

    The build's shards, manifest and checksums stay as they are. The clips of all rows are held in memory.

    Args:
        build: the build's folder.
        config: which controls; see `measure_controls`.
        seed: decides folds, calls and resamples.
        judges: asked if `config.transcript_judges`.
        pack: has the task `score_ambiguity`.
        confidence: probability that the intervals cover, in (0, 1).

    Raises:
        BuildError: the folder is no finished build, or its card is missing.
        CorruptPartError: a shard cannot be read.
        EngineError: an engine cannot be opened, or failed.
    """
    manifest = read_manifest(build)
    if not build.exists(CARD_NAME):
        raise BuildError(f"{build.uri_of(CARD_NAME)}: is missing; build again to have it written")
    loaded = load_pack(pack) if config.transcript_judges else None
    rows = _read_rows(build, manifest)
    store = ModelStore()
    with ExitStack() as stack:
        verifier = None
        opened = {}
        if config.verifier is not None:
            verifier = open_verifier(config.verifier, store.resolve)
            stack.callback(verifier.close)
        if config.transcript_judges:
            for name, judge_config in (judges or {}).items():
                opened[name] = open_text_engine(judge_config, store.resolve)
                stack.callback(opened[name].close)
        controls = measure_controls(rows, config, seed, verifier, opened, loaded, confidence=confidence)
        identities = {name: judge.identity for name, judge in opened.items()}
        if verifier is not None:
            identities["verifier"] = verifier.identity
    if verifier is not None and _made_the_build(manifest, verifier.identity):
        controls = tuple(
            control.model_copy(update={"note": "; ".join(filter(None, (control.note, _SAME_VERIFIER)))})
            if control.hears
            else control
            for control in controls
        )
    found = BuildControls(
        dataset=manifest.dataset,
        build=manifest.build,
        content_digest=manifest.content_digest,
        rows=len(rows),
        seed=seed,
        confidence=confidence,
        pack=loaded.name if loaded is not None else None,
        pack_digest=loaded.digest if loaded is not None else None,
        engines=tuple(RaterInfo(name=name, identity=found.describe()) for name, found in identities.items()),
        controls=controls,
        code_version=get_code_version(),
        packages=list_package_versions(_PACKAGES),
    )
    build.write_bytes(CONTROLS_NAME, found.model_dump_json(indent=2).encode() + b"\n")
    card = build.read_bytes(CARD_NAME).decode()
    build.write_bytes(CARD_NAME, place_section(card, render_controls(controls, confidence)).encode())
    return found


def _read_rows(build: Store, manifest: BuildManifest) -> pa.Table:
    tables = []
    for shard in manifest.shards:
        with build.open_read(shard.file) as source:
            try:
                with pq.ParquetFile(source) as part:
                    tables.append(part.read(columns=_COLUMNS).select(_COLUMNS))
            except (pa.ArrowException, OSError, KeyError) as exc:
                raise CorruptPartError(
                    f"{build.uri_of(shard.file)}: is no shard of TPI rows ({str(exc).splitlines()[0]}); "
                    "see bystander verify",
                    shard.file,
                ) from exc
    if not tables:
        raise BuildError(f"{build.uri}: the manifest lists no shards")
    return pa.concat_tables(tables)


def _made_the_build(manifest: BuildManifest, identity: EngineIdentity) -> bool:
    own = manifest.engines.get("verifier")
    return own is not None and own.model_dump() == identity.describe()
