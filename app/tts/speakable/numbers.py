"""Numbers in English words."""

from __future__ import annotations

_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = ("", "thousand", "million", "billion", "trillion", "quadrillion")
_IRREGULAR_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
WRITTEN = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
"""Pattern of a number as ``number`` reads it."""
_LONGEST_CARDINAL = 15
"""More digits than this are read one by one: no listener can hold them as a quantity."""


def digits(text: str) -> str:
    """Each digit of ``text`` by its name; other characters are left out."""
    return " ".join(_SMALL[int(char)] for char in text if char.isascii() and char.isdigit())


def cardinal(number: int) -> str:
    """42 -> "forty-two". Raises IndexError from 10**18 on."""
    if number < 0:
        return f"minus {cardinal(-number)}"
    if number < 1000:
        return _below_thousand(number)
    groups: list[str] = []
    for scale in _SCALES:
        number, group = divmod(number, 1000)
        if group:
            groups.append(f"{_below_thousand(group)} {scale}".strip())
        if not number:
            return " ".join(reversed(groups))
    raise IndexError("too large a number to name")


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    words = [f"{_SMALL[hundreds]} hundred"] if hundreds else []
    if rest or not hundreds:
        tens, ones = divmod(rest, 10)
        words.append(_SMALL[rest] if rest < 20 else _TENS[tens] + (f"-{_SMALL[ones]}" if ones else ""))
    return " ".join(words)


def number(text: str) -> str:
    """A written number, with commas and a decimal point if it has them: "1,250.5" -> words.

    A leading zero ("007") or more digits than a cardinal can bear is read digit by digit.
    """
    whole, point, fraction = text.replace(",", "").partition(".")
    if len(whole) > _LONGEST_CARDINAL or (len(whole) > 1 and whole[0] == "0"):
        words = digits(whole)
    else:
        words = cardinal(int(whole or "0"))
    return f"{words} point {digits(fraction)}" if point and fraction else words


def is_one(text: str) -> bool:
    """Whether what is counted by ``text`` stands in the singular."""
    return text in ("1", "1.0", "1.00")


def ordinal(number_: int) -> str:
    """21 -> "twenty-first"."""
    words = cardinal(number_)
    cut = max(words.rfind(" "), words.rfind("-")) + 1
    last = words[cut:]
    if last in _IRREGULAR_ORDINALS:
        return words[:cut] + _IRREGULAR_ORDINALS[last]
    return words[:cut] + (last[:-1] + "ieth" if last.endswith("y") else last + "th")


def year(number_: int) -> str:
    """1984 -> "nineteen eighty-four", 1066 -> "ten sixty-six", 2005 -> "two thousand five", 1905 -> "nineteen oh five"."""
    century, rest = divmod(number_, 100)
    if not 1000 < number_ < 2100 or 2000 <= number_ < 2010:
        return cardinal(number_)
    if not rest:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"
