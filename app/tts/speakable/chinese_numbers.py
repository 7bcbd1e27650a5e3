"""Numbers in Chinese characters."""

from __future__ import annotations

_DIGITS = "零一二三四五六七八九"
_PLACES = ((1000, "千"), (100, "百"), (10, "十"), (1, ""))
_MYRIADS = ("", "万", "亿", "万亿")
_LONGEST_CARDINAL = 15
"""More digits than this are read one by one."""


def digits(text: str) -> str:
    """Each digit of ``text`` by its name; other characters are left out."""
    return "".join(_DIGITS[int(char)] for char in text if char.isascii() and char.isdigit())


def cardinal(number: int) -> str:
    """2024 -> "两千零二十四". ``number`` has at most 16 digits and is not negative."""
    if not number:
        return _DIGITS[0]
    words = ""
    gap = False
    for index in reversed(range(len(_MYRIADS))):
        group = number // 10_000**index % 10_000
        if not group:
            gap = bool(words)
            continue
        if words and (gap or group < 1000):
            words += _DIGITS[0]
        words += ("两" if group == 2 and index else _group(group)) + _MYRIADS[index]
        gap = False
    return words.removeprefix("一") if words.startswith("一十") else words


def _group(number: int) -> str:
    words = ""
    gap = False
    for value, name in _PLACES:
        digit, number = divmod(number, value)
        if not digit:
            gap = bool(words)
            continue
        words += (_DIGITS[0] if gap else "") + ("两" if digit == 2 and value >= 100 else _DIGITS[digit]) + name
        gap = False
    return words


def number(text: str) -> str:
    """A written number, with commas, a decimal point or a minus if it has them: "-1,250.5" -> characters."""
    if text[0] in "-−":
        return "负" + number(text[1:])
    whole, point, fraction = text.replace(",", "").partition(".")
    if len(whole) > _LONGEST_CARDINAL or (len(whole) > 1 and whole[0] == "0"):
        words = digits(whole)
    else:
        words = cardinal(int(whole or "0"))
    return f"{words}点{digits(fraction)}" if point and fraction else words


def count(text: str) -> str:
    """Before a measure word, where two is 两."""
    return "两" if text == "2" else number(text)
