"""Emoji, typographic and mathematical signs."""

from __future__ import annotations

import re

from app.tts.speakable.tracked import Tracked

_EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u2300-\u23ff\u25a0-\u25ff\ufe0e\ufe0f\u200d\u20e3\U000e0020-\U000e007f\u2122\u00ae\u00a9]+"
)
_EMOTICON = re.compile(
    r"(?<![\w:;])(?:[:;=]['’]?-?[)(DPpOo3|/\\*](?![\w/])|<3(?!\d)|\^_+\^|¯\\_\(ツ\)_/¯|[xX]D(?!\w))(?=\s|[.,!?]|$)"
)
_SHORTCODE = re.compile(r"(?<![\w:]):[a-z]+(?:_[a-z]+)*:(?![\w:])")
_KEYCAP = re.compile("([0-9#*])\ufe0f?\u20e3")
_QUOTES = re.compile('[“”„«»‟"]')
_APOSTROPHES = re.compile("[‘’‛ʼ]")
_INVISIBLE = re.compile("[\u200b\u200c\u2060\ufeff\u00ad\x00-\x08\x0b-\x1f]")
_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f]")
_AND_OR = re.compile(r"\band/or\b")
_ARROW = re.compile(r"\s*(?:->|=>|→|⇒|⟶)\s*")
_DASH = re.compile(r"\s*(?:—|―|--+|(?<=\s)–(?=\s))\s*")
_ELLIPSIS = re.compile(r"…|\.{3,}")
_BRACKETS = re.compile(r"\s*[()\[\]{}]\s*")
_SINGLE_QUOTES = re.compile(r"(?<!\w)'(?=\w)|(?<=[\w.,!?])'(?!\w)")
_REPEATED_MARKS = re.compile(r"([!?])[!?]+")
_UNSAID = re.compile(r"[$€£¥₹₩°º%‰=+@&×÷±≠≤≥≈∞§¶]")
_LEFTOVER = re.compile(r"[*`~^\\|<>#_{}\[\]]+")
_BETWEEN = tuple(
    (re.compile(pattern), f" {word} ")
    for pattern, word in (
        (r"(?<=[\w)%])\s*[×]\s*(?=[\w(])|(?<=\d)\s+x\s+(?=\d)|(?<=[\w)])\s*\*\s*(?=[\w(])", "times"),
        (r"(?<=[\w)])\s*÷\s*(?=[\w(])|(?<=\d)\s+/\s+(?=\d)", "divided by"),
        (r"(?<=[\w)])\s*±\s*(?=\w)", "plus or minus"),
        (r"(?<=[\w)%])\s*(?:==|=)\s*(?=[\w(+−$€£-])", "equals"),
        (r"(?<=[\w)%])\s*(?:!=|≠)\s*(?=[\w(+-])", "does not equal"),
        (r"(?<=[\w)%])\s*(?:<=|≤)\s*(?=[\w(+-])", "is at most"),
        (r"(?<=[\w)%])\s*(?:>=|≥)\s*(?=[\w(+-])", "is at least"),
        (r"(?<=[\w)%])\s*≈\s*(?=[\w(+-])", "is about"),
        (r"(?<=[\w)%])\s+<\s+(?=[\w(+-])", "is less than"),
        (r"(?<=[\w)%])\s+>\s+(?=[\w(+-])", "is greater than"),
        (r"(?<=\d)x(?=\d)", "by"),
        (r"(?<=[A-Za-z])\+(?=[A-Za-z])|(?<=\d)\+(?=[\s,.;:!?)]|$)", "plus"),
        (r"(?<=\d)\s*\+\s*(?=\d)|(?<=[\w)])\s+\+\s+(?=[\w(])", "plus"),
        (r"(?<=[\w)])\s*−\s*(?=[\w(])|(?<=\d)\s+-\s+(?=\d)", "minus"),
        (r"(?<=\w)\s*&\s*(?=\w)", "and"),
        (r"(?<=[A-Za-z])\s*/\s*(?=[A-Za-z])", "or"),
        (r"(?<=\w)²", "squared"),
        (r"(?<=\w)³", "cubed"),
        (r"(?<=[\w)])\^2(?!\w)", "squared"),
        (r"(?<=[\w)])\^3(?!\w)", "cubed"),
        (r"(?<=[\w)])\^-(?=\w)", "to the power of minus"),
        (r"(?<=[\w)])\^(?=\w)|(?<=\d)\*\*(?=\d)", "to the power of"),
        (r"(?<=\w)\s*∞", "infinity"),
    )
)
_LETTER_PLUS = re.compile(r"(?<=[A-Za-z])\+\+|(?<=[A-Z])#(?!\w)")
_BEFORE_NUMBER = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"(?<!\w)[~≈]\s?(?=[\d$€£])", "about "),
        (r"(?<!\w)#(?=\d)", "number "),
        (r"(?<![\w)\]])[-−](?=\.?\d|[$€£¥])", "minus "),
        (r"(?<!\w)\+(?=[\d$€£])", "plus "),
        (r"(?<!\w)±\s?(?=\d)", "plus or minus "),
        (r"√\s?(?=\d)", "the square root of "),
    )
)
_HASHTAG = re.compile(r"(?<!\w)#(?=[^\W\d])")
_HUMP = re.compile(r"(?<=#)[A-Za-z]*[a-z][A-Z]\w*|(?<!\w)(?!mac|[a-z][A-Z])[a-z]+(?:[A-Z][a-z]+)+\d*(?!\w)")
_BETWEEN_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_FLAG = re.compile(r"(?<!\S)--(?=[a-z][a-z-]+(?!\S|\w))|(?<!\S)--(?=[a-z])")
_SECTION = re.compile(r"§§?\s?(?=\d)")
_AT = re.compile(r"(?<=\w)\s+@\s+(?=\w)")
_LOOSE_SLASH = re.compile(r"(?<=\w)/(?=\w)")


def plain_characters(text: Tracked) -> Tracked:
    """Emoji and invisible characters go; curly quotes, odd spaces and dashes become plain ones."""
    text = text.sub(_EMOTICON, " ").sub(_SHORTCODE, " ")
    text = text.sub(_KEYCAP, lambda match: match.group(1)).sub(_EMOJI, " ")
    text = text.sub(_INVISIBLE, "").sub(_SPACES, " ")
    return text.sub(_QUOTES, "").sub(_APOSTROPHES, "'")


def say_leading_signs(text: Tracked) -> Tracked:
    """Signs before a number, which stays as it is: "~$30" -> "about $30", "-5" -> "minus 5"."""
    for pattern, word in _BEFORE_NUMBER:
        text = text.sub(pattern, word)
    return text


def say_operators(text: Tracked) -> Tracked:
    """Signs between numbers and words are named; nothing else is."""
    text = text.sub(_FLAG, "dash dash ").sub(_ARROW, ", ").sub(_AND_OR, "and or")
    text = text.sub(_LETTER_PLUS, lambda match: " plus plus" if match.group() == "++" else " sharp")
    for pattern, word in _BETWEEN:
        text = text.sub(pattern, word)
    text = text.sub(_SECTION, "section ").sub(_AT, " at ").sub(_HUMP, lambda m: _BETWEEN_HUMPS.sub(" ", m.group()))
    return text.sub(_HASHTAG, "hashtag ").sub(_LOOSE_SLASH, " ")


def drop_signs(text: Tracked) -> Tracked:
    """Signs that stand with nothing they could belong to, once all others are words."""
    return text.sub(_UNSAID, " ")


def pauses(text: Tracked) -> Tracked:
    """Dashes, ellipses and brackets become the pauses they stand for; what no voice can say goes."""
    text = text.sub(_DASH, ", ").sub(_ELLIPSIS, lambda match: "..." if match.group() == "…" else None)
    text = text.sub(_SINGLE_QUOTES, "").sub(_BRACKETS, _bracket)
    return text.sub(_REPEATED_MARKS, lambda match: match.group(1)).sub(_LEFTOVER, " ")


def _bracket(match: re.Match[str]) -> str:
    before = match.string[: match.start()].rstrip()
    after = match.string[match.end() :]
    if not before or not after or before[-1] in ",.;:!?" or after[0] in ",.;:!?":
        return " "
    return ", "
