"""What a drawn token means for its reply: text to show, log-probabilities, or the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app.engine.endings import Endings
from app.engine.messages import Delta, TokenLogprob
from app.engine.meters import Meters
from app.engine.requests import Request
from app.engine.sequence import Draw
from app.errors import StageError

_SIGN_OF_LIFE_S = 0.5
"""After so much silence a reply that is held back for others says that it will go on; looked at just as often."""


class Replies:
    """Only the engine's thread calls it."""

    def __init__(
        self, bytes_of: Callable[[int], bytes], eos_ids: frozenset[int], endings: Endings, meters: Meters
    ) -> None:
        self._bytes_of = bytes_of
        self._eos_ids = eos_ids
        self._endings = endings
        self._meters = meters
        self._signs_due_s = 0.0

    def take(self, request: Request, draw: Draw, now_s: float) -> None:
        """Add the token to the reply and tell the client; may end it."""
        sequence, text = request.sequence, request.text
        assert sequence is not None
        assert text is not None
        if draw.fault:
            self._endings.fail(request, StageError(draw.fault))
            return
        if sequence.first_token_s:
            self._meters.inter_token_ms.add((now_s - sequence.last_token_s) * 1000.0)
        else:
            sequence.first_token_s = request.told_s = now_s
            self._meters.began(sequence, now_s)
        sequence.last_token_s = now_s
        if draw.token in self._eos_ids and not sequence.sampling.ignore_eos:
            self._endings.finish(request, "stop")
            return
        sequence.ids.append(draw.token)
        request.untold += 1
        shown = text.push(draw.token)
        if shown or draw.logprob is not None:
            logprobs = () if draw.logprob is None else (self._logprob(draw.token, draw.logprob, draw.top),)
            request.sink(Delta(request.submit.id, shown, request.untold, logprobs))
            request.untold, request.told_s = 0, now_s
        constraint = sequence.constraint
        if text.stopped or (constraint is not None and constraint.is_finished(sequence.reply)):
            self._endings.finish(request, "stop")
        elif sequence.reply_tokens >= sequence.max_tokens:
            self._endings.finish(request, "length")

    def give_signs_of_life(self, requests: Iterable[Request], now_s: float) -> None:
        """To whoever has begun to listen and is made to wait: silence would be taken for a fault."""
        if now_s < self._signs_due_s:
            return
        self._signs_due_s = now_s + _SIGN_OF_LIFE_S
        for request in requests:
            if request.told_s and now_s - request.told_s >= _SIGN_OF_LIFE_S:
                request.sink(Delta(request.submit.id, "", 0))
                request.told_s = now_s

    def _logprob(self, token: int, logprob: float, top: tuple[tuple[int, float], ...]) -> TokenLogprob:
        others = tuple((*self._told(other), value) for other, value in top)
        return TokenLogprob(*self._told(token), logprob, others)

    def _told(self, token: int) -> tuple[str, bytes]:
        raw = self._bytes_of(token)
        return raw.decode("utf-8", "replace"), raw
