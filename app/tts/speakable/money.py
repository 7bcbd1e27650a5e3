"""Amounts of money, in English."""

from __future__ import annotations

import re

from app.tts.speakable import numbers as say
from app.tts.speakable.tracked import Tracked

_NUM = say.WRITTEN
_BIG = r"hundred|thousand|million|billion|trillion"
_SHORT_BIG = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion", "t": "trillion"}
_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "US$": ("US dollar", "US dollars", "cent", "cents"),
    "C$": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
    "A$": ("Australian dollar", "Australian dollars", "cent", "cents"),
    "R$": ("real", "reais", "centavo", "centavos"),
    "HK$": ("Hong Kong dollar", "Hong Kong dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "jeon", "jeon"),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"),
    "₿": ("bitcoin", "bitcoins", "satoshi", "satoshis"),
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"),
    "CNY": ("yuan", "yuan", "fen", "fen"),
}
_CODES = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹", "CHF": "CHF", "CNY": "CNY", "RMB": "CNY"}
_CODE_WORDS = "|".join(_CODES)
_SIGN = r"(?:US|HK|[CAR])?\$|[€£¥₹₩₽₿]"
_DECIMAL_COMMA = re.compile(rf"({_SIGN})(\s?)(\d{{1,3}}(?:\.\d{{3}})+|\d+),(\d{{2}})(?!\d|,\d)")
_BARE_POINT = re.compile(r"(?<=[$€£])\.(?=\d)")
_RANGE = re.compile(
    rf"({_SIGN})\s?({_NUM})(?:\s({_BIG})\b)?\s?[-–—]\s?(?:{_SIGN})?({_NUM})(?:[\s-]?({_BIG})\b|(k|m|bn?)\b)?(?![\d%]|\.\d)",
    re.I,
)
_ADJECTIVE = re.compile(
    rf"\b([Aa]n?|[Tt]he|[Yy]our|[Mm]y|[Ee]ach|[Ee]very)(\s)({_SIGN})({_NUM})(?:[\s-]?({_BIG})\b)?(?=[\s-](?!or\b|and\b|to\b|in\b|for\b|per\b"
    r"|a\b|on\b|at\b|more\b|less\b|each\b|is\b|was\b|you\b|that\b|from\b|with\b|if\b|off\b|by\b)[a-z])"
)
_MONEY = re.compile(rf"({_SIGN})\s?({_NUM})(?:[\s-]?({_BIG})\b|(k|m|bn?|t)\b)?(?!\d)", re.I)
_CODE_MONEY = re.compile(rf"(?<!\w)(?:({_CODE_WORDS})\s?({_NUM})|({_NUM})\s?({_CODE_WORDS}|€|£|¥|\$))(?!\w)")
_CENTS = re.compile(rf"(?<!\w)({_NUM})\s?¢")


def _money(sign: str, amount: str, big: str) -> str:
    one, many, cent, cents = _CURRENCIES[sign]
    if big:
        return f"{say.number(amount)} {big} {many}"
    whole, _, fraction = amount.partition(".")
    if len(fraction) != 2:
        return f"{say.number(amount)} {one if say.is_one(amount) else many}"
    small = int(fraction)
    units = int(whole.replace(",", ""))
    spoken_units = f"{say.number(whole)} {one if units == 1 else many}"
    if not small:
        return spoken_units
    spoken_cents = f"{say.cardinal(small)} {cent if small == 1 else cents}"
    return f"{spoken_units} and {spoken_cents}" if units else spoken_cents


def _big(word: str | None, short: str | None) -> str:
    return (word or _SHORT_BIG.get((short or "").lower(), "")).lower()


def _range(match: re.Match[str]) -> str:
    sign, low, low_big, high, big, short = match.groups()
    name = sign.upper()
    if "." in low and not (big or short):
        return f"{_money(name, low, '')} to {_money(name, high, '')}"
    return f"{say.number(low)}{f' {low_big}' if low_big else ''} to {_money(name, high, _big(big, short))}"


def _with_point(match: re.Match[str]) -> str:
    """ "€1.234,56" as it is written in much of Europe -> "€1234.56"."""
    sign, gap, whole, fraction = match.groups()
    return f"{sign}{gap}{whole.replace('.', '')}.{fraction}"


def _adjective(match: re.Match[str]) -> str | None:
    article, gap, sign, amount, big = match.groups()
    if "." in amount and not big:
        return None
    return f"{article}{gap}{say.number(amount)} {f'{big} ' if big else ''}{_CURRENCIES[sign][0]}"


def _code(match: re.Match[str]) -> str:
    code = match.group(1) or match.group(4)
    return _money(_CODES.get(code, code), match.group(2) or match.group(3), "")


def say_money(text: Tracked) -> Tracked:
    """ "$3.50" -> "three dollars and fifty cents", "€2 million", "£5k", "$5-10", "a $5 bill", "20 EUR", "99¢"."""
    text = text.sub(_BARE_POINT, "0.").sub(_DECIMAL_COMMA, _with_point)
    text = text.sub(_RANGE, _range).sub(_ADJECTIVE, _adjective)
    text = text.sub(_MONEY, lambda m: _money(m.group(1).upper(), m.group(2), _big(m.group(3), m.group(4))))
    text = text.sub(_CODE_MONEY, _code)
    return text.sub(
        _CENTS, lambda match: f"{say.number(match.group(1))} cent{'' if say.is_one(match.group(1)) else 's'}"
    )
