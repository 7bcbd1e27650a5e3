"""Percentages, temperatures and measures, in English."""

from __future__ import annotations

import re

from app.tts.speakable import numbers as say
from app.tts.speakable.tracked import Tracked

_NUM = say.WRITTEN
_UNITS = {
    "km": ("kilometer", "kilometers"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "nm": ("nanometer", "nanometers"),
    "µm": ("micrometer", "micrometers"),
    "m": ("meter", "meters"),
    "mi": ("mile", "miles"),
    "ft": ("foot", "feet"),
    "yd": ("yard", "yards"),
    "sq ft": ("square foot", "square feet"),
    "sq mi": ("square mile", "square miles"),
    "sq km": ("square kilometer", "square kilometers"),
    "ha": ("hectare", "hectares"),
    "mph": ("mile per hour", "miles per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "mpg": ("mile per gallon", "miles per gallon"),
    "rpm": ("revolution per minute", "revolutions per minute"),
    "bpm": ("beat per minute", "beats per minute"),
    "fps": ("frame per second", "frames per second"),
    "ppm": ("part per million", "parts per million"),
    "kg": ("kilogram", "kilograms"),
    "mg": ("milligram", "milligrams"),
    "µg": ("microgram", "micrograms"),
    "mcg": ("microgram", "micrograms"),
    "g": ("gram", "grams"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "fl oz": ("fluid ounce", "fluid ounces"),
    "gal": ("gallon", "gallons"),
    "ml": ("milliliter", "milliliters"),
    "mL": ("milliliter", "milliliters"),
    "dl": ("deciliter", "deciliters"),
    "dL": ("deciliter", "deciliters"),
    "L": ("liter", "liters"),
    "l": ("liter", "liters"),
    "tsp": ("teaspoon", "teaspoons"),
    "tbsp": ("tablespoon", "tablespoons"),
    "ms": ("millisecond", "milliseconds"),
    "µs": ("microsecond", "microseconds"),
    "ns": ("nanosecond", "nanoseconds"),
    "s": ("second", "seconds"),
    "sec": ("second", "seconds"),
    "secs": ("second", "seconds"),
    "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"),
    "hr": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "h": ("hour", "hours"),
    "yr": ("year", "years"),
    "yrs": ("year", "years"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "Hz": ("hertz", "hertz"),
    "KB": ("kilobyte", "kilobytes"),
    "kB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "PB": ("petabyte", "petabytes"),
    "MiB": ("mebibyte", "mebibytes"),
    "GiB": ("gibibyte", "gibibytes"),
    "kbps": ("kilobit per second", "kilobits per second"),
    "Mbps": ("megabit per second", "megabits per second"),
    "Gbps": ("gigabit per second", "gigabits per second"),
    "Mbit": ("megabit", "megabits"),
    "Gbit": ("gigabit", "gigabits"),
    "MP": ("megapixel", "megapixels"),
    "px": ("pixel", "pixels"),
    "kW": ("kilowatt", "kilowatts"),
    "MW": ("megawatt", "megawatts"),
    "GW": ("gigawatt", "gigawatts"),
    "kWh": ("kilowatt hour", "kilowatt hours"),
    "MWh": ("megawatt hour", "megawatt hours"),
    "W": ("watt", "watts"),
    "V": ("volt", "volts"),
    "mA": ("milliamp", "milliamps"),
    "mAh": ("milliamp hour", "milliamp hours"),
    "Ω": ("ohm", "ohms"),
    "kJ": ("kilojoule", "kilojoules"),
    "kN": ("kilonewton", "kilonewtons"),
    "kPa": ("kilopascal", "kilopascals"),
    "hPa": ("hectopascal", "hectopascals"),
    "psi": ("pound per square inch", "pounds per square inch"),
    "hp": ("horsepower", "horsepower"),
    "dB": ("decibel", "decibels"),
    "cal": ("calorie", "calories"),
    "kcal": ("kilocalorie", "kilocalories"),
    "mol": ("mole", "moles"),
}
_LENGTHS = {"km", "cm", "mm", "nm", "µm", "m", "mi", "ft", "yd", "in"}
_PER = {
    "sec": "second",
    "s": "second",
    "h": "hour",
    "hr": "hour",
    "min": "minute",
    "d": "day",
    "yr": "year",
    "mo": "month",
}
_MICRO = re.compile("μ(?=[msgA])")
_SIGHTED = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_EXPONENT = r"[²³]|\^[23]"
_MEASURE = re.compile(
    rf"(?<![\w.])({_NUM})(\s?|-)({_SIGHTED})({_EXPONENT})?(?:/({_SIGHTED})({_EXPONENT})?)?(?![\w²³^]|/[a-z])"
)
_PER_WORD = re.compile(
    r"(?<=[a-z])\s?/\s?(km|kg|lb|oz|g|m|L|l|GB|MB|sec|s|min|hr|h|yr|mo|d|day|week|month|year|hour|minute|second|night|person|kWh"
    r"|piece|pound|gallon|liter|unit|user|token|ton|page|word)(?!\w)"
)
_AFTER_AMOUNT = re.compile(r"(?:dollars?|cents?|euros?|pounds?|pence|yen|yuan|percent|francs|rupees|[a-z]+s|\d)$")
_PERCENT = re.compile(rf"(?<![\w.])({_NUM})(\s?%|\s?‰)(?!\w)")
_PERCENT_RANGE = re.compile(rf"(?<![\w.])({_NUM})\s?%?\s?(?:[-–—]|to)\s?({_NUM})\s?%")
_LONE_PERCENT = re.compile(r"(?<=[a-z])\s?%(?!\w)")
_DEGREES = re.compile(rf"(?<![\w.])({_NUM})\s?(?:([°º])\s?(C|F|K)?|([℃℉]))(?!\w)")
_DEGREE_RANGE = re.compile(rf"(?<![\w.])({_NUM})\s?[°º]\s?[CFK]?\s?[-–—]\s?(?={_NUM}\s?[°º])")
_SCALES = {"C": " Celsius", "F": " Fahrenheit", "K": " Kelvin", "℃": " Celsius", "℉": " Fahrenheit"}
_FEET_INCHES = re.compile(r"(?<![\w.])(\d{1,2})'\s?(\d{1,2})(?:''|(?!\w))")
_FOLD = re.compile(
    rf"(?<![\w.])({_NUM})[xX×](?=\s(?:faster|slower|better|more|larger|bigger|smaller|higher|cheaper|as|the|speed|zoom|longer)\b)"
)
_SHORT_BIG = re.compile(
    rf"(?<![\w.])(?:(\d{{1,3}}(?:\.\d)?)(k)(?!\w)|(\d{{1,3}}\.\d+)([MB])(?!\w)|({_NUM})([MB])(?=\s[a-z]+(?:s|people)\b))"
)
_BIG_NAMES = {"k": "thousand", "M": "million", "B": "billion"}


def _measure(match: re.Match[str]) -> str | None:
    amount, gap, unit, exponent, per, per_exponent = match.groups()
    one = say.is_one(amount) or gap == "-"
    words = _UNITS[unit][0 if one else 1]
    if exponent:
        if unit not in _LENGTHS:
            return None
        words = f"{_power(exponent)} {words}"
    if per:
        below = _UNITS[per][0]
        if per_exponent:
            square = "squared" if _power(per_exponent) == "square" else "cubed"
            below = f"{_power(per_exponent)} {below}" if per in _LENGTHS else f"{below} {square}"
        words = f"{words} per {below}"
    return f"{say.number(amount)} {words}"


def _power(exponent: str) -> str:
    return "square" if exponent[-1] in "²2" else "cubic"


def _per(match: re.Match[str]) -> str | None:
    unit = match.group(1)
    if not _AFTER_AMOUNT.search(match.string[: match.start()].rstrip()):
        return None
    return f" per {_PER.get(unit) or (_UNITS[unit][0] if unit in _UNITS else unit)}"


def _degrees(match: re.Match[str]) -> str:
    amount, _, scale, sign = match.groups()
    return f"{say.number(amount)} degree{'' if say.is_one(amount) else 's'}{_SCALES.get(scale or sign, '')}"


def _short_big(match: re.Match[str]) -> str:
    amount, name = (group for group in match.groups() if group)
    return f"{say.number(amount)} {_BIG_NAMES[name]}"


def say_measures(text: Tracked) -> Tracked:
    """Percent, degrees and units after a number, and "per" after an amount: "$3/kg"."""
    text = text.sub(_PERCENT_RANGE, lambda m: f"{say.number(m.group(1))} to {say.number(m.group(2))} percent")
    text = text.sub(_PERCENT, lambda m: f"{say.number(m.group(1))} {'percent' if '%' in m.group(2) else 'per mille'}")
    text = text.sub(_LONE_PERCENT, " percent")
    text = text.sub(_DEGREE_RANGE, lambda m: f"{say.number(m.group(1))} to ").sub(_DEGREES, _degrees)
    text = text.sub(_FEET_INCHES, lambda m: f"{say.number(m.group(1))} foot {say.number(m.group(2))}")
    text = text.sub(_MICRO, "µ").sub(_MEASURE, _measure).sub(_PER_WORD, _per)
    text = text.sub(_FOLD, lambda match: f"{say.number(match.group(1))} times")
    return text.sub(_SHORT_BIG, _short_big)
