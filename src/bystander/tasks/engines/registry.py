"""Opens the engine that a configuration asks for. Adapters are imported only when one is opened."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from bystander.schemas.activity import VoiceActivityDetector
from bystander.schemas.alignment import Aligner
from bystander.schemas.engine_configs import (
    CandidateConfig,
    FakeCandidateConfig,
    OpenAiAudioConfig,
    PredictionsConfig,
    StandInConfig,
    TransformersAudioConfig,
)
from bystander.schemas.engines import CandidateEngine, Recogniser, SpeakerVerifier, SpeechEngine, TextEngine
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.packs import PromptPack
from bystander.schemas.recogniser_configs import (
    FakeRecogniserConfig,
    FakeVerifierConfig,
    FasterWhisperConfig,
    OnnxVerifierConfig,
    OpenAiWhisperConfig,
    RecogniserConfig,
    VerifierConfig,
)
from bystander.schemas.recordings import AudioDecoder
from bystander.schemas.sid_engine_configs import (
    AlignerConfig,
    ByLanguageAlignerConfig,
    DecoderConfig,
    FakeAlignerConfig,
    FakeDecoderConfig,
    FileDecoderConfig,
    KaldiArkAlignerConfig,
    KaldiGmmAlignerConfig,
    MfaAlignerConfig,
    PocketsphinxAlignerConfig,
    RecogniserAlignerConfig,
    RuleTaggerConfig,
    SileroVadConfig,
    TaggerConfig,
    VadConfig,
)
from bystander.schemas.speech_engine_configs import (
    ChatterboxSpeechConfig,
    FakeSpeechConfig,
    KokoroSpeechConfig,
    SpeechEngineConfig,
)
from bystander.schemas.text_engine_configs import (
    FakeTextConfig,
    LlamaCppTextConfig,
    OpenAiTextConfig,
    PlaybookTextConfig,
    TextEngineConfig,
    VllmBatchTextConfig,
    VllmTextConfig,
)
from bystander.schemas.voice_bank import VoiceBank

ResolveModel = Callable[[str], Path]
"""Maps a name of the model store, or a path, to a verified path on this machine."""

_ADAPTERS: dict[type[Any], tuple[str, str]] = {
    OpenAiTextConfig: ("openai_text", "OpenAiTextEngine"),
    VllmTextConfig: ("vllm_text", "VllmTextEngine"),
    VllmBatchTextConfig: ("vllm_batch_text", "VllmBatchTextEngine"),
    FakeTextConfig: ("fake_text", "FakeTextEngine"),
    KokoroSpeechConfig: ("kokoro", "KokoroSpeechEngine"),
    FakeSpeechConfig: ("fake_speech", "FakeSpeechEngine"),
    FasterWhisperConfig: ("faster_whisper", "FasterWhisperRecogniser"),
    OpenAiWhisperConfig: ("openai_whisper", "OpenAiWhisperRecogniser"),
    FakeRecogniserConfig: ("fake_speech", "FakeRecogniser"),
    OnnxVerifierConfig: ("onnx_verifier", "OnnxSpeakerVerifier"),
    FakeVerifierConfig: ("fake_speech", "FakeVerifier"),
    PredictionsConfig: ("predictions", "PredictionsCandidate"),
    OpenAiAudioConfig: ("openai_audio", "OpenAiAudioCandidate"),
    TransformersAudioConfig: ("transformers_audio", "TransformersAudioCandidate"),
    FakeCandidateConfig: ("fake_candidate", "FakeCandidate"),
    FileDecoderConfig: ("file_decoder", "FileDecoder"),
    FakeDecoderConfig: ("fake_decoder", "FakeDecoder"),
    SileroVadConfig: ("silero_activity", "SileroActivityDetector"),
    PocketsphinxAlignerConfig: ("pocketsphinx_aligner", "PocketsphinxAligner"),
    KaldiGmmAlignerConfig: ("kaldi_gmm_aligner", "KaldiGmmAligner"),
    MfaAlignerConfig: ("mfa_aligner", "MfaAligner"),
    KaldiArkAlignerConfig: ("kaldi_ark_aligner", "KaldiArkAligner"),
    RecogniserAlignerConfig: ("recogniser_aligner", "RecogniserAligner"),
    FakeAlignerConfig: ("fake_aligner", "FakeAligner"),
    RuleTaggerConfig: ("rule_tagger", "RuleTagger"),
}
"""Module and class of each adapter that is made from its configuration and, unless it is a fake, a `ResolveModel`."""
_FAKES = (FakeTextConfig, FakeSpeechConfig, FakeRecogniserConfig, FakeVerifierConfig, FakeCandidateConfig)


def open_text_engine(
    config: TextEngineConfig,
    resolve_model: ResolveModel,
    digest_model: Callable[[str], str | None] | None = None,
) -> TextEngine:
    """Open a text engine. `digest_model` gives the SHA-256 of a model of that name or path, if it is known already.

    Raises:
        EngineSetupError: a package, model file, key or setting is missing or wrong.
    """
    if isinstance(config, LlamaCppTextConfig):
        known = digest_model(config.model) if digest_model is not None else None
        engine: TextEngine = _find_adapter("llama_cpp", "LlamaCppTextEngine")(config, resolve_model, model_digest=known)
        return engine
    if isinstance(config, PlaybookTextConfig):
        return cast(TextEngine, _find_adapter("playbook", "PlaybookTextEngine")())
    return cast(TextEngine, _open(config, resolve_model))


def open_speech_engine(
    config: SpeechEngineConfig,
    resolve_model: ResolveModel,
    open_bank: Callable[[str], VoiceBank] | None = None,
) -> SpeechEngine:
    """Open a speech engine. `open_bank` opens the bank of voices at a place, for engines that imitate.

    Raises:
        EngineSetupError: a package, model file or setting is missing or wrong.
        EngineUnavailableError: a worker that should run already cannot be reached.
        InputError: there is no bank at its place, or it cannot be read.
    """
    if isinstance(config, ChatterboxSpeechConfig):
        if open_bank is None:
            raise EngineSetupError(f"engine chatterbox: nothing here opens the voice bank {config.bank}")
        adapter = _find_adapter("chatterbox_speech", "ChatterboxSpeechEngine")
        return cast(SpeechEngine, adapter(config, open_bank(config.bank)))
    return cast(SpeechEngine, _open(config, resolve_model))


def open_recogniser(config: RecogniserConfig, resolve_model: ResolveModel) -> Recogniser:
    """Open a recogniser.

    Raises:
        EngineSetupError: a package, model file or setting is missing or wrong.
    """
    return cast(Recogniser, _open(config, resolve_model))


def open_verifier(config: VerifierConfig, resolve_model: ResolveModel) -> SpeakerVerifier:
    """Open a speaker verifier.

    Raises:
        EngineSetupError: a package, model file or setting is missing or wrong.
    """
    return cast(SpeakerVerifier, _open(config, resolve_model))


def open_candidate(
    config: CandidateConfig,
    resolve_model: ResolveModel,
    writer: TextEngine | None = None,
    pack: PromptPack | None = None,
) -> CandidateEngine:
    """Open a system that is evaluated. `writer` (its opener's to close) and `pack` are for stand-ins that write.

    Raises:
        EngineSetupError: a package, model file, key or setting is missing or wrong.
        InputError: a file of predictions is missing or wrong.
    """
    if isinstance(config, StandInConfig):
        return cast(CandidateEngine, _find_adapter("stand_in", "open_stand_in")(config, writer, pack))
    return cast(CandidateEngine, _open(config, resolve_model))


def open_decoder(config: DecoderConfig) -> AudioDecoder:
    """Open a decoder of recordings.

    Raises:
        EngineSetupError: a package or program is missing.
    """
    return cast(AudioDecoder, _find_adapter(*_ADAPTERS[type(config)])(config))


def open_vad(config: VadConfig) -> VoiceActivityDetector:
    """Open a voice activity detector.

    Raises:
        EngineSetupError: a package or its model is missing.
    """
    return cast(VoiceActivityDetector, _find_adapter(*_ADAPTERS[type(config)])(config))


def open_tagger(
    config: TaggerConfig,
    resolve_model: ResolveModel,
    digest_model: Callable[[str], str | None] | None = None,
) -> TextEngine:
    """Open a text engine that tags turns or writes conversations; see `open_text_engine`.

    Raises:
        EngineSetupError: a package, model file, key or setting is missing or wrong.
    """
    if isinstance(config, RuleTaggerConfig):
        return cast(TextEngine, _find_adapter(*_ADAPTERS[RuleTaggerConfig])(config))
    return open_text_engine(config, resolve_model, digest_model)


def open_aligner(config: AlignerConfig, resolve_model: ResolveModel) -> Aligner:
    """Open a forced aligner, or one for each language.

    Raises:
        EngineSetupError: a package, program, model or file is missing or wrong.
    """
    if isinstance(config, ByLanguageAlignerConfig):
        opened = {language: open_aligner(one, resolve_model) for language, one in sorted(config.aligners.items())}
        return cast(Aligner, _find_adapter("by_language_aligner", "ByLanguageAligner")(opened))
    return cast(Aligner, _find_adapter(*_ADAPTERS[type(config)])(config, resolve_model))


def _open(config: Any, resolve_model: ResolveModel) -> Any:
    adapter = _find_adapter(*_ADAPTERS[type(config)])
    return adapter(config) if isinstance(config, _FAKES) else adapter(config, resolve_model)


def _find_adapter(module: str, name: str) -> Any:
    try:
        return getattr(import_module(f"bystander.tasks.engines.{module}"), name)
    except ImportError as exc:
        raise EngineSetupError(
            f"engine {module}: a package that it needs is missing ({exc}); install bystander's requirements"
        ) from exc
