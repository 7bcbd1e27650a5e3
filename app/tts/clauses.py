"""Cuts a reply into clauses while it is being written, so that speaking can begin with the first few words."""

from __future__ import annotations

import re

from app.tts import rests
from app.tts.clause import Clause
from app.tts.speakable import Spoken, speakable
from app.tts.speakable.abbreviations import dot_ends_sentence

HARD_PATIENCE_WORDS = 6
"""How much longer than the hard limit a clause may get to avoid a cut after "the" or a number."""
MAX_CHARS = 320
"""Whatever it is made of, no clause is longer."""
CODE_BLOCK = "Code block."
CODE_BLOCK_CHINESE = "代码块。"
"""Said in place of a fenced block; nobody wants to hear code."""
_FEW_WORDS = 2
"""So few Latin words, "5 km", do not make a Chinese reply an English one."""

_STARTER = re.compile(
    "An?|The|Its?|He|She|We|They|I|You|This|That|These|Those|There|Here|But|And|So|Then|However|In|On|At|For|If|When|While"
    "|What|Who|Why|How|My|Your|His|Her|Our|Their|Let|Also|Yes|No"
)
"""After "U.S." these begin a sentence; other words in capitals may belong to the name."""
_CLOSERS = "\"'”’»)]}*_`~"
_CJK_CLOSERS = "”’」』）》〉】\"'*_`)"
_STOPS = ".!?…"
_BREAKS = ",;:—–"
_CJK_STOPS = "。！？"
_CJK_BREAKS = "，、；："
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_LIST_NUMBER = re.compile(r"\s*(?:\d{1,3}|[ivxIVX]{1,4}|[A-Za-z])[.)]")
_FENCE = re.compile(r"[ \t]*(```+|~~~+)")
_ENTITY_END = re.compile(r"&#?\w{2,16};$")
_AFTER_CJK_MARK = frozenset(_CJK_STOPS + _CJK_BREAKS + _CJK_CLOSERS)
_EARLY_MARKS = ",!?，。！？"
_EARLY_END = re.compile(rf"(?:^|\s)[^\W\d_]+(?:[-'’][^\W\d_]+)*[{_EARLY_MARKS}]$")
_PLAIN = re.compile(r"[^*_\"“‘«(\[`$<#|]*")
_THINKING = re.compile(r"<(think|thinking|thought|reasoning)>$", re.I)
_BEGUN_TAG = re.compile(r"<[A-Za-z]{0,9}$")
_OPEN_FORMULA = re.compile(
    r"\\\((?:(?!\\\)).)*$|\\\[(?:(?!\\\]).)*$|(?<![A-Za-z\d$\\])\$(?=[A-Za-z\\({])[^$\n]{0,60}$", re.S
)
_LINK_TARGET = re.compile(r"[ \t]*\[[^\]\n]+\]:")
_OPEN_LINK = re.compile(r"\[[^\]\n]*$|\]\([^)\n]*$")


class ClauseSplitter:
    """Feed it a reply piece by piece; it gives each clause as soon as its end is certain.

    The reply is looked at character by character, so how it is cut into pieces changes nothing. The
    clauses tile it without gaps. What cannot be spoken (a rule, an emoji, code) belongs to the
    clause after it; only at the end of a reply may a clause have empty ``spoken`` and no ``word_ends``.
    Nothing is cut inside a number, an abbreviation, an address, a link, a formula or inline code.
    ``<think>`` blocks, closed or not, are never spoken. One per reply.
    """

    def __init__(self, language: str = "en") -> None:
        self._language = language
        self._pending = ""
        """Not yet in a clause, from ``_body`` on."""
        self._start = 0
        """Where the next clause begins; before ``_body`` when something silent was passed."""
        self._body = 0
        self._line_start = True
        self._pace = rests.FIRST
        self._words = 0
        """In ``_pending``, in scripts with spaces."""
        self._cjk = 0
        """In ``_pending``; two of these characters count as a word."""
        self._chinese = False
        """Whether the last clause with letters was, so that "10%，" after it is read in Chinese too."""
        self._in_word = False
        self._thought_end = ""
        """The tag that ends the thinking we are in."""
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
            if self._thought_end:
                self._skip_thought()
                continue
            if self._fence:
                self._skip_code(char)
                continue
            self._count(char)
            if self._undecided:
                self._decide(char)
            self._look(char)
        return self._take()

    def finish(self) -> list[Clause]:
        """The reply is complete: whatever is left, as its last clauses."""
        if self._fence or self._thought_end:
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
        elif char == ">":
            self._after_tag()
        elif self._pace is rests.FIRST and char in _EARLY_MARKS:
            self._after_early_mark()
        elif len(pending) > 1 and char not in _CJK_CLOSERS and char not in _CJK_STOPS + _CJK_BREAKS:
            self._after_cjk_mark()
        if self._pending and not self._fence and _CJK.match(char) and self._length() >= self._pace.hard:
            self._cut(len(self._pending))
        if len(self._pending) >= MAX_CHARS and not self._fence:
            self._cut_endless()

    def _cut_endless(self) -> None:
        space = max(self._pending.rfind(" "), self._pending.rfind("\t"))
        tag = _BEGUN_TAG.search(self._pending)
        self._cut(space + 1 if space > 0 else tag.start() if tag else len(self._pending))

    def _after_tag(self) -> None:
        tag = _THINKING.search(self._pending)
        if tag is None or self._pending.count("`") % 2:
            return
        if tag.start():
            self._cut(tag.start(), line_end=True)
        self._thought_end = f"</{tag.group(1).lower()}>"
        self._skip_thought()

    def _skip_thought(self) -> None:
        if self._pending.lower().endswith(self._thought_end):
            self._thought_end = ""
            self._pass_over()
        elif len(self._pending) > len(self._thought_end):
            # Thoughts may be long: only what could be the beginning of the tag is kept.
            kept = len(self._thought_end) - 1
            self._body += len(self._pending) - kept
            self._pending = self._pending[-kept:]

    def _after_early_mark(self) -> None:
        """ "Sure," is given away with its comma: no quotation or emphasis is open that the next character could close."""
        if _EARLY_END.search(self._pending) and _PLAIN.fullmatch(self._pending):
            self._cut(len(self._pending))

    def _end_line(self) -> None:
        fence = _FENCE.match(self._pending) if self._line_start else None
        if fence is None:
            self._cut(len(self._pending), line_end=True)
            return
        self._fence = fence.group(1)
        length = len(self._pending)
        if self._chinese or self._language == "zh":
            self._emit(length, Spoken(CODE_BLOCK_CHINESE, (length,)))
        else:
            self._emit(length, Spoken(CODE_BLOCK, (0, length)))

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
        if _ENTITY_END.search(body) or self._length() < self._pace.mark:
            return
        if len(body) > 1 and body[-1] == "," and body[-2].isdigit():
            self._undecided, self._mark = "comma", len(self._pending)
        else:
            self._cut(len(self._pending))

    def _after_plain_word(self) -> None:
        words = self._length()
        if words < 2:
            return
        text = self._pending.rstrip()
        begin = max(text.rfind(" "), text.rfind("\t")) + 1
        word = text[begin:].lower()
        if rests.may_rest_before(word, text[:begin], words - 1, self._pace):
            self._cut(begin)
        elif words >= self._pace.hard + HARD_PATIENCE_WORDS or (words >= self._pace.hard and not rests.leans_on(word)):
            self._cut(len(self._pending))

    def _after_cjk_mark(self) -> None:
        if self._pending[-2] not in _AFTER_CJK_MARK:
            return
        body = self._pending[:-1].rstrip(_CJK_CLOSERS)
        if not body or body[-1] not in _CJK_STOPS + _CJK_BREAKS or self._protected():
            return
        if body[-1] in _CJK_STOPS or self._length() >= self._pace.mark:
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
            ends = _STARTER.fullmatch(after.strip(_CLOSERS + _STOPS + _BREAKS + "( \n")) is not None
        self._undecided = ""
        if ends:
            self._cut(self._mark)

    def _protected(self) -> bool:
        pending = self._pending
        return (
            ("`" in pending and pending.count("`") % 2 == 1)
            or ("[" in pending and _OPEN_LINK.search(pending) is not None)
            or (self._line_start and _LINK_TARGET.match(pending) is not None)
            or (("$" in pending or "\\" in pending) and _OPEN_FORMULA.search(pending) is not None)
        )

    def _length(self) -> int:
        """Words in ``_pending``."""
        return self._words + (self._cjk + 1) // 2

    def _count(self, char: str) -> None:
        if _CJK.match(char):
            self._cjk += 1
            self._in_word = False
        elif char.isspace():
            self._in_word = False
        elif not self._in_word and char.isalnum():
            self._words += 1
            self._in_word = True

    # Making clauses

    def _cut(self, length: int, *, line_end: bool = False) -> None:
        piece = self._pending[:length]
        if self._cjk or self._words > _FEW_WORDS:
            self._chinese = self._cjk > self._words
        language = "zh" if self._chinese and self._language in ("en", "auto") else self._language
        spoken = speakable(piece, language=language, line_start=self._line_start, line_end=line_end)
        self._emit(length, spoken)

    def _emit(self, length: int, spoken: Spoken) -> None:
        piece = self._pending[:length]
        body, end = self._body, self._body + length
        self._pending = self._pending[length:]
        self._body = end
        self._undecided = ""
        self._words = self._cjk = 0
        self._in_word = False
        for char in self._pending:
            self._count(char)
        self._line_start = piece.endswith("\n") or (self._line_start and piece.isspace())
        if spoken.text:
            ends = tuple(body + offset for offset in spoken.word_ends)
            self._clauses.append(Clause(self._start, end, spoken.text, ends))
            self._start = end
            first = self._pace is rests.FIRST
            self._pace = rests.after_first(len(spoken.text.split())) if first else rests.LATER

    def _pass_over(self) -> None:
        self._body += len(self._pending)
        self._pending = ""
        self._line_start = True
