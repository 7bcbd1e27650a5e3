"""The chain of transforms from raw reply to spoken text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.tts.speakable import (
    abbreviations,
    acronyms,
    calendar,
    chinese,
    formulas,
    markup,
    measures,
    money,
    quantities,
    roman,
    symbols,
    web,
)
from app.tts.speakable.tracked import Tracked, word_ends

_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_KANA_OR_HANGUL = re.compile("[\u3040-\u30ff\uac00-\ud7af]")
_LATIN_WORD = re.compile(r"[A-Za-z]{3,}")
_LINE_BREAK = re.compile(r"(?<![.,;:!?。！？，、；：\s])\s*\n\s*(?=\S)")
_CJK_SPOKEN_MARKS = re.compile("[「」『』《》〈〉【】（）]")
_SPACE = re.compile(r"\s+")
_SPACE_BEFORE_MARK = re.compile(r"\s+(?=[,.;:!?](?:\s|$))")
_DOUBLE_MARK = re.compile(r"[,;:]\s*(?=[,.;:!?])|(?<=[.!?;:]) ?,(?=\s|$)|^[\s,;:.!?-]+(?=\w)")
# Most clauses are plain prose, of which whole families of rewrites can be skipped at a glance.
_FORMULA = re.compile("[\\\\$\u0370-\u03ff\u00b2\u00b3\u00b9\u2070-\u2089]")
_MARKED = re.compile(r"[<&\[\\`*_~$#|]")
_ADDRESS = re.compile(r"\.\w|[/@\\]")
_NUMERIC = re.compile("[0-9%\u00bc-\u00be\u2150-\u215e]")
_CAPITALS = re.compile(r"[A-Z]{2}|[A-Z]/|\b[IVX]\b")
_SIGNED = re.compile(r"[^\w\s,.;:!?']|_|[a-z][A-Z]|\d\s*x")
_LAST_WORD = re.compile(r"\S+$")
_BLOCK_LINE = re.compile(r"^\s*(?:#{1,6}\s|[-*+•]\s|\d{1,3}[.)]\s|\|)")
_BAD_END = re.compile(r"[,;:]\s*$")


@dataclass(frozen=True, slots=True)
class Spoken:
    """``text`` for the voice and, per whitespace-separated word of it, how far into the raw text it reaches."""

    text: str
    word_ends: tuple[int, ...]


def speakable(raw: str, *, language: str = "en", line_start: bool = True, line_end: bool = False) -> Spoken:
    """What a voice says for ``raw``, a clause or more of Markdown.

    ``language`` (ISO 639-1, or "auto") decides in what numbers and signs are worded: English, or Chinese
    for Chinese text; other languages keep their digits for the voice to read. ``line_start`` says that ``raw``
    begins a line, where "-" and "1." mark lists; ``line_end`` that it ends one, so that a heading or a
    list item without a full stop gets one. Without anything to say, text is empty. Pure; never raises.
    """
    text = symbols.plain_characters(Tracked.of(raw))
    block = line_start and bool(_BLOCK_LINE.match(raw))
    worded_in = _wording(text.text, language)
    if worded_in and _FORMULA.search(text.text):
        text = web.say_windows_paths(text)
        text = formulas.say_formulas(text, formulas.CHINESE if worded_in == "zh" else formulas.ENGLISH)
    if line_start:
        text = markup.strip_lines(roman.say_list_marks(text) if worded_in == "en" else text)
    if _MARKED.search(text.text):
        text = markup.strip_inline(text)
    if worded_in == "en":
        text = _english(text)
    elif worded_in == "zh":
        text = markup.separate(chinese.say_chinese(web.say_addresses(text, web.CHINESE)))
        text = chinese.chinese_marks(symbols.drop_signs(text))
    else:
        text = markup.separate(text)
        text = text.sub(_CJK_SPOKEN_MARKS, " ") if _CJK.search(text.text) else text
    text = symbols.pauses(text)
    text = text.sub(_LINE_BREAK, ". ").sub(_SPACE, " ")
    text = text.sub(_SPACE_BEFORE_MARK, "").sub(_DOUBLE_MARK, "").strip()
    if not any(char.isalnum() for char in text.text):
        return Spoken("", ())
    if block and line_end and text.text[-1] not in ".!?。！？…":
        text = text.sub(_BAD_END, "")
        text = text.sub(_LAST_WORD, lambda match: match.group() + ".")
    return Spoken(text.text, word_ends(text, raw))


def _wording(text: str, language: str) -> str:
    """ "en", "zh" or "", by the language and by the letters: an English reply may hold a line of Chinese."""
    han = len(_HAN.findall(text))
    if _KANA_OR_HANGUL.search(text) or language not in ("en", "auto", "zh"):
        return ""
    if han:
        return "zh" if language == "zh" or han >= len(_LATIN_WORD.findall(text)) else "en"
    return "zh" if language == "zh" and len(_LATIN_WORD.findall(text)) < 2 else "en"


def _english(text: Tracked) -> Tracked:
    """The order matters: what is most certain by its shape is worded first."""
    numeric = bool(_NUMERIC.search(text.text))
    capitals = bool(_CAPITALS.search(text.text))
    if _ADDRESS.search(text.text):
        text = web.say_addresses(text, web.ENGLISH)
    if numeric:
        text = calendar.say_times(text)
    text = abbreviations.say_abbreviations(text)
    if capitals:
        text = roman.say_roman(text)
    if numeric:
        text = calendar.say_dates(text)
        text = quantities.say_codes(text)
        text = symbols.say_leading_signs(text)
        text = money.say_money(text)
        text = quantities.say_ranges(text)
        text = measures.say_measures(text)
    if capitals:
        text = acronyms.say_acronyms(text)
    if _SIGNED.search(text.text):
        text = symbols.drop_signs(symbols.say_operators(text))
    text = markup.separate(text)
    return quantities.say_numbers(text) if numeric else text
