"""Makes the script sheet of a recording session from a finished TPI build."""

from __future__ import annotations

import pyarrow as pa

from bystander.pages.session_sheet import render_session_sheet
from bystander.schemas.errors import InputError
from bystander.schemas.recording_session import SessionPlan, SessionSheet
from bystander.storage.build_manifest import digest_rows, read_manifest
from bystander.storage.filesystem import open_store
from bystander.storage.releases import open_build
from bystander.storage.session_files import write_session
from bystander.storage.shard_rows import read_without_audio
from bystander.tasks.session.plan_takes import choose_prefix, plan_takes


def make_sheet(build: str, out: str, plan: SessionPlan) -> SessionSheet:
    """Write the sheet of a session (`sheet.html`, `sheet.csv`, `session.json`) to a folder, and return it.

    The same build and plan give the same files.

    Raises:
        BuildError: `build` is no finished TPI build.
        InputError: it has no two-speaker row, or none of a scenario that the plan names.
        StorageError: a file cannot be read or written.
    """
    source = open_build(build)
    manifest = read_manifest(source)
    rows = pa.concat_tables(list(read_without_audio(source, manifest.shards))).to_pylist() if manifest.shards else []
    pairs = [row for row in rows if row["n_speakers"] == 2]
    if not pairs:
        raise InputError(f"{build}: has no two-speaker row to record; name another build")
    known = {str(row["scenario"]) for row in pairs}
    if unknown := sorted({*plan.scenarios} - known):
        raise InputError(
            f"{build}: has no two-speaker row of the scenario {', '.join(unknown)}; it has {', '.join(sorted(known))}"
        )
    digest = digest_rows(manifest)
    prefix = choose_prefix(digest, plan)
    sheet = SessionSheet(
        prefix=prefix,
        build=f"{manifest.dataset}/{manifest.build}",
        rows_digest=digest,
        build_facts=manifest.model_dump(mode="json", include={"pack", "taxonomy", "engines", "seed"}),
        plan=plan,
        takes=tuple(plan_takes(pairs, plan, prefix)),
    )
    write_session(open_store(out), sheet, render_session_sheet(sheet))
    return sheet
