"""Between the client's own types and what travels to the worker and back."""

from __future__ import annotations

from app.engine.messages import (
    Done,
    Failed,
    Message,
    SamplingSpec,
    Submit,
)
from app.engine.messages import ToolCall as WireToolCall
from app.errors import (
    ContextOverflow,
    InvalidRequest,
    Overloaded,
    ParleyError,
    StageError,
    StageTimeout,
    StageUnavailable,
)
from app.llm.base import (
    ChatMessage,
    Finished,
    GenerateRequest,
    Sampling,
    Usage,
)

_ERRORS: dict[str, type[ParleyError]] = {
    error.code: error for error in (StageError, StageTimeout, StageUnavailable, ContextOverflow)
}


def submission(number: int, request: GenerateRequest, left_s: float, *, only_prefill: bool) -> Submit:
    return Submit(
        id=number,
        messages=tuple(_message(message) for message in request.messages),
        sampling=_spec(request.sampling),
        session=request.session_id,
        salt=request.tenant,
        prompt=request.prompt,
        tools=request.tools,
        priority=request.priority,
        spoken=request.spoken,
        deadline_s=left_s if request.deadline_s is not None else None,
        only_prefill=only_prefill,
    )


def _message(message: ChatMessage) -> Message:
    calls = tuple(WireToolCall(call.id, call.name, call.arguments) for call in message.tool_calls)
    return Message(message.role, message.content, calls, message.tool_call_id)


def _spec(sampling: Sampling) -> SamplingSpec:
    return SamplingSpec(
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        logit_bias=dict(sampling.logit_bias),
        seed=sampling.seed,
        stop=sampling.stop,
        ignore_eos=sampling.ignore_eos,
        logprobs=sampling.logprobs,
        json_schema=sampling.json_schema,
    )


def finished_of(done: Done) -> Finished:
    counts = done.counts
    return Finished(
        reason=done.reason,
        usage=Usage(counts.prompt_tokens, counts.cached_tokens, counts.completion_tokens),
        queue_ms=done.queue_ms,
        prefill_ms=done.prefill_ms,
        decode_ms=done.decode_ms,
    )


def error_of(failed: Failed) -> ParleyError:
    if failed.code == Overloaded.code:
        return Overloaded(failed.message, retry_after_s=failed.retry_after_s)
    if failed.code == InvalidRequest.code:
        return InvalidRequest(failed.message, param=failed.param)
    return _ERRORS.get(failed.code, StageError)(failed.message)
