"""``SpecDecChat``: a LangChain chat model over the engine, for chains, agents and LangGraph. Needs [langchain].

    from langchain.agents import create_agent
    from specdec_core import load_engine
    from specdec_core.integrations.langchain import SpecDecChat

    model = SpecDecChat(engine=load_engine("smollm2-135m"), max_tokens=64)
    agent = create_agent(model, tools=[...])

Without tools the text is that of ``engine.generate`` with the same messages and sampling. With tools, or a schema for
the answer, the prompt gets a section that describes them, and the reply is JSON that a grammar holds (the extra
[structured]): see :mod:`specdec_core.integrations.reply_form`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from operator import itemgetter
from typing import Any, Literal, Protocol, runtime_checkable

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput, ModelProfile
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from pydantic import BaseModel, Field, ValidationError

from specdec_core.engine import EngineDescription
from specdec_core.errors import RequestError
from specdec_core.integrations.background import closed_after, iterate_in_thread
from specdec_core.integrations.chat_reply import ChatReply, Generated, GeneratedChunk, read_answer
from specdec_core.integrations.chat_turns import chat_turns
from specdec_core.integrations.reply_form import answer_schema, as_tool, reply_form
from specdec_core.sampling import SamplingParams
from specdec_core.types import GenerationRequest

__all__ = ["ChatEngine", "SpecDecChat"]

_SETTINGS = ("temperature", "max_tokens", "top_p", "top_k", "seed", "stop")


@runtime_checkable
class ChatEngine(Protocol):
    """What the chat model generates with: an :class:`~specdec_core.Engine`, or what stands for one."""

    def generate(self, request: GenerationRequest) -> Generated: ...

    def stream(self, request: GenerationRequest) -> Iterator[GeneratedChunk]: ...


@runtime_checkable
class _DescribedEngine(Protocol):
    """A ChatEngine that says what it runs on; without it answers cannot be told apart in a cache."""

    def describe(self) -> EngineDescription: ...


class SpecDecChat(BaseChatModel):
    """A chat model over an engine. Calls of several threads or tasks wait for each other, as the engine's do.

    Settings that are None are the engine's. Each may be given per call too, as may all other fields of
    ``SamplingParams``, and ``reference_texts``, which go before the model's own.
    """

    engine: ChatEngine = Field(exclude=True, repr=False)
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: Sequence[str] | None = None
    sampling: SamplingParams = Field(SamplingParams(), description="What else; its unset fields are the engine's.")
    reference_texts: Sequence[str] = Field((), description="Texts that answers may repeat. No answer depends on them.")

    @property
    def model_name(self) -> str | None:
        """The engine's name of its model."""
        return None if self._description is None else self._description.model

    @property
    def _description(self) -> EngineDescription | None:
        return self.engine.describe() if isinstance(self.engine, _DescribedEngine) else None

    @property
    def _llm_type(self) -> str:
        return "specdec"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        """Everything the text depends on besides the messages: LangChain's caches go by it."""
        description = self._description
        engine = {} if description is None else {"fingerprint": description.fingerprint.digest}
        return {"model_name": self.model_name, **engine, **self._sampling(None, {}).model_dump(mode="json")}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"] = "specdec"
        return params

    def _resolve_model_profile(self) -> ModelProfile:
        profile = ModelProfile(tool_calling=True, tool_choice=True, structured_output=True, image_inputs=False)
        if self._description is not None:
            profile["max_input_tokens"] = self._description.context_length
        return profile

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: Any = None,
        parallel_tool_calls: bool | None = None,
        strict: bool | None = None,  # arguments always follow their schema
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """A chat model that may call tools: see ``reply_form`` for ``tool_choice``.

        Raises RequestError for what is no function, or has parameters that no grammar can hold.
        """
        options: dict[str, Any] = {"tools": [as_tool(tool) for tool in tools], "tool_choice": tool_choice}
        if parallel_tool_calls is not None:
            options["parallel_tool_calls"] = parallel_tool_calls
        reply_form(**options)  # so that mistakes are told here
        return self.bind(**options, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: Literal["json_schema", "function_calling", "json_mode"] = "json_schema",
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Answers of a pydantic class, a TypedDict or a JSON Schema; instances of the first, else plain values.

        ``json_schema`` holds the whole reply to the schema; ``function_calling`` makes it the one tool to call;
        ``json_mode`` asks for any JSON object. An answer that was cut is an OutputParserException, never mended.
        """
        if method == "function_calling":
            return super().with_structured_output(schema, include_raw=include_raw, **kwargs)
        if method not in ("json_schema", "json_mode"):
            raise RequestError(f"unknown method {method!r}; known: json_schema, function_calling, json_mode")
        wanted = {"type": "json_object"} if method == "json_mode" else answer_schema(schema)
        shown = {"kwargs": {"method": method}, "schema": schema}
        llm = self.bind(response_format=wanted, ls_structured_output_format=shown, **kwargs)
        read = RunnableLambda(read_answer).bind(schema=schema)
        if not include_raw:
            return llm | read
        parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | read, parsing_error=lambda _: None)
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=llm) | parsed.with_fallbacks([failed], exception_key="parsing_error")

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._reply(messages, stop, kwargs)
        return reply.result(self.engine.generate(reply.request))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply, output = self._reply(messages, stop, kwargs), None
        async with aclosing(iterate_in_thread(lambda: self.engine.stream(reply.request))) as chunks:
            async for chunk in chunks:
                output = chunk.output
        assert output is not None, "a stream ends with its output"
        return reply.result(output)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._reply(messages, stop, kwargs)
        with closed_after(self.engine.stream(reply.request)) as chunks:
            for chunk in chunks:
                for piece in reply.chunks(chunk):
                    if run_manager is not None:
                        run_manager.on_llm_new_token(piece.text, chunk=piece)
                    yield piece

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = self._reply(messages, stop, kwargs)
        async with aclosing(iterate_in_thread(lambda: self.engine.stream(reply.request))) as chunks:
            async for chunk in chunks:
                for piece in reply.chunks(chunk):
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(piece.text, chunk=piece)
                    yield piece

    def _reply(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, options: Mapping[str, Any]
    ) -> ChatReply:
        """The reply to be, with its request. Raises RequestError where it cannot be asked for."""
        named = {name: value for name, value in options.items() if name != "stream"}  # LangChain's own word
        form = reply_form(
            named.pop("tools", None),
            named.pop("tool_choice", None),
            named.pop("response_format", None),
            parallel_tool_calls=named.pop("parallel_tool_calls", None),
        )
        if isinstance(references := named.pop("reference_texts", ()), str):
            raise RequestError("reference_texts is a list of texts, not one text")
        request = GenerationRequest(
            messages=chat_turns(messages, form),
            sampling=self._sampling(stop, named),
            reference_texts=tuple(dict.fromkeys((*references, *self.reference_texts))),
            structured=form.structured,
        )
        return ChatReply(request, form, self.model_name)

    def _sampling(self, stop: Sequence[str] | None, named: Mapping[str, Any]) -> SamplingParams:
        """What is named here or on the model is set; nothing else is, so that an engine may have its own defaults."""
        fields = self.sampling.model_dump(include=self.sampling.model_fields_set)
        fields |= {name: value for name in _SETTINGS if (value := getattr(self, name)) is not None}
        fields |= named
        fields |= {} if stop is None else {"stop": stop}
        try:
            return SamplingParams(**fields)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise RequestError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}, not {first['input']!r}") from None
