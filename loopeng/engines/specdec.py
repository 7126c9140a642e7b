"""The adapter to specdec_core, which only the files specdec*.py here touch. The first engine loads torch."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopeng.engines.model_names import with_local_paths
from loopeng.engines.specdec_endpoint import open_endpoint
from loopeng.errors import EngineError, RequestRefusedError
from loopeng.ports import Endpoint, EngineInfo, TextReply, TextRequest
from loopeng.schema import Usage
from loopeng.schema.task import EngineSpec
from specdec_core.errors import RequestError, SpecDecError

if TYPE_CHECKING:
    from specdec_core.engine import Engine
    from specdec_core.metrics import DecodeStats
    from specdec_core.types import GenerationRequest

__all__ = [
    "ModelChoice",
    "SpecDecEngine",
    "examine_cache",
    "examine_device",
    "examine_embedded_models",
    "generation_request",
    "list_models",
]

_loaded: dict[str, Engine] = {}  # by everything that decides what is loaded: a model is in memory once per process
_loading = threading.Lock()


class SpecDecEngine:
    """A local model with lossless speculative decoding. One request at a time; further threads wait."""

    def __init__(self, engine: Engine, *, reference: str | None = None) -> None:
        self.engine, self.reference = engine, reference

    @classmethod
    def from_spec(cls, spec: EngineSpec, base_dir: Path | None = None) -> SpecDecEngine:
        """Load what the task names, or take it from the process's cache. A folder beside the task file is found.

        Raises EngineError where the model cannot be loaded.
        """
        name, spec = spec.model, with_local_paths(spec, base_dir or Path())
        try:
            return cls(_engine_for(spec), reference=spec.model_dump_json())
        except SpecDecError as error:
            raise EngineError(f"the model {name!r} cannot be loaded: {error}") from error
        except (OSError, RuntimeError, MemoryError) as error:  # torch says RuntimeError, out of memory included
            raise EngineError(f"the model {name!r} cannot be loaded: {type(error).__name__}: {error}") from error

    def generate(self, request: TextRequest) -> TextReply:
        """Raises RequestRefusedError for a request that cannot be served (a prompt too long), else EngineError."""
        started = time.perf_counter()
        try:
            output = self.engine.generate(generation_request(request))
        except RequestError as error:
            raise RequestRefusedError(f"the engine refused the request: {error}") from error
        except (SpecDecError, RuntimeError, MemoryError) as error:  # torch says RuntimeError, out of memory included
            raise EngineError(f"{type(error).__name__}: {error}") from error
        return TextReply(
            text=output.text,
            token_ids=output.token_ids,
            finish_reason=output.finish_reason,
            usage=_usage(output.stats),
            latency_s=time.perf_counter() - started,
            fingerprint=output.fingerprint.digest,
        )

    def endpoint(self, request: TextRequest) -> AbstractContextManager[Endpoint | None]:
        """This model over HTTP, under the request's settings; see ``EndpointEngine``."""
        return open_endpoint(self.engine, generation_request(request), _usage)

    def describe(self) -> EngineInfo:
        """Deterministic in bitwise mode only: elsewhere a near tie may fall another way with another draft."""
        from specdec_core.structured import can_hold_forms

        description = self.engine.describe()
        return EngineInfo(
            kind="specdec",
            model=description.model,
            deterministic=description.fingerprint.exactness == "bitwise",
            structured_output=can_hold_forms(self.engine.model.tokenizer),
            fingerprint=description.fingerprint.digest,
            reference=self.reference,
            details=description.to_dict(),
        )


@dataclass(frozen=True)
class ModelChoice:
    """A model that ``engine.model`` can name without a download, or by a short name of ours."""

    name: str
    kind: str  # embedded, cached
    path: Path | None  # None where it is not on this machine yet
    note: str


def list_models() -> list[ModelChoice]:
    """The embedded models, then what else the cache folder holds ready. Loads no model and needs no network."""
    from specdec_core.cache_dir import cache_root, cached_folder
    from specdec_core.embedded import EMBEDDED_MODELS

    embedded = {f"{model.name}-{model.sha256[:12]}": model for model in EMBEDDED_MODELS.values()}
    choices = []
    for folder_name, model in embedded.items():
        path = cached_folder(folder_name)
        note = model.licence if path else f"{model.licence}; the first use takes it out of {model.requirement}"
        choices.append(ModelChoice(model.name, "embedded", path, note))
    folders = sorted((cache_root() / "models").glob("*/"))
    others = [path for each in folders if each.name not in embedded and (path := cached_folder(each.name))]
    return choices + [ModelChoice(str(path), "cached", path, "converted before") for path in others]


def examine_device() -> dict[str, Any]:
    """What an engine would run on here, tried out, as plain values. Loads torch; see ``specdec_core.examining``.

    Raises EngineError where the device cannot be used.
    """
    from specdec_core.examining import examine_device as examine

    try:
        return asdict(examine())
    except (SpecDecError, OSError, RuntimeError, MemoryError) as error:
        raise EngineError(f"{type(error).__name__}: {error}") from error


def examine_embedded_models() -> list[dict[str, Any]]:
    """The embedded models, weights read and compared with what was written, as plain values. Loads no model."""
    from specdec_core.examining import examine_embedded_models as examine

    return [asdict(each) for each in examine()]


def examine_cache() -> dict[str, Any]:
    """Where models are kept, whether more can be, and how much room there is, as plain values."""
    from specdec_core.examining import examine_cache as examine

    return asdict(examine())


def _engine_for(spec: EngineSpec) -> Engine:
    from specdec_core.engine import load_engine

    parameters = {"model", "drafter", "num_speculative_tokens", "context_length", "exactness", "device", "dtype"}
    key = spec.model_dump_json(include=parameters)
    with _loading:
        if key not in _loaded:
            _loaded[key] = load_engine(
                spec.model,
                drafter=spec.drafter if isinstance(spec.drafter, str) else list(spec.drafter),
                num_speculative_tokens=spec.num_speculative_tokens,
                context_length=spec.context_length,
                exactness=spec.exactness,
                device=spec.device,
                dtype=spec.dtype,
            )
        return _loaded[key]


def generation_request(request: TextRequest) -> GenerationRequest:
    """The request in the core's words."""
    from specdec_core.sampling import SamplingParams
    from specdec_core.types import GenerationRequest, StructuredOutput

    schema = request.response_schema
    sampling = request.model_dump(include=set(SamplingParams.model_fields))
    return GenerationRequest(
        messages=tuple(message.model_dump() for message in request.messages),
        sampling=SamplingParams(**sampling),
        reference_texts=request.reference_texts,
        structured=None if schema is None else StructuredOutput(json_schema=schema),
    )


def _usage(stats: DecodeStats) -> Usage:
    return Usage(
        prompt_tokens=stats.num_prompt_tokens,
        generated_tokens=stats.num_generated_tokens,
        decode_passes=stats.num_decode_passes,
        draft_tokens=stats.num_draft_tokens,
        accepted_tokens=stats.num_accepted_tokens,
    )
