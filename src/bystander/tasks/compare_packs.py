"""Two builds of the same requests with two packs, or two versions of one: what the strategy changed, and its cost."""

from __future__ import annotations

from bystander.schemas.errors import BuildError
from bystander.schemas.pack_diff import ComparedSide, PackDiff, Shared
from bystander.tasks.compare_costs import STAGES_OF_TEXTS, compare_costs, compare_rejects
from bystander.tasks.compare_texts import (
    choose_flips,
    choose_least_alike,
    compare_kinds,
    compare_labels,
    compare_replies,
    describe_labels,
    locate_rows,
    match_rows,
)
from bystander.tasks.compared_rows import ComparedBuild, read_compared_build

_FEW_SHARED = 0.5
"""Below this share of the smaller build's rows, a note says how few rows are compared."""


def compare_packs(first: str, second: str, limit: int = 10) -> PackDiff:
    """Return what differs between two finished TPI builds, A and B.

    Rows are the same where their ids are, which come from the request and do not depend on the pack. All rows are
    compared that both builds labelled, whether quotas took them or not, so that quotas do not hide what a pack does.

    Args:
        first: address of A.
        second: address of B.
        limit: examples of flips, and of replies, at most.

    Raises:
        BuildError: an address is not one of a finished TPI build, or the builds have no row in common.
        StorageError: a file of a build cannot be read.
    """
    a, b = read_compared_build(first), read_compared_build(second)
    pairs, shared = match_rows(a.pairs, b.pairs)
    if not shared.ids:
        raise BuildError(
            f"{first} and {second}: have no row in common; packs are compared over builds of the same requests "
            f"({_describe_queries(a)} and {_describe_queries(b)})"
        )
    singles, _ = match_rows(a.singles, b.singles)
    classes = list(dict.fromkeys([*a.manifest.pack.classes, *b.manifest.pack.classes]))
    return PackDiff(
        a=_describe_side(a),
        b=_describe_side(b),
        notes=tuple(_list_notes(a, b, shared)),
        membership_a=locate_rows(a, b),
        membership_b=locate_rows(b, a),
        shared=shared,
        labels=compare_labels(pairs, list(a.manifest.pack.classes), list(b.manifest.pack.classes)),
        kinds=tuple(compare_kinds(pairs, classes)),
        replies=tuple(compare_replies(pairs, singles, classes)),
        rejects=tuple(compare_rejects(a, b)),
        cost=compare_costs(a, b),
        flip_examples=tuple(choose_flips(pairs, limit)),
        reply_examples=tuple(choose_least_alike(pairs, limit)),
    )


def _describe_side(build: ComparedBuild) -> ComparedSide:
    manifest = build.manifest
    return ComparedSide(
        address=build.address,
        dataset=manifest.dataset,
        build=manifest.build,
        seed=manifest.seed,
        pack=manifest.pack.name,
        pack_digest=manifest.pack.digest,
        classes=tuple(manifest.pack.classes),
        published=sum(row.is_published for row in build.pairs.values()),
        labels=describe_labels(build),
    )


def _describe_queries(build: ComparedBuild) -> str:
    path = (build.manifest.config.get("queries") or {}).get("path")
    return str(path or "the starter set of the package")


def _list_notes(a: ComparedBuild, b: ComparedBuild, shared: Shared) -> list[str]:
    """Return what else than the pack may be the cause of a difference, and how far the comparison reaches."""
    notes = []
    if a.manifest.pack.digest == b.manifest.pack.digest:
        notes.append("Both builds have the very same pack: whatever differs comes from elsewhere.")
    if others := _list_other_differences(a, b):
        notes.append(f"Not only the packs may be the cause: {', '.join(others)} differ too.")
    if shared.other_words:
        notes.append(
            f"{shared.other_words:,} of {shared.ids:,} shared rows are written differently, and are not compared."
        )
    smaller = min(len(a.pairs), len(b.pairs))
    if shared.ids < _FEW_SHARED * smaller:
        notes.append(
            f"Only {shared.ids:,} rows are in both builds, of {len(a.pairs):,} and {len(b.pairs):,}: they were not "
            f"made of the same requests ({_describe_queries(a)} and {_describe_queries(b)})."
        )
    if not {*a.manifest.pack.classes} & {*b.manifest.pack.classes}:
        notes.append(
            "The packs have no class of the same name, so every label differs by its name: the table says what became "
            "of what."
        )
    if not shared.compared:
        notes.append("No row has the same texts and a label in both builds, so labels and replies are not compared.")
    return notes


def _list_other_differences(a: ComparedBuild, b: ComparedBuild) -> list[str]:
    one, other = a.manifest, b.manifest
    found = []
    if one.seed != other.seed:
        found.append(f"the seeds ({one.seed} and {other.seed})")
    if one.taxonomy.digest != other.taxonomy.digest:
        found.append("the taxonomies")
    for role in ("writer", "judge"):
        # A build without a judge of its own has the writer judge.
        engines = [m.engines.get(role) or m.engines.get("writer") for m in (one, other)]
        if engines[0] != engines[1]:
            names = " and ".join(f"{e.name} {e.model}" if e is not None else "none" for e in engines)
            found.append(f"the {role}s ({names})")
    settings = [m.config.get("stages", {}) for m in (one, other)]
    for stage in ("draw_scenarios", *STAGES_OF_TEXTS):
        if settings[0].get(stage) != settings[1].get(stage):
            found.append(f"the settings stages.{stage}")
    return found
