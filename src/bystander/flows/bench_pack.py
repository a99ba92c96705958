"""Whose strategy a bench is judged by: the pack that is named, else the one that it was built with."""

from __future__ import annotations

from bystander.prompts.load import LoadedPack, load_pack
from bystander.schemas.errors import ConfigError, PackError
from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.storage.bench_rows import open_bench
from bystander.storage.build_manifest import BuildManifest


def judge_by_bench_pack(config: EvaluateTpiConfig) -> EvaluateTpiConfig:
    """Return an evaluation's configuration with its pack named, as `choose_pack` does.

    Raises: as `choose_pack`.
    """
    return config.model_copy(update={"pack": choose_pack(config)})


def choose_pack(config: EvaluateTpiConfig) -> str:
    """Return name or folder of the pack that an evaluation judges by: the bench's, where the configuration names none.

    The bench's manifest names it twice, as its configuration did (a name, or a folder that may be elsewhere by now) and
    as the pack calls itself. Of what loads, the one with the bench's digest is taken, else the first that has the name.

    Raises:
        InputError: no bench is named.
        BuildError: the bench is no finished build.
        ConfigError: its pack cannot be found here.
    """
    if config.pack is not None:
        return config.pack
    _, manifest = open_bench(config.bench)
    return _find_pack(manifest, config.bench)


def _find_pack(manifest: BuildManifest, bench: str) -> str:
    built = manifest.pack
    found: dict[str, LoadedPack] = {}
    faults = []
    for source in dict.fromkeys((str(manifest.config.get("pack") or built.name), built.name)):
        try:
            found[source] = load_pack(source)
        except PackError as exc:
            faults.append(str(exc))
    by_digest = [source for source, pack in found.items() if pack.digest == built.digest]
    by_name = [source for source, pack in found.items() if pack.name == built.name]
    for source in (*by_digest, *by_name):
        return source
    raise ConfigError(
        f"bench {bench}: was built with pack {built.name} (digest {built.digest[:12]}), which is not found here "
        f"({'; '.join(faults) or f'{next(iter(found))} is another pack'}); name its folder, or the pack to judge by, "
        "with --pack"
    )
