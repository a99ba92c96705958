"""One speaker of a source: which clips are usable, are they one speaker's, and which makes the reference."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import EmbeddingRequest, RowFault, Samples, SpeakerVerifier
from bystander.schemas.identity import make_rng
from bystander.schemas.recordings import AudioDecoder, Channels, DecodeRequest
from bystander.schemas.voice_bank_config import IndexVoices
from bystander.storage.voice_sources import SourceClip, SourceSpeaker, order_clips
from bystander.tasks.audio.channel_separation import correlate_channels
from bystander.tasks.audio.coding import encode_flac
from bystander.tasks.audio.levels import measure_peak
from bystander.tasks.audio.reference_clip import find_stretch, join_stretches, take_middle
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.speech_quality import SpeechQuality, measure_quality
from bystander.tasks.audio.trimming import FADE_S, fade_edges

_STEP = "index_voices"
_LEAST_CORRELATION = 0.5
_LEAST_SPEAKER_SHARE = 0.5


@dataclass(slots=True)
class IndexedSpeaker:
    """What became of a speaker: a `BANK_VOICE` row without source, licence and language, or none, and rejects."""

    row: dict[str, Any] | None = None
    rejects: list[dict[str, Any]] = field(default_factory=list)
    clips_found: int = 0
    clips_read: int = 0
    ignored: dict[str, int] = field(default_factory=dict)

    def reject(self, speaker: SourceSpeaker, clip: str | None, reason: str, detail: str) -> None:
        """Note that a clip, or with None the speaker, is rejected."""
        self.rejects.append(
            {"speaker": speaker.voice, "clip": clip, "reject_reason": reason, "reject_detail": detail[:500]}
        )


@dataclass(frozen=True, slots=True)
class _Usable:
    """A clip that may be used: the stretch of it that holds most speech."""

    name: str
    speech: Samples
    rate: int
    quality: SpeechQuality

    @property
    def duration_s(self) -> float:
        return len(self.speech) / self.rate


def index_speaker(
    speaker: SourceSpeaker,
    clips: Sequence[SourceClip],
    settings: IndexVoices,
    decoder: AudioDecoder,
    verifier: SpeakerVerifier,
) -> IndexedSpeaker:
    """Read a speaker's clips and make the reference of the best.

    Clips are read in an order that their names' hashes give, until `candidates` are usable. Those that do not sound
    like the speaker's others are put aside. Of the rest, the one with the best signal-to-noise ratio that is long
    enough is the reference; where none is, the best short ones are joined. Reject reasons: see `CLIP_REASONS` and
    `SPEAKER_REASONS`.

    Raises:
        EngineError: the decoder or the verifier failed as a whole.
    """
    outcome = IndexedSpeaker(clips_found=len(clips))
    if not clips:
        outcome.reject(speaker, None, "no_clip", "there is no sound file")
        return outcome
    usable = _read_usable(speaker, clips, settings, decoder, outcome)
    if not usable:
        reasons = sorted({reject["reject_reason"] for reject in outcome.rejects})
        detail = f"all {outcome.clips_read} clips that were read are rejected ({', '.join(reasons)})"
        outcome.reject(speaker, None, "no_usable_clip", detail)
        return outcome
    if len(usable) < settings.min_clips:
        detail = f"{len(usable)} usable clips, and min_clips is {settings.min_clips}"
        outcome.reject(speaker, None, "too_few_clips", detail)
        return outcome
    embeddings = _embed(usable, settings, verifier)
    kept = _agree(speaker, usable, embeddings, settings, outcome)
    if not kept:
        return outcome
    made = _make_reference(speaker, [usable[i] for i in kept], settings)
    if made is None:
        speech_s = sum(usable[i].duration_s for i in kept)
        how = "joined" if settings.join_clips else "and join_clips is off"
        detail = f"{len(kept)} usable clips of {speech_s:.1f} s in all, {how}; {settings.min_duration_s:g} s are needed"
        outcome.reject(speaker, None, "too_little_speech", detail)
        return outcome
    samples, rate, used = made
    (vector,) = verifier.embed([EmbeddingRequest(samples, rate)])
    if isinstance(vector, RowFault):
        outcome.reject(speaker, None, "too_little_speech", f"the reference cannot be embedded ({vector.detail})")
        return outcome
    others = [embeddings[i] for i in kept if usable[i].name not in used]
    cosines = [float(other @ vector) for other in others if other is not None]
    quality = measure_quality(samples, rate)
    data = encode_flac(samples, rate)
    outcome.row = {
        "voice": speaker.voice,
        "speaker": speaker.speaker,
        "subset": ",".join(sorted(set(filter(None, speaker.subsets)))) or None,
        "gender": speaker.gender,
        "audio": {"bytes": data, "path": f"{speaker.voice.replace('/', '__')}.flac"},
        "sampling_rate": rate,
        "duration_s": len(samples) / rate,
        "level_dbfs": quality.level_dbfs,
        "snr_db": quality.snr_db,
        "clipped_share": quality.clipped_share,
        "consistency": float(np.median(cosines)) if cosines else None,
        "clips_compared": len(cosines),
        "clips_found": outcome.clips_found,
        "clips_read": outcome.clips_read,
        "clips": list(used),
        "embedding": vector.astype(np.float32).tolist(),
        "audio_sha256": hashlib.sha256(data).hexdigest(),
    }
    return outcome


def _read_usable(
    speaker: SourceSpeaker,
    clips: Sequence[SourceClip],
    settings: IndexVoices,
    decoder: AudioDecoder,
    outcome: IndexedSpeaker,
) -> list[_Usable]:
    usable: list[_Usable] = []
    seen: dict[bytes, str] = {}
    for clip in order_clips(clips)[: settings.max_read]:
        outcome.clips_read += 1
        found = _read_clip(clip, settings, decoder, seen)
        if isinstance(found, RowFault):
            outcome.reject(speaker, clip.name, found.reason, found.detail)
            continue
        usable.append(found)
        if len(usable) == settings.candidates:
            break
    return usable


def _read_clip(
    clip: SourceClip, settings: IndexVoices, decoder: AudioDecoder, seen: dict[bytes, str]
) -> _Usable | RowFault:
    if not clip.path:
        return RowFault("no_audio", "the row holds no audio and names no file")
    (decoded,) = decoder.decode([DecodeRequest((clip.path,), ("",))])
    if isinstance(decoded, RowFault):
        if decoded.reason == "audio_too_long":
            return RowFault(decoded.reason, f"is longer than index.max_file_s, {settings.max_file_s:g} s")
        return decoded
    rate = decoded.sampling_rate
    samples = _mix_down(decoded.samples[: round(settings.examined_s * rate)])
    if isinstance(samples, RowFault):
        return samples
    digest = hashlib.sha256(samples.tobytes()).digest()
    if digest in seen:
        return RowFault("duplicate_clip", f"has the same samples as {seen[digest]}")
    seen[digest] = clip.name
    if rate > settings.max_sampling_rate:
        samples, rate = resample(samples, rate, settings.max_sampling_rate), settings.max_sampling_rate
    return _check_clip(clip.name, samples, rate, settings)


def _mix_down(samples: Channels) -> Samples | RowFault:
    if samples.shape[1] == 1:
        return np.ascontiguousarray(samples[:, 0])
    sounding = [at for at in range(samples.shape[1]) if measure_peak(samples[:, at]) > 0]
    for at in sounding[1:]:
        correlation = correlate_channels(samples[:, [sounding[0], at]])
        if correlation < _LEAST_CORRELATION:
            detail = f"channels {sounding[0]} and {at} correlate by {correlation:.2f}; give a file with one speaker"
            return RowFault("channels_differ", detail)
    return np.asarray(samples[:, sounding or [0]].mean(axis=1), np.float32)


def _check_clip(name: str, samples: Samples, rate: int, settings: IndexVoices) -> _Usable | RowFault:
    quality = measure_quality(samples, rate)
    if not quality.speech_s:
        return RowFault("silent", f"{len(samples) / rate:.2f} s in which no speech stands out")
    if quality.speech_s < settings.min_clip_s:
        return RowFault("too_short", f"{quality.speech_s:.2f} s of speech; {settings.min_clip_s:g} s are needed")
    if quality.clipped_share > settings.max_clipped_share:
        return RowFault("clipped", f"{quality.clipped_share:.2%} of the samples are at full scale")
    if quality.level_dbfs < settings.min_level_dbfs:
        return RowFault("too_quiet", f"speech at {quality.level_dbfs:.1f} dBFS; {settings.min_level_dbfs:g} is needed")
    if quality.snr_db < settings.min_snr_db:
        return RowFault("noisy", f"signal-to-noise ratio {quality.snr_db:.1f} dB; {settings.min_snr_db:g} is needed")
    start, end = find_stretch(samples, rate, settings.max_duration_s, settings.max_pause_s, settings.margin_s)
    return _Usable(name, fade_edges(samples[start:end], round(FADE_S * rate)), rate, quality)


def _embed(
    usable: Sequence[_Usable], settings: IndexVoices, verifier: SpeakerVerifier
) -> list[npt.NDArray[np.float32] | None]:
    requests = [
        EmbeddingRequest(take_middle(clip.speech, clip.rate, settings.embedded_s), clip.rate) for clip in usable
    ]
    return [None if isinstance(reply, RowFault) else reply for reply in verifier.embed(requests)]


def _agree(
    speaker: SourceSpeaker,
    usable: Sequence[_Usable],
    embeddings: Sequence[npt.NDArray[np.float32] | None],
    settings: IndexVoices,
    outcome: IndexedSpeaker,
) -> list[int]:
    """Return which clips are the speaker's; none, and a reject of the speaker, where that cannot be told.

    A clip too short to embed is kept only where it is the speaker's only kind: it could be anyone's.
    """
    embedded = [i for i, vector in enumerate(embeddings) if vector is not None]
    if len(embedded) < 2:
        return embedded or list(range(len(usable)))
    vectors = np.stack([vector for vector in embeddings if vector is not None])
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, np.nan)
    medians = np.nanmedian(cosines, axis=1)
    kept = [i for i, median in zip(embedded, medians, strict=True) if median >= settings.min_consistency]
    if len(kept) < _LEAST_SPEAKER_SHARE * len(embedded) or len(kept) < 2:
        where = f" of the sub-sets {', '.join(sorted(set(speaker.subsets)))}" if len(set(speaker.subsets)) > 1 else ""
        detail = (
            f"{len(embedded) - len(kept)} of {len(embedded)} clips{where} do not sound like the others (median cosines "
            f"{', '.join(f'{median:.2f}' for median in sorted(medians))}; index.min_consistency is "
            f"{settings.min_consistency:g}): more than one speaker under this id?"
        )
        outcome.reject(speaker, None, "inconsistent_speaker", detail)
        return []
    for i, median in zip(embedded, medians, strict=True):
        if i not in kept:
            detail = f"median cosine to the speaker's other clips {median:.2f}; {settings.min_consistency:g} is needed"
            outcome.reject(speaker, usable[i].name, "unlike_speaker", detail)
    for i, clip in enumerate(usable):
        if embeddings[i] is None:
            detail = f"{clip.duration_s:.2f} s of speech: too short to tell whose it is"
            outcome.reject(speaker, clip.name, "too_short_to_embed", detail)
    return kept


def _make_reference(
    speaker: SourceSpeaker, clips: Sequence[_Usable], settings: IndexVoices
) -> tuple[Samples, int, tuple[str, ...]] | None:
    """Return the reference, its rate, and the names of the clips in it; None where there is too little speech."""
    best = sorted(clips, key=lambda clip: (-clip.quality.snr_db, clip.name))
    for clip in best:
        if clip.duration_s >= settings.min_duration_s:
            return clip.speech, clip.rate, (clip.name,)
    if not settings.join_clips:
        return None
    rate = best[0].rate
    chosen: list[_Usable] = []
    total = 0.0
    for clip in best:
        longer = total + clip.duration_s + (settings.join_gap_s if chosen else 0)
        if longer <= settings.max_duration_s:
            chosen.append(clip)
            total = longer
        if total >= settings.min_duration_s:
            break
    if total < settings.min_duration_s:
        return None
    pieces = [resample(clip.speech, clip.rate, rate) for clip in chosen]
    joined = join_stretches(pieces, rate, settings.join_gap_s, make_rng(0, speaker.voice, _STEP))
    return joined, rate, tuple(clip.name for clip in chosen)
