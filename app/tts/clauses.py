"""Cuts a reply into clauses while it is being written, so that speaking can begin with the first few words."""

from __future__ import annotations

import re

from app.tts.clause import Clause
from app.tts.speakable import Spoken, speakable
from app.tts.speakable.abbreviations import dot_ends_sentence

FIRST_MIN_WORDS = 2
"""A first clause may end at a comma from here on: sound starts early, and one word alone sounds clipped."""
FIRST_SOFT_WORDS = 8
"""Without any punctuation the first clause ends before the next conjunction..."""
FIRST_HARD_WORDS = 16
"""...or at the latest here."""
LATER_MIN_WORDS = 10
"""Later clauses are whole sentences; long ones may be cut at a comma from here on."""
LATER_SOFT_WORDS = 24
LATER_HARD_WORDS = 36
HARD_PATIENCE_WORDS = 6
"""How much longer than the hard limit a clause may get to avoid a cut after "the" or a number."""
MAX_CHARS = 320
"""Whatever it is made of, no clause is longer."""
CODE_BLOCK = "Code block."
"""Said in place of a fenced block; nobody wants to hear code."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONJUNCTIONS = _words(
    "and but or so because although though while when where which who that if unless until since as then than before "
    "after whereas however with without into from for"
)
_LEANING = _words(
    "a an the of to in on at by for from with and or but my your his her its our their this that these those is are "
    "was were be very not no about than as into"
)
_STARTERS = _words(
    "A An The It Its He She We They I You This That These Those There Here But And So Then However In On At For If "
    "When While What Who Why How My Your His Her Our Their Let Also Yes No"
)
_CLOSERS = "\"'”’»)]}*_`~"
_CJK_CLOSERS = "”’」』）》〉】\"'*_`)"
_STOPS = ".!?…"
_BREAKS = ",;:—–"
_CJK_STOPS = "。！？"
_CJK_BREAKS = "，、；："
_WORD = re.compile(r"[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af][^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]*")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_LIST_NUMBER = re.compile(r"\s*\d{1,3}[.)]")
_FENCE = re.compile(r"[ \t]*(```+|~~~+)")
_ENTITY_END = re.compile(r"&#?\w{2,16};$")
_OPEN_LINK = re.compile(r"\[[^\]\n]*$|\]\([^)\n]*$")


class ClauseSplitter:
    """Feed it a reply piece by piece; it gives each clause as soon as its end is certain.

    The reply is looked at character by character, so how it is cut into pieces changes nothing. The
    clauses tile it without gaps. What cannot be spoken (a rule, an emoji, code) belongs to the
    clause after it; only at the end of a reply may a clause have empty ``spoken`` and no ``word_ends``.
    Nothing is cut inside a number, an abbreviation, an address, a link or inline code. One per reply.
    """

    def __init__(self, language: str = "en") -> None:
        self._language = language
        self._pending = ""
        """Not yet in a clause, from ``_body`` on."""
        self._start = 0
        """Where the next clause begins; before ``_body`` when something silent was passed."""
        self._body = 0
        self._line_start = True
        self._first = True
        self._fence = ""
        """The marks that opened the code block we are in."""
        self._undecided = ""
        """"dot", "initials" or "comma": what the end of ``_pending[:_mark]`` is shows in what follows."""
        self._mark = 0
        self._clauses: list[Clause] = []

    def feed(self, text_delta: str) -> list[Clause]:
        """The clauses that ``text_delta`` completes, often none."""
        for char in text_delta:
            self._pending += char
            if self._fence:
                self._skip_code(char)
                continue
            if self._undecided:
                self._decide(char)
            self._look(char)
        return self._take()

    def finish(self) -> list[Clause]:
        """The reply is complete: whatever is left, as its last clauses."""
        if self._fence:
            self._pass_over()
        elif self._pending:
            self._cut(len(self._pending), line_end=True)
        end = self._body
        if self._start < end:
            self._clauses.append(Clause(self._start, end, "", ()))
            self._start = end
        return self._take()

    def _take(self) -> list[Clause]:
        clauses, self._clauses = self._clauses, []
        return clauses

    # Where a clause may end

    def _look(self, char: str) -> None:
        pending = self._pending
        if char == "\n":
            self._end_line()
        elif char.isspace():
            self._after_word()
        elif len(pending) > 1 and char not in _CJK_CLOSERS and char not in _CJK_STOPS + _CJK_BREAKS:
            self._after_cjk_mark()
        if self._pending and not self._fence and _CJK.match(char) and self._words() >= self._hard_limit():
            self._cut(len(self._pending))
        if len(self._pending) >= MAX_CHARS and not self._fence:
            space = max(self._pending.rfind(" "), self._pending.rfind("\t"))
            self._cut(space + 1 if space > 0 else len(self._pending))

    def _end_line(self) -> None:
        fence = _FENCE.match(self._pending) if self._line_start else None
        if fence is None:
            self._cut(len(self._pending), line_end=True)
            return
        self._fence = fence.group(1)
        self._emit(len(self._pending), Spoken(CODE_BLOCK, (0, len(self._pending))))

    def _skip_code(self, char: str) -> None:
        if char == "\n":
            if self._pending.strip().startswith(self._fence) and not self._pending.strip().strip(self._fence[0]):
                self._fence = ""
            self._pass_over()

    def _after_word(self) -> None:
        body = self._pending.rstrip().rstrip(_CLOSERS)
        if not body or self._pending[-2:-1].isspace() or self._protected():
            return
        last = body[-1]
        if last in _STOPS:
            self._after_stop(body)
        elif last in _BREAKS or self._pending[:-1].endswith((" -", " --")):
            self._after_break(body)
        else:
            self._after_plain_word()

    def _after_stop(self, body: str) -> None:
        if _LIST_NUMBER.fullmatch(body):
            return
        ends = dot_ends_sentence(body) if body[-1] == "." and not body.endswith("..") else True
        if ends:
            self._cut(len(self._pending))
        elif ends is None:
            self._undecided = "initials" if re.search(r"[A-Z]\.$", body) else "dot"
            self._mark = len(self._pending)

    def _after_break(self, body: str) -> None:
        if _ENTITY_END.search(body) or self._words() < (FIRST_MIN_WORDS if self._first else LATER_MIN_WORDS):
            return
        if len(body) > 1 and body[-1] == "," and body[-2].isdigit():
            self._undecided, self._mark = "comma", len(self._pending)
        else:
            self._cut(len(self._pending))

    def _after_plain_word(self) -> None:
        words = self._words()
        soft, hard = (FIRST_SOFT_WORDS if self._first else LATER_SOFT_WORDS), self._hard_limit()
        if words <= soft:
            return
        text = self._pending.rstrip()
        begin = max(text.rfind(" "), text.rfind("\t")) + 1
        word = text[begin:].lower()
        before = text[:begin].rstrip()
        if word in _CONJUNCTIONS and before and not before[-1].isdigit() and _last_word(before) not in _LEANING:
            self._cut(begin)
        elif words >= hard and (words >= hard + HARD_PATIENCE_WORDS or (word.isalpha() and word not in _LEANING)):
            self._cut(len(self._pending))

    def _after_cjk_mark(self) -> None:
        body = self._pending[:-1].rstrip(_CJK_CLOSERS)
        if not body or body[-1] not in _CJK_STOPS + _CJK_BREAKS or self._protected():
            return
        enough = self._words() >= (FIRST_MIN_WORDS if self._first else LATER_MIN_WORDS)
        if body[-1] in _CJK_STOPS or (body[-1] in _CJK_BREAKS and enough):
            self._cut(len(self._pending) - 1)

    def _decide(self, char: str) -> None:
        kind, after = self._undecided, self._pending[self._mark :]
        if after.isspace() and char != "\n":
            return
        if kind == "comma":
            ends = not char.isdigit()
        elif kind == "dot":
            ends = not (char.islower() or char.isdigit())
        elif char.isalnum():
            return
        else:
            ends = after.strip(_CLOSERS + _STOPS + _BREAKS + "( \n") in _STARTERS
        self._undecided = ""
        if ends:
            self._cut(self._mark)

    def _protected(self) -> bool:
        return self._pending.count("`") % 2 == 1 or _OPEN_LINK.search(self._pending) is not None

    def _words(self) -> int:
        return len(_WORD.findall(self._pending)) + len(_CJK.findall(self._pending)) // 2

    def _hard_limit(self) -> int:
        return FIRST_HARD_WORDS if self._first else LATER_HARD_WORDS

    # Making clauses

    def _cut(self, length: int, *, line_end: bool = False) -> None:
        piece = self._pending[:length]
        spoken = speakable(piece, language=self._language, line_start=self._line_start, line_end=line_end)
        self._emit(length, spoken)

    def _emit(self, length: int, spoken: Spoken) -> None:
        piece = self._pending[:length]
        body, end = self._body, self._body + length
        self._pending = self._pending[length:]
        self._body = end
        self._undecided = ""
        self._line_start = piece.endswith("\n") or (self._line_start and piece.isspace())
        if spoken.text:
            ends = tuple(body + offset for offset in spoken.word_ends)
            self._clauses.append(Clause(self._start, end, spoken.text, ends))
            self._start = end
            self._first = False

    def _pass_over(self) -> None:
        self._body += len(self._pending)
        self._pending = ""
        self._line_start = True


def _last_word(text: str) -> str:
    words = text.split()
    return words[-1].lower() if words else ""
