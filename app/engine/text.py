"""From token ids to text that can be shown: piece by piece, whole characters only, up to a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]

REPLACEMENT = "\ufffd"
_LONGEST_BROKEN_TAIL = 8
"""Of more replacement characters than this at the end, the first are not a character still to come, but broken text."""
_LONGEST_WINDOW = 64
"""Tokens decoded again with each new one, at most: broken text, or tokens without any, may go on for thousands."""
_KEPT_OF_WINDOW = 32


class Detokeniser:
    """Text of a growing list of ids. Each id is decoded a bounded number of times, so the whole is linear.

    ``ends`` has, for each id, the length of the text that it touches: an id that holds only part of
    a character counts that character in full.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._clean_at = 0
        self._seen = 0
        self.length = 0
        self.ends: list[int] = []

    def push(self, token: int) -> str:
        """What the token adds; "" while it ends inside a character."""
        self._window.append(token)
        full = self._decode(self._window)
        stable = full.rstrip(REPLACEMENT)
        broken = len(full) - len(stable)
        if broken > _LONGEST_BROKEN_TAIL:
            stable = full[: len(full) - _LONGEST_BROKEN_TAIL]
        new = stable[self._seen :]
        self._seen += len(new)
        self.length += len(new)
        self.ends.append(self.length + (1 if broken else 0))
        if not broken and new:
            # Keep one clean stretch as context: decoders treat the first token of a text differently.
            self._window = self._window[self._clean_at :]
            self._clean_at = len(self._window)
            self._seen = len(self._decode(self._window))
        elif len(self._window) > _LONGEST_WINDOW:
            unseen = len(full) - self._seen
            self._window = self._window[-_KEPT_OF_WINDOW:]
            self._clean_at = 0
            self._seen = max(0, len(self._decode(self._window)) - unseen)
        return new


class StopFilter:
    """Lets text through until one of the stop strings is complete; holds back only what could still become one.

    The stop that is complete first wins, so the outcome does not depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._longest = max((len(stop) for stop in self._stops), default=0)
        # Most pieces end in a character that no beginning of a stop ends in: that one look is then enough.
        self._beginnings_end_in = frozenset(character for stop in self._stops for character in stop[:-1])
        self._held = ""
        self.hit = False

    def push(self, text: str) -> str:
        if self.hit or not self._stops:
            return "" if self.hit else text
        pending = self._held + text
        matches = [(at + len(stop), at) for stop in self._stops if (at := pending.find(stop)) >= 0]
        if matches:
            self.hit = True
            self._held = ""
            return pending[: min(matches)[1]]
        free = len(pending) - self._possible_start(pending)
        self._held = pending[free:]
        return pending[:free]

    def flush(self) -> str:
        """What was held back; call it when no more text will come."""
        held, self._held = self._held, ""
        return held

    def _possible_start(self, pending: str) -> int:
        if not pending or pending[-1] not in self._beginnings_end_in:
            return 0
        for length in range(min(self._longest - 1, len(pending)), 0, -1):
            tail = pending[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0


class LoopGuard:
    """Notices a reply that says the same thing over and over, as small models at temperature 0 do.

    A group of up to ``MAX_PERIOD`` tokens that comes at least five times in a row, over at least
    ``MIN_REPEATED`` repeated tokens, is a loop. Such a reply is ended with reason "stop".
    """

    MAX_PERIOD = 32
    MIN_REPEATED = 32
    REPEATS = 4

    def __init__(self) -> None:
        self._count = 0
        self._places: dict[int, list[int]] = {}
        """Where each token stood lately."""
        self._runs: dict[int, int] = {}
        """For each period, how many tokens up to now equal the one that long before."""

    def push(self, token: int) -> bool:
        """True once the reply is a loop."""
        here = self._count
        self._count += 1
        places = [place for place in self._places.get(token, ()) if here - place <= self.MAX_PERIOD]
        self._places[token] = [*places, here]
        if not places:
            self._runs = {}
            return False
        self._runs = {here - place: self._runs.get(here - place, 0) + 1 for place in places}
        return any(run >= max(self.REPEATS * period, self.MIN_REPEATED) for period, run in self._runs.items())


class ReplyText:
    """The text side of one reply: detokenising, stop strings and the loop guard together."""

    def __init__(self, decode: Decode, stops: Sequence[str], *, guard_loops: bool) -> None:
        self._detokeniser = Detokeniser(decode)
        self._filter = StopFilter(stops)
        self._guard = LoopGuard() if guard_loops else None
        self._pieces: list[str] = []
        self.stopped = False

    def push(self, token: int) -> str:
        """What may be shown after this token. ``stopped`` says that the reply ends here."""
        piece = self._detokeniser.push(token)
        self._pieces.append(piece)
        shown = self._filter.push(piece)
        looping = self._guard is not None and self._guard.push(token)
        self.stopped = self._filter.hit or looping
        return shown

    def finish(self) -> str:
        """The rest, when no token follows. Half a character is dropped."""
        return "" if self._filter.hit else self._filter.flush()

    @property
    def text(self) -> str:
        """Everything decoded, stop strings included: what the ledger records."""
        return "".join(self._pieces)

    @property
    def ends(self) -> list[int]:
        return self._detokeniser.ends
