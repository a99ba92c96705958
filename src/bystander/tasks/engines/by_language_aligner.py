"""One aligner for each language, as one aligner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bystander.schemas.alignment import Aligner, AlignmentReply, AlignmentRequest
from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.identity import digest_json


class ByLanguageAligner:
    """Hands each request to the aligner of its language, all requests of a language at once; it closes them too."""

    def __init__(self, aligners: Mapping[str, Aligner]) -> None:
        """Take the aligners by primary language subtag.

        Raises:
            EngineSetupError: there is none, or one has no model of the language that it is to align.
        """
        if not aligners:
            raise EngineSetupError("by_language: name at least one aligner")
        for language, aligner in aligners.items():
            if language not in aligner.languages:
                raise EngineSetupError(
                    f"by_language: {aligner.identity.name} aligns {', '.join(sorted(aligner.languages))}, "
                    f"not {language}"
                )
        self._aligners = dict(sorted(aligners.items()))

    @property
    def identity(self) -> EngineIdentity:
        identities = {language: aligner.identity for language, aligner in self._aligners.items()}
        return EngineIdentity(
            kind="aligner",
            name="by_language",
            model=", ".join(f"{language}: {identity.name}" for language, identity in identities.items()),
            revision=digest_json([[language, identity.digest()] for language, identity in identities.items()]),
            settings=tuple(
                (f"{language}.{key}", value)
                for language, identity in identities.items()
                for key, value in (
                    ("name", identity.name),
                    ("model", identity.model),
                    ("revision", identity.revision),
                    *identity.settings,
                )
            ),
        )

    @property
    def languages(self) -> frozenset[str]:
        return frozenset(self._aligners)

    def align(self, requests: Sequence[AlignmentRequest]) -> list[AlignmentReply | RowFault]:
        """Align the requests; each reply names the aligner that made it.

        Row faults: `language_not_aligned`, and those of the aligners.

        Raises:
            EngineError: one of the aligners failed.
        """
        replies: list[AlignmentReply | RowFault] = [
            RowFault(
                "language_not_aligned", f"there are aligners of {', '.join(self._aligners)}, not {request.language}"
            )
            for request in requests
        ]
        for language, aligner in self._aligners.items():
            places = [i for i, request in enumerate(requests) if request.language.split("-")[0].lower() == language]
            if not places:
                continue
            name = aligner.identity.name
            for place, reply in zip(places, aligner.align([requests[i] for i in places]), strict=True):
                if isinstance(reply, AlignmentReply) and reply.aligner is None:
                    reply = replace(reply, aligner=name)
                replies[place] = reply
        return replies

    def close(self) -> None:
        for aligner in self._aligners.values():
            aligner.close()
