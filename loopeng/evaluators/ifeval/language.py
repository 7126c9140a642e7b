"""The language of a response, by langdetect (the extra ``ifeval``), always from the same seed."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator

from loopeng.errors import TaskError
from loopeng.evaluators.ifeval.instruction import Instruction

__all__ = ["LANGUAGE", "LANGUAGES", "Language", "is_in_language", "require_langdetect", "response_language"]

LANGUAGES = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "gu": "Gujarati",
    "he": "Hebrew",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "kn": "Kannada",
    "ko": "Korean",
    "ml": "Malayalam",
    "mr": "Marathi",
    "ne": "Nepali",
    "pa": "Punjabi",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "sw": "Swahili",
    "ta": "Tamil",
    "te": "Telugu",
    "th": "Thai",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
}


def _known(language: str) -> str:
    if language not in LANGUAGES:
        raise ValueError(f"{language!r} is no language of IFEval: {', '.join(LANGUAGES)}")
    return language


Language = Annotated[str, AfterValidator(_known)]


def response_language(response: str, *, language: Language) -> bool:
    """The response is in the language; one whose language nobody can tell (digits alone, say) counts as if it was."""
    return is_in_language(response, language)


def is_in_language(text: str, language: str) -> bool:
    """Whether ``text`` is, or may be, in a language (ISO 639-1). Raises TaskError where langdetect is missing."""
    require_langdetect()
    from langdetect.lang_detect_exception import LangDetectException

    detector = _factory().create()
    try:
        detector.append(text)
        return bool(detector.detect() == language)
    except LangDetectException:
        return True


def require_langdetect() -> None:
    """Raises TaskError where langdetect is missing."""
    try:
        import langdetect  # noqa: F401
    except ImportError:
        raise TaskError(
            "an instruction on language needs langdetect", suggestion="pip install 'loopeng[ifeval]'"
        ) from None


@lru_cache(maxsize=1)
def _factory() -> Any:
    """A factory of our own: the seed of the library's shared one may be anybody's."""
    from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.set_seed(0)
    return factory


LANGUAGE = (
    Instruction(
        "language:response_language",
        response_language,
        "Write the whole answer in {language} and use no other language.",
        "Write the whole answer in the language that is asked for.",
        needs_language=True,
        names=LANGUAGES,
    ),
)
