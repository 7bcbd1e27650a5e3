"""Phone numbers, versions, fractions, ordinals, ranges and plain numbers, in English."""

from __future__ import annotations

import re

from app.tts.speakable import numbers as say
from app.tts.speakable.tracked import Tracked

_NUM = say.WRITTEN
_SAYINGS = {(24, 7), (9, 11), (50, 50), (20, 20)}
_FRACTION_NAMES = {2: "half", 4: "quarter"}
_VULGAR = {
    "½": "one half",
    "⅓": "one third",
    "⅔": "two thirds",
    "¼": "one quarter",
    "¾": "three quarters",
    "⅕": "one fifth",
    "⅖": "two fifths",
    "⅗": "three fifths",
    "⅘": "four fifths",
    "⅙": "one sixth",
    "⅛": "one eighth",
    "⅜": "three eighths",
    "⅝": "five eighths",
    "⅞": "seven eighths",
}
_ORDINAL = re.compile(r"(?<!\w)(\d{1,3}(?:,\d{3})+|\d{1,6})(st|nd|rd|th)\b", re.I)
_MIXED_VULGAR = re.compile(rf"(?:(\d+)\s?)?([{''.join(_VULGAR)}])")
_FRACTION = re.compile(r"(?<![\w./,])(?:(\d{1,3})\s)?(\d{1,3})/(\d{1,3})(?![\w/]|[.,]\d)")
_VERSION = re.compile(
    r"(?<![\w.])(?:[Vv]ersion\s+)?[vV](\d+(?:\.\d+)*)\b|(?<![\w.,])(\d+(?:\.\d+){2,})(?!\w)"
    r"|(?<=[Vv]ersion )(\d+\.\d+)(?![\w.]*\d)|(?<=\bPython )(\d\.\d+)(?![\w.]*\d)"
)
_PHONE = re.compile(
    r"(?<![\w.-])(?:(?:\+?(\d{1,3})[\s.-])?\(?(\d{3})\)?[\s.-]\s?(\d{3})[.-](\d{4})|(\d{3})-(\d{4}))(?![\w-]|\.\d)"
)
_INTERNATIONAL = re.compile(
    r"(?<!\w)(\+?)((?<=\+)\d{1,3}(?:[\s-]\(?\d{1,8}\)?){2,5}|(?<!\+)0\d{2,4}(?:[\s-]\d{3,8}){1,3})(?!\w)"
)
_DIALLED = re.compile(r"\b([Cc]all|[Dd]ial|[Pp]hone|[Tt]ext|[Rr]ing)(\s)(\d{3,15})(?!\w|[.,:/-]\d|\s+(?:[a-z]+s)\b)")
_SECRET = re.compile(
    r"(\b(?:code|PIN|pin|passcode|ZIP|zip|extension|password|account number|ID number)\s+(?:code\s+|number\s+)?(?:is\s+|was\s+)?:?\s?)(\d{3,10})(?!\w|[.,]\d|\s+(?:[a-z]+s)\b)"
)
_ZONE = re.compile(r"\b(UTC|GMT)\s?([+−-])\s?(\d{1,2})(?!\w)")
_SCIENTIFIC = re.compile(
    rf"(?<![\w.])({_NUM})(?:[eE]([+−-]?\d{{1,3}})|\s?[×x*·]\s?10(?:\^|\*\*)\(?([+−-]?\d{{1,3}})\)?)(?![\w.]*\d)(?!\w)"
)
_TEN_TO = re.compile(r"(?<![\w.])(\d+)(?:\^|\*\*)([−-]\d{1,3})(?!\w)")
_RANGE = re.compile(rf"(?<![\w.,/-])({_NUM})(?:-|\s?[–—]\s?)({_NUM})(?![\d-]|[.,/]\d)")
_RATIO = re.compile(r"(?<![\w:.])(\d{1,3}):(\d{1,3})(?![\w:])")
_DECIMAL_COMMA = re.compile(r"(?<![\w.,])(\d+),(\d{1,2}|\d{4,})(?!\d|,\d)")
_CARDINAL = re.compile(rf"(?<![\w.])({_NUM})(?!\w|\.\d)")
_POINT_NUMBER = re.compile(r"(?<![\w.])\.(\d+)(?!\w)")
_LETTER_HYPHEN = re.compile(r"(?<=[A-Z])-(?=\d)")
_MIXED = re.compile(r"(?<=[A-Za-z])-?(?=\d)|(?<=\d)-?(?=[A-Za-z])")
_LOOSE_DIGITS = re.compile(r"\d+")


def _fraction(match: re.Match[str]) -> str:
    whole, upper, lower = match.group(1), int(match.group(2)), int(match.group(3))
    if (upper, lower) in _SAYINGS:
        return f"{say.cardinal(upper)} {say.cardinal(lower)}"
    if lower in (10, 100) and not whole:
        return f"{say.cardinal(upper)} out of {say.cardinal(lower)}"
    if not 0 < upper < lower <= 20:
        return f"{match.group(1) or ''} {say.cardinal(upper)} slash {say.cardinal(lower)}".strip()
    name = _FRACTION_NAMES.get(lower) or say.ordinal(lower)
    spoken = f"{say.cardinal(upper)} {name if upper == 1 else 'halves' if lower == 2 else name + 's'}"
    return f"{say.number(whole)} and {spoken}" if whole else spoken


def _vulgar(match: re.Match[str]) -> str:
    whole, sign = match.groups()
    return f"{say.number(whole)} and {_VULGAR[sign]}" if whole else _VULGAR[sign]


def _version(match: re.Match[str]) -> str:
    text = next(group for group in match.groups() if group)
    words = " point ".join(say.number(part) for part in text.split("."))
    return f"version {words}" if match.group(1) else words


def _phone(match: re.Match[str]) -> str:
    country = match.group(1)
    groups = [say.digits(group) for group in match.groups()[1:] if group]
    plus = "plus " if "+" in match.group() else ""
    return ", ".join(([plus + say.digits(country)] if country else []) + groups)


def _international(match: re.Match[str]) -> str:
    groups = (say.digits(group) for group in re.split(r"[\s-]", match.group(2)))
    return ("plus " if match.group(1) else "") + ", ".join(groups)


def _power_of_ten(match: re.Match[str]) -> str:
    amount = match.group(1)
    times = "" if amount == "1" else f"{say.number(amount)} times "
    return f"{times}ten to the power of {_exponent(match.group(2) or match.group(3))}"


def _exponent(text: str) -> str:
    return ("minus " if text[0] in "-−" else "") + say.number(text.lstrip("+-−"))


def say_codes(text: Tracked) -> Tracked:
    """Phone numbers and codes digit by digit, versions point by point, fractions and ordinals by name."""
    text = text.sub(_PHONE, _phone).sub(_INTERNATIONAL, _international)
    text = text.sub(_DIALLED, lambda match: f"{match.group(1)}{match.group(2)}{say.digits(match.group(3))}")
    text = text.sub(_SECRET, lambda match: match.group(1) + say.digits(match.group(2)))
    text = text.sub(_ZONE, lambda m: f"{m.group(1)} {'plus' if m.group(2) == '+' else 'minus'} {m.group(3)}")
    text = text.sub(_VERSION, _version)
    text = text.sub(_SCIENTIFIC, _power_of_ten)
    text = text.sub(_TEN_TO, lambda m: f"{say.number(m.group(1))} to the power of {_exponent(m.group(2))}")
    text = text.sub(_ORDINAL, lambda match: say.ordinal(int(match.group(1).replace(",", ""))))
    return text.sub(_FRACTION, _fraction).sub(_MIXED_VULGAR, _vulgar)


def say_ranges(text: Tracked) -> Tracked:
    """ "3-5 km" -> "3 to 5 km": the numbers stay, so that units can be worded with them."""
    return text.sub(_RANGE, lambda match: f"{match.group(1)} to {match.group(2)}")


def say_numbers(text: Tracked) -> Tracked:
    """Whatever digits are left: ratios, decimals, cardinals, letters with digits."""
    text = text.sub(_RATIO, lambda match: f"{say.number(match.group(1))} to {say.number(match.group(2))}")
    text = text.sub(_DECIMAL_COMMA, lambda m: f"{say.number(m.group(1))} comma {say.digits(m.group(2))}")
    text = text.sub(_LETTER_HYPHEN, " ").sub(_CARDINAL, lambda match: say.number(match.group(1)))
    text = text.sub(_POINT_NUMBER, lambda match: f"point {say.digits(match.group(1))}")
    text = text.sub(_MIXED, " ")
    return text.sub(_LOOSE_DIGITS, lambda match: say.number(match.group()))
