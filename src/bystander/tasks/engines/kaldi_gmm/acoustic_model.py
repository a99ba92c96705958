"""A monophone model: phones, three-state HMMs with Gaussian mixtures, and what was calibrated with it."""

from __future__ import annotations

import hashlib
import io
import json
import math
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.kaldi_gmm.features import FeatureSpec
from bystander.tasks.engines.kaldi_gmm.kaldi_library import load_kaldi

MODEL_FILE = "acoustic_model.npz"
SILENCE = "SIL"
DIM = 39
_STATES = 3
_SILENCE_STATES = 5
_FORMAT = 1

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is measured once a model is trained.

    `bias_s` is taken off every time: the median of (found - true) word starts. The thresholds are those of
    `clip_alignment.ScoredPath`'s scores: a clip is believed when none of its scores is lower.
    """

    bias_s: float = 0.0
    min_score: float = -math.inf
    min_word_score: float = -math.inf
    min_speech_score: float = -math.inf


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Where a model comes from: the language, its features, the accuracy that was measured, and notes for people."""

    language: str
    features: FeatureSpec = field(default_factory=FeatureSpec)
    calibration: Calibration = Calibration()
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mixtures:
    """All Gaussians, those of one state together; `offsets[i]` is where state i begins.

    Shapes (states + 1,), (g,), (g, 39), (g, 39).
    """

    offsets: npt.NDArray[np.int32]
    weights: Floats
    means: Floats
    variances: Floats


class AcousticModel:
    """Kaldi's objects of a monophone model. Read-only once trained; calls of Kaldi go through `KALDI_LOCK`."""

    def __init__(self, phones: tuple[str, ...], info: ModelInfo) -> None:
        """Make a model of these phones (silence not among them) without any Gaussians yet."""
        khg, _ = load_kaldi()
        self.info = info
        self.phones = (SILENCE, *phones)
        self.numbers = {phone: number for number, phone in enumerate(self.phones, 1)}
        topology = khg.HmmTopology()
        topology.read(_write_topology(len(self.phones)))
        self.contexts = khg.monophone_context_dependency(
            list(range(1, len(self.phones) + 1)), topology.get_phone_to_num_pdf_classes()
        )
        self.transitions = khg.TransitionModel(self.contexts, topology)
        self.gaussians = khg.AmDiagGmm()
        self.occupancy = self.transitions.init_stats()
        """How often each transition was taken in training, shape (transitions + 1,); the probabilities come from it."""

    @property
    def pdf_count(self) -> int:
        return int(self.contexts.num_pdfs)

    def find_pdf(self, phone: str, state: int) -> int:
        """Return the number of a phone's state: 0 to 2, for silence 0 to 4."""
        return int(self.contexts.compute([self.numbers[phone]], state)[1])

    def update_transitions(self, occupancy: npt.NDArray[np.float64]) -> None:
        khg, _ = load_kaldi()
        self.occupancy = occupancy
        self.transitions.mle_update(occupancy, khg.MleTransitionUpdateConfig())

    def read_mixtures(self) -> Mixtures:
        parts = [self.gaussians.get_pdf(i) for i in range(self.pdf_count)]
        sizes = [pdf.num_gauss for pdf in parts]
        return Mixtures(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
            np.concatenate([np.ravel(pdf.weights) for pdf in parts]).astype(np.float32),
            np.concatenate([np.reshape(pdf.means, (-1, DIM)) for pdf in parts]).astype(np.float32),
            np.concatenate([np.reshape(pdf.vars, (-1, DIM)) for pdf in parts]).astype(np.float32),
        )

    def set_mixtures(self, mixtures: Mixtures) -> None:
        khg, _ = load_kaldi()
        self.gaussians = khg.AmDiagGmm()
        for start, end in zip(mixtures.offsets[:-1], mixtures.offsets[1:], strict=True):
            pdf = khg.DiagGmm(int(end - start), DIM)
            variances = mixtures.variances[start:end].astype(np.float32)
            pdf.set_invvars_and_means(1 / variances, mixtures.means[start:end].astype(np.float32))
            pdf.set_weights(mixtures.weights[start:end].astype(np.float32))
            pdf.compute_gconsts()
            self.gaussians.add_pdf(pdf)
        self.gaussians.compute_gconsts()

    def set_info(self, info: ModelInfo) -> None:
        self.info = info


def save_model(model: AcousticModel, path: Path) -> None:
    """Write a model as an .npz of plain arrays; means and variances in half precision."""
    mixtures = model.read_mixtures()
    info = {"format": _FORMAT, "phones": list(model.phones[1:]), **asdict(model.info)}
    # Written with fixed dates by numpy, so that the same model gives the same bytes.
    np.savez_compressed(
        path,
        info=np.frombuffer(json.dumps(info, ensure_ascii=False, sort_keys=True).encode(), np.uint8),
        offsets=mixtures.offsets,
        weights=mixtures.weights,
        means=mixtures.means.astype(np.float16),
        log_variances=np.log(mixtures.variances).astype(np.float16),
        occupancy=np.asarray(model.occupancy, np.float32).ravel(),
    )


def load_model(path: Path) -> AcousticModel:
    """Read a model file, or the one in a folder.

    Raises:
        EngineSetupError: it is missing, is not a model of ours, or is damaged.
    """
    file = path / MODEL_FILE if path.is_dir() else path
    if not file.is_file():
        raise EngineSetupError(f"{file}: there is no alignment model; scripts/train_kaldi_gmm.py writes one")
    try:
        with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        info = json.loads(arrays["info"].tobytes())
        if info["format"] != _FORMAT:
            raise ValueError(f"format {info['format']}, this version reads {_FORMAT}")
        return _build_model(info, arrays)
    except EngineSetupError:
        raise
    except Exception as exc:  # numpy, zipfile and zlib have many ways to say that a file is damaged
        raise EngineSetupError(f"{file}: not an alignment model, or damaged ({type(exc).__name__}: {exc})") from exc


def hash_model(path: Path) -> str:
    """Return the SHA-256 of a model file, or of the one in a folder."""
    file = path / MODEL_FILE if path.is_dir() else path
    return hashlib.sha256(file.read_bytes()).hexdigest()


def find_shipped_model(language: str) -> Path:
    """Return where the package's own model of `en` or `zh` lies."""
    return Path(str(resources.files("bystander.tasks.engines").joinpath(f"data/kaldi_gmm_{language}.npz")))


def calibrate(info: ModelInfo, calibration: Calibration, notes: dict[str, Any]) -> ModelInfo:
    """Return the info with a calibration and further notes."""
    return replace(info, calibration=calibration, notes={**info.notes, **notes})


def _build_model(info: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> AcousticModel:
    model = AcousticModel(
        tuple(info["phones"]),
        ModelInfo(
            language=info["language"],
            features=FeatureSpec(**info["features"]),
            calibration=Calibration(**info["calibration"]),
            notes=info["notes"],
        ),
    )
    offsets, weights = arrays["offsets"], arrays["weights"]
    means = arrays["means"].astype(np.float32)
    variances = np.exp(arrays["log_variances"].astype(np.float32))
    if len(offsets) != model.pdf_count + 1 or offsets[-1] != len(weights) or np.any(np.diff(offsets) < 1):
        raise ValueError("its Gaussians do not fit its phones")
    if means.shape != (len(weights), DIM) or variances.shape != means.shape:
        raise ValueError("its Gaussians have another size")
    if not all(np.isfinite(a).all() for a in (weights, means, variances)):
        raise ValueError("it holds values that are no numbers")
    occupancy = arrays["occupancy"].astype(np.float64)
    if occupancy.shape != (np.size(model.occupancy),):
        raise ValueError("its transitions do not fit its phones")
    model.set_mixtures(Mixtures(offsets, weights, means, variances))
    model.update_transitions(occupancy)
    return model


def _write_topology(phones: int) -> str:
    """Return Kaldi's description of the HMMs: left to right, and for silence (number 1) freely within its middle."""
    states = "".join(
        f"<State> {i} <PdfClass> {i} <Transition> {i} 0.75 <Transition> {i + 1} 0.25 </State>\n" for i in range(_STATES)
    )
    last = _SILENCE_STATES - 1
    first = " ".join(f"<Transition> {j} 0.25" for j in range(last))
    middle = " ".join(f"<Transition> {j} 0.25" for j in range(1, last + 1))
    silence = f"<State> 0 <PdfClass> 0 {first} </State>\n"
    silence += "".join(f"<State> {i} <PdfClass> {i} {middle} </State>\n" for i in range(1, last))
    silence += f"<State> {last} <PdfClass> {last} <Transition> {last} 0.75 <Transition> {last + 1} 0.25 </State>\n"
    numbers = " ".join(map(str, range(2, phones + 1)))
    return (
        "<Topology>\n"
        f"<TopologyEntry>\n<ForPhones>\n{numbers}\n</ForPhones>\n{states}<State> {_STATES} </State>\n</TopologyEntry>\n"
        f"<TopologyEntry>\n<ForPhones>\n1\n</ForPhones>\n{silence}<State> {last + 1} </State>\n</TopologyEntry>\n"
        "</Topology>\n"
    )
