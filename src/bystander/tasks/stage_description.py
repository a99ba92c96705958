"""What decides a stage's results besides its rows: the fields of its fingerprint, also kept in the build's manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import digest_json
from bystander.schemas.packs import PackClass
from bystander.schemas.stages import Stage
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stages import get_stage
from bystander.tasks.stages.text_rules import is_telling


def describe_stage(stage: Stage, environment: StageEnvironment) -> dict[str, Any]:
    """Return all that decides a stage's results besides its rows: the fields of its fingerprint.

    Raises:
        ConfigError: a folder of the user's is missing, or a file in it cannot be read.
    """
    params = environment.params_of(stage)
    return {
        "stage": stage.name,
        "version": stage.version,
        "build_seed": environment.job.build_seed,
        "params": params.model_dump(mode="json"),
        "files": [[name, _hash_file(path)] for name, path in stage.list_files(params)] if stage.list_files else [],
        "engines": {role: engine.identity.describe() for role, engine in environment.engines_of(stage).items()},
        "prompts": {task: environment.pack.describe_task(task) for task in stage.text_tasks},
        "classes": _describe_classes(environment.pack.classes, stage),
        "taxonomy": environment.taxonomy.digest() if stage.uses_taxonomy else None,
        "exclusions": environment.exclusions_of(stage).digest,
    }


def describe_once(stage: Stage, environment: StageEnvironment) -> dict[str, Any]:
    """Return what `describe_stage` does, found out once a build: nothing in it may change while a build is made."""
    known = environment.descriptions
    return (
        known[stage.name] if stage.name in known else known.setdefault(stage.name, describe_stage(stage, environment))
    )


def describe_stages(names: Iterable[str], environment: StageEnvironment) -> dict[str, dict[str, Any]]:
    """Return the description of each stage, by its name, for a build's manifest."""
    return {name: describe_once(get_stage(name), environment) for name in names}


def digest_parts(described: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of each field of a description, of each engine apart."""
    parts = {name: value for name, value in described.items() if name != "engines"}
    parts.update({f"the engine of role {role}": identity for role, identity in described.get("engines", {}).items()})
    return {name: digest_json(value) for name, value in parts.items()}


def _describe_classes(classes: Sequence[PackClass], stage: Stage) -> list[dict[str, Any]]:
    if stage.class_fields:
        return [_describe_class(item, stage.class_fields) for item in classes]
    # Everyday words may be said even where they are keys of classes.
    return [{"key": item.key} for item in classes if is_telling(item.key)] if stage.checks_leaks else []


def _describe_class(item: PackClass, fields: Sequence[str]) -> dict[str, Any]:
    described = item.model_dump(mode="json", include={*fields})
    if "kinds" in described:
        described["kinds"] = [kind.key for kind in item.kinds]
    return described


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read ({exc.strerror})") from exc
