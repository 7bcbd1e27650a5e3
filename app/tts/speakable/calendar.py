"""Times of day, dates and years, in English."""

from __future__ import annotations

import re

from app.tts.speakable import numbers as say
from app.tts.speakable.tracked import Tracked

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTH_WORD = "|".join(sorted({*_MONTHS, *(name[:3] for name in _MONTHS), "Sept"}, key=len, reverse=True))
_HALF = r"(?:\s?([AaPp])(?:\.\s?[Mm]\.|\.?[Mm]\b))"
_CLOCK = re.compile(rf"(?<![\w:.])(\d{{1,2}}):([0-5]\d)(?::([0-5]\d))?{_HALF}?(?![\w:])")
_CLOCK_RANGE = re.compile(
    r"(?<=[AaPp][Mm])\s?[-–]\s?(?=\d{1,2}(?::\d\d)?\s?[AaPp])|(?<=\d)\s?[-–]\s?(?=\d{1,2}\s?[AaPp]\.?[Mm]\b)|(?<=\d)\s?[-–]\s?(?=\d{1,2}:[0-5]\d)|(?<=:\d\d)\s?[-–]\s?(?=\d{1,2}\s?[AaPp]\.?[Mm])"
)
_HOUR = re.compile(rf"(?<![\w:.])(\d{{1,2}}){_HALF}(?!\w)")
_HALF_WORD = re.compile(r"(?<![\w.])([AaPp])\.[Mm]\.(?!\w)")
_ISO_DATE = re.compile(r"(?<![\w-])(\d{4})-(\d{2})-(\d{2})(?![\w-])")
_ISO_TIME = re.compile(
    r"(?<![\w-])(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?(?![\w:-])"
)
_US_DATE = re.compile(r"(?<![\w/])(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})(?![\w/])")
_MONTH_DAY = re.compile(
    rf"\b({_MONTH_WORD})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?(?![\d:%]|\.\d)(?:(,?)\s+(\d{{4}})(?![\w]))?"
)
_DAY_MONTH = re.compile(
    rf"(?<![\w.,])(the\s+)?(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH_WORD})\b\.?(?:,?\s+(\d{{4}})(?!\w))?"
)
_MONTH_YEAR = re.compile(rf"\b({_MONTH_WORD})\.?(,?)\s+(\d{{4}})(?!\w)")
_YEAR_RANGE = re.compile(
    r"(?<![\w.,$€£-])((?:1[0-9]|20)\d\d)\s?[-–]\s?((?:1[0-9]|20)?\d\d)(?![\w-]|[.,]\d|\s+(?:[a-z]+s|percent)\b|\s?%)"
)
_FROM_TO = re.compile(
    r"\b([Ff]rom|[Bb]etween)(\s)((?:1[0-9]|20)\d\d)(\s(?:to|and|until)\s)((?:1[0-9]|20)\d\d)(?![\w%]|[.,]\d|\s+[a-z]+s\b)"
)
_YEAR_BEFORE_NAME = re.compile(
    r"\b([Tt]he|[Aa]|[Yy]our|[Mm]y|[Oo]ur)(\s)((?:19|20)\d\d)(?=\s+(?:[A-Z]|election|season|edition|report|model|movie|film|novel|book"
    r"|album|song|version|census|earthquake|crisis|war|study|paper)(?:\w*))"
)
_SHORT_YEAR = re.compile(r"(?<![\w'])'(\d\d)(?![\w'])")
_YEAR = re.compile(
    r"\b((?:in|q[1-4]|h[12]|fy|copyright|christmas|since|from|until|till|by|before|after|during|around|circa|year|of|and|to|late|early|mid|summer|winter|spring|fall"
    r"|autumn)[\s-]+|\()((?:1[0-9]|20)\d\d)(?![\w%]|[.,]\d|\s+(?:[a-z]+s|percent|people|of)\b(?<!was)(?<!is)(?<!its)(?<!his))",
    re.I,
)
_DECADE = re.compile(r"(?<![\w.,])'?((?:1[1-9]|20)\d0|[2-9]0)'?s\b")
_ERA = re.compile(r"(?<![\w.,])(\d{1,4})\s?(BCE|BC|CE|AD)\b")


def _half(letter: str | None) -> str:
    return f" {letter.upper()}.M" if letter else ""


def _sentence_stop(match: re.Match[str]) -> str:
    """ "9 a.m." at the end of a text: its last dot also ends the sentence."""
    return "." if match.group().endswith(".") and not match.string[match.end() :].strip() else ""


def _clock(match: re.Match[str]) -> str | None:
    hour, minute, second, half = match.groups()
    if int(hour) > 24:
        return None
    words = say.cardinal(int(hour))
    if int(minute):
        words += (" oh " if int(minute) < 10 else " ") + say.cardinal(int(minute))
    elif not half and not second:
        words += " o'clock" if int(hour) <= 12 else " hundred"
    if second:
        words += f" and {say.cardinal(int(second))} seconds"
    return words + _half(half) + _sentence_stop(match)


def _hour(match: re.Match[str]) -> str | None:
    hour, half = match.groups()
    if not 0 < int(hour) <= 12:
        return None
    return say.cardinal(int(hour)) + _half(half) + _sentence_stop(match)


def _month(word: str) -> str:
    return next(name for name in _MONTHS if name[:3] == word[:3])


def _date(month: int, day: int, year: str) -> str | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    if len(year) == 2:
        year = ("19" if int(year) > 50 else "20") + year
    return f"{_MONTHS[month - 1]} {say.ordinal(day)}, {say.year(int(year))}"


def _us_date(match: re.Match[str]) -> str | None:
    first, second, year = int(match.group(1)), int(match.group(2)), match.group(3)
    return _date(first, second, year) or _date(second, first, year)


def _month_day(match: re.Match[str]) -> str | None:
    word, day, comma, year = match.groups()
    if not 1 <= int(day) <= 31:
        return None
    return f"{_month(word)} {say.ordinal(int(day))}" + (f"{comma} {say.year(int(year))}" if year else "")


def _day_month(match: re.Match[str]) -> str | None:
    _, day, word, year = match.groups()
    if not 1 <= int(day) <= 31:
        return None
    return f"the {say.ordinal(int(day))} of {_month(word)}" + (f" {say.year(int(year))}" if year else "")


def _year_range(match: re.Match[str]) -> str:
    first, second = match.groups()
    last = say.year(int(second)) if len(second) == 4 else say.number(second)
    return f"{say.year(int(first))} to {last}"


def _from_to(match: re.Match[str]) -> str:
    word, gap, first, between, last = match.groups()
    return f"{word}{gap}{say.year(int(first))}{between}{say.year(int(last))}"


def _era(match: re.Match[str]) -> str:
    return f"{say.year(int(match.group(1)))} {match.group(2)}"


def _decade(match: re.Match[str]) -> str:
    words = say.year(int(match.group(1)))
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def say_times(text: Tracked) -> Tracked:
    """ "9:30 a.m." -> "nine thirty A.M", "17:05" -> "seventeen oh five", "7 pm" -> "seven P.M"."""
    text = text.sub(_ISO_TIME, lambda match: f"{match.group(1)}, {match.group(2)}")
    text = text.sub(_CLOCK_RANGE, " to ").sub(_CLOCK, _clock).sub(_HOUR, _hour)
    return text.sub(_HALF_WORD, lambda match: f"{match.group(1).upper()}.M{_sentence_stop(match)}")


def say_dates(text: Tracked) -> Tracked:
    """ "2024-03-05", "3/5/2024", "March 5, 2024", "5 March", "in 1984", "44 BC"."""
    text = text.sub(_ISO_DATE, lambda m: _date(int(m.group(2)), int(m.group(3)), m.group(1)))
    text = text.sub(_US_DATE, _us_date)
    text = text.sub(_DAY_MONTH, _day_month).sub(_MONTH_DAY, _month_day)
    text = text.sub(_MONTH_YEAR, lambda m: f"{_month(m.group(1))}{m.group(2)} {say.year(int(m.group(3)))}")
    text = text.sub(_DECADE, _decade).sub(_YEAR_RANGE, _year_range)
    text = text.sub(_FROM_TO, _from_to)
    text = text.sub(_YEAR_BEFORE_NAME, lambda m: f"{m.group(1)}{m.group(2)}{say.year(int(m.group(3)))}")
    text = text.sub(_SHORT_YEAR, lambda m: say.number(m.group(1)))
    return text.sub(_YEAR, lambda m: m.group(1) + say.year(int(m.group(2)))).sub(_ERA, _era)
