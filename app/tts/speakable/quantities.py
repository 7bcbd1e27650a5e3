"""Money, percentages, measures, ordinals, fractions, versions, phone numbers and plain numbers, in English."""

from __future__ import annotations

import re
from collections.abc import Iterable

from app.tts.speakable import numbers as say
from app.tts.speakable.tracked import Tracked

_NUM = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_BIG = r"hundred|thousand|million|billion|trillion"
_SHORT_BIG = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion", "t": "trillion"}
_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "US$": ("US dollar", "US dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "jeon", "jeon"),
}
_CODES = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹"}
_UNITS = {
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "m/s": ("meter per second", "meters per second"),
    "km": ("kilometer", "kilometers"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "nm": ("nanometer", "nanometers"),
    "m": ("meter", "meters"),
    "mi": ("mile", "miles"),
    "ft": ("foot", "feet"),
    "yd": ("yard", "yards"),
    "mph": ("mile per hour", "miles per hour"),
    "kg": ("kilogram", "kilograms"),
    "mg": ("milligram", "milligrams"),
    "g": ("gram", "grams"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "ml": ("milliliter", "milliliters"),
    "mL": ("milliliter", "milliliters"),
    "L": ("liter", "liters"),
    "l": ("liter", "liters"),
    "tsp": ("teaspoon", "teaspoons"),
    "tbsp": ("tablespoon", "tablespoons"),
    "ms": ("millisecond", "milliseconds"),
    "s": ("second", "seconds"),
    "sec": ("second", "seconds"),
    "min": ("minute", "minutes"),
    "hr": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "h": ("hour", "hours"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "Hz": ("hertz", "hertz"),
    "KB": ("kilobyte", "kilobytes"),
    "kB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "Mbps": ("megabit per second", "megabits per second"),
    "kW": ("kilowatt", "kilowatts"),
    "kWh": ("kilowatt hour", "kilowatt hours"),
    "W": ("watt", "watts"),
    "V": ("volt", "volts"),
    "mAh": ("milliamp hour", "milliamp hours"),
    "dB": ("decibel", "decibels"),
    "cal": ("calorie", "calories"),
    "kcal": ("kilocalorie", "kilocalories"),
    "m²": ("square meter", "square meters"),
    "km²": ("square kilometer", "square kilometers"),
}
_SAYINGS = {(24, 7), (9, 11), (50, 50), (20, 20)}
_FRACTION_NAMES = {2: "half", 4: "quarter"}
_VULGAR = {
    "½": "one half",
    "⅓": "one third",
    "⅔": "two thirds",
    "¼": "one quarter",
    "¾": "three quarters",
    "⅛": "one eighth",
}


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_MONEY = re.compile(rf"(US\$|[$€£¥₹₩])\s?({_NUM})(?:[\s-]?({_BIG})\b|(k|m|bn?|t)\b)?(?!\d)", re.I)
_CODE_MONEY = re.compile(rf"(?<!\w)(?:(USD|EUR|GBP|JPY|INR)\s?({_NUM})|({_NUM})\s?(USD|EUR|GBP|JPY|INR|€|£|¥))(?!\w)")
_CENTS = re.compile(rf"(?<!\w)({_NUM})\s?¢")
_PERCENT = re.compile(rf"(?<![\w.])({_NUM})\s?%(?!\w)")
_PERCENT_RANGE = re.compile(rf"(?<![\w.])({_NUM})\s?%?\s?[-–]\s?({_NUM})\s?%")
_DEGREES = re.compile(rf"(?<![\w.])({_NUM})\s?(?:°\s?|º\s?)(C|F|K)?(?!\w)")
_MEASURE = re.compile(rf"(?<![\w.])({_NUM})(?:\s?|-)({_alternatives(_UNITS)})(?![\w²³/])")
_FEET_INCHES = re.compile(r"(?<![\w.])(\d{1,2})'\s?(\d{1,2})(?:''|(?!\w))")
_ORDINAL = re.compile(r"(?<!\w)(\d{1,3}(?:,\d{3})+|\d{1,6})(st|nd|rd|th)\b", re.I)
_MIXED_VULGAR = re.compile(rf"(?:(\d+)\s?)?([{''.join(_VULGAR)}])")
_FRACTION = re.compile(r"(?<![\w./,])(?:(\d{1,3})\s)?(\d{1,3})/(\d{1,3})(?![\w/]|[.,]\d)")
_VERSION = re.compile(r"(?<![\w.])(?:[Vv]ersion\s+)?[vV](\d+(?:\.\d+)*)\b|(?<![\w.,])(\d+(?:\.\d+){2,})(?![\w])")
_PHONE = re.compile(
    r"(?<![\w.-])(?:(?:\+(\d{1,3})[\s.-]?)?\(?(\d{3})\)?[\s.-](\d{3})[.-](\d{4})|(\d{3})-(\d{4}))(?![\w-]|\.\d)"
)
_INTERNATIONAL = re.compile(r"(?<!\w)\+(\d{1,3}(?:[\s-]\d{2,8}){2,5})(?!\w)")
_RANGE = re.compile(rf"(?<![\w.,-])({_NUM})\s?[–-]\s?({_NUM})(?![\w-]|[.,]\d)")
_RATIO = re.compile(r"(?<![\w:.])(\d{1,3}):(\d{1,3})(?![\w:])")
_DECIMAL_COMMA = re.compile(r"(?<![\w.,])(\d+),(\d{1,2}|\d{4,})(?!\d|,\d)")
_CARDINAL = re.compile(rf"(?<![\w.])({_NUM})(?!\w|\.\d)")
_POINT_NUMBER = re.compile(r"(?<![\w.])\.(\d+)(?!\w)")
_MIXED = re.compile(r"(?<=[A-Za-z])-?(?=\d)|(?<=\d)-?(?=[A-Za-z])")
_LOOSE_DIGITS = re.compile(r"\d+")


def _is_one(text: str) -> bool:
    return text in ("1", "1.0", "1.00")


def _money(sign: str, amount: str, big: str) -> str:
    one, many, cent, cents = _CURRENCIES[sign]
    if big:
        return f"{say.number(amount)} {big} {many}"
    whole, _, fraction = amount.partition(".")
    if len(fraction) != 2:
        return f"{say.number(amount)} {one if _is_one(amount) else many}"
    small = int(fraction)
    units = int(whole.replace(",", ""))
    spoken_units = f"{say.number(whole)} {one if units == 1 else many}"
    if not small:
        return spoken_units
    spoken_cents = f"{say.cardinal(small)} {cent if small == 1 else cents}"
    return f"{spoken_units} and {spoken_cents}" if units else spoken_cents


def _money_match(match: re.Match[str]) -> str:
    sign, amount, big, short = match.groups()
    return _money(sign.upper(), amount, (big or _SHORT_BIG.get((short or "").lower(), "")).lower())


def _code_money(match: re.Match[str]) -> str:
    code = match.group(1) or match.group(4)
    return _money(_CODES.get(code, code), match.group(2) or match.group(3), "")


def say_money(text: Tracked) -> Tracked:
    """ "$3.50" -> "three dollars and fifty cents", "€2 million", "£5k", "20 EUR", "99¢"."""
    text = text.sub(_MONEY, _money_match).sub(_CODE_MONEY, _code_money)
    return text.sub(_CENTS, lambda match: f"{say.number(match.group(1))} cent{'' if _is_one(match.group(1)) else 's'}")


def _degrees(match: re.Match[str]) -> str:
    amount, scale = match.groups()
    name = {"C": " Celsius", "F": " Fahrenheit", "K": " Kelvin", None: ""}[scale]
    return f"{say.number(amount)} degree{'' if _is_one(amount) else 's'}{name}"


def _measure(match: re.Match[str]) -> str:
    amount, unit = match.groups()
    return f"{say.number(amount)} {_UNITS[unit][0 if _is_one(amount) else 1]}"


def say_measures(text: Tracked) -> Tracked:
    """Percent, degrees and common units after a number."""
    text = text.sub(_PERCENT_RANGE, lambda m: f"{say.number(m.group(1))} to {say.number(m.group(2))} percent")
    text = text.sub(_PERCENT, lambda match: f"{say.number(match.group(1))} percent")
    text = text.sub(_DEGREES, _degrees)
    text = text.sub(_FEET_INCHES, lambda m: f"{say.number(m.group(1))} foot {say.number(m.group(2))}")
    return text.sub(_MEASURE, _measure)


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
    text = match.group(1) or match.group(2)
    words = " point ".join(say.number(part) for part in text.split("."))
    return f"version {words}" if match.group(1) else words


def _phone(match: re.Match[str]) -> str:
    country = match.group(1)
    groups = [say.digits(group) for group in match.groups()[1:] if group]
    return ", ".join(([f"plus {say.digits(country)}"] if country else []) + groups)


def say_codes(text: Tracked) -> Tracked:
    """Phone numbers digit by digit, versions point by point, fractions and ordinals by name."""
    text = text.sub(_PHONE, _phone)
    text = text.sub(
        _INTERNATIONAL, lambda m: "plus " + ", ".join(say.digits(g) for g in re.split(r"[\s-]", m.group(1)))
    )
    text = text.sub(_VERSION, _version)
    text = text.sub(_ORDINAL, lambda match: say.ordinal(int(match.group(1).replace(",", ""))))
    return text.sub(_FRACTION, _fraction).sub(_MIXED_VULGAR, _vulgar)


def say_numbers(text: Tracked) -> Tracked:
    """Whatever digits are left: ranges, ratios, decimals, cardinals, letters with digits."""
    text = text.sub(_RANGE, lambda match: f"{say.number(match.group(1))} to {say.number(match.group(2))}")
    text = text.sub(_RATIO, lambda match: f"{say.number(match.group(1))} to {say.number(match.group(2))}")
    text = text.sub(_DECIMAL_COMMA, lambda m: f"{say.number(m.group(1))} comma {say.digits(m.group(2))}")
    text = text.sub(_CARDINAL, lambda match: say.number(match.group(1)))
    text = text.sub(_POINT_NUMBER, lambda match: f"point {say.digits(match.group(1))}")
    text = text.sub(_MIXED, " ")
    return text.sub(_LOOSE_DIGITS, lambda match: say.number(match.group()))
