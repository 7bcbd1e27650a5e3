"""Numbers, signs and punctuation of Chinese text, in characters, for voices that read no digits."""

from __future__ import annotations

import re

from app.tts.speakable import chinese_numbers as say
from app.tts.speakable.tracked import Tracked

_NUM = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_SIGNED = rf"[-−]?(?:{_NUM})"
_BEFORE = r"(?<![\dA-Za-z.])"
_AFTER = r"(?![\d%]|\.\d)"
_BIG = "万亿|百万|千万|万|亿"
_MEASURE_WORDS = "个|位|名|本|只|条|张|件|次|种|天|周|年|小时|分钟|秒|点|块|元|美元|人|家|杯|瓶|岁|倍|层|台|辆|双|套|份|斤|公斤|千克|公里|米|碗|部|篇|首|句|步|遍|间|把|座|颗|棵|支|盒|万|亿"
_CURRENCIES = {"¥": "元", "￥": "元", "$": "美元", "US$": "美元", "€": "欧元", "£": "英镑", "₩": "韩元", "HK$": "港元"}
_UNITS = {
    "km/h": "公里每小时",
    "m/s": "米每秒",
    "km²": "平方公里",
    "m²": "平方米",
    "m³": "立方米",
    "km": "公里",
    "cm": "厘米",
    "mm": "毫米",
    "m": "米",
    "kg": "公斤",
    "mg": "毫克",
    "g": "克",
    "ml": "毫升",
    "mL": "毫升",
    "L": "升",
    "min": "分钟",
    "ms": "毫秒",
    "s": "秒",
    "h": "小时",
    "kWh": "千瓦时",
    "kW": "千瓦",
    "W": "瓦",
    "V": "伏",
    "Hz": "赫兹",
    "kHz": "千赫兹",
    "MHz": "兆赫兹",
    "GHz": "吉赫兹",
    "dB": "分贝",
    "kcal": "千卡",
}
_UNIT_WORDS = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_SIGN_WORDS = "|".join(re.escape(sign) for sign in sorted(_CURRENCIES, key=len, reverse=True))

_DATE = re.compile(rf"{_BEFORE}(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}})(?![\d/-]|\.\d)")
_YEAR_SPAN = re.compile(r"(?<!\d)([12]\d{3})\s?[-–—~～至到]\s?([12]\d{3})(?=年)")
_YEAR = re.compile(r"(?<!\d)([12]\d{3})\s?(?=年(?![前来后间多]|以[前来后]|之[前后]))")
_CLOCK = re.compile(r"(?<![\d:：])([01]?\d|2[0-4])[:：]([0-5]\d)(?:[:：]([0-5]\d))?(?![\d:：])")
_MOBILE = re.compile(r"(?<![\d.])(?:\+?86[- ]?)?1[3-9]\d[- ]?\d{4}[- ]?\d{4}(?!\d)")
_LANDLINE = re.compile(r"(?<![\d.])(?:0\d{2,3}[- ]\d{7,8}|[48]00[- ]?\d{3}[- ]?\d{4})(?!\d)")
_AFTER_PHONE_WORD = re.compile(
    r"((?:电话|手机|热线|号码|密码|验证码|邮编|拨打|拨|房间号?|学号|账号|卡号)(?:号码|号)?[是为:：]?\s*)(\d[\d -]{1,20}\d)(?![\d.])"
)
_CHAPTER = re.compile(r"第\s?(\d{1,9})(?!\d)")
_PERCENT_SPAN = re.compile(rf"{_BEFORE}({_NUM})\s?%?\s?[-–—~～至到]\s?({_NUM})\s?%")
_PERCENT = re.compile(rf"{_BEFORE}({_SIGNED})\s?([%‰])")
_CELSIUS = re.compile(rf"{_BEFORE}([-−]?)({_NUM})\s?(℃|°\s?C|℉|°\s?F|°)")
_MONEY = re.compile(rf"([-−]?)({_SIGN_WORDS})\s?({_NUM})\s?({_BIG})?(?:元|人民币)?")
_MEASURE = re.compile(rf"{_BEFORE}({_SIGNED})\s?({_UNIT_WORDS})(?![\w²³/])", re.ASCII)
_FRACTION = re.compile(rf"{_BEFORE}(\d{{1,4}})/(\d{{1,4}})(?![\d/])")
_TEN_TO = re.compile(r"(?<=[\d.])\s?[×xX*·]\s?10\^?([-−]?\d+)(?!\d)|(?<=\d)[eE]([-+−]?\d{1,3})(?!\w)")
_POWER = re.compile(r"(?<=[\w)])\^([-−]?\w+)")
_SQUARE = re.compile(r"(?<=[\w)])²")
_CUBE = re.compile(r"(?<=[\w)])³")
_VERSION = re.compile(
    r"(?<![A-Za-z\d.])(?:版本)?([vV]\s?)?(\d+(?:\.\d+){2,})(?![\d.]*\d)|(?<![A-Za-z])(?:版本)?[vV](\d+(?:\.\d+)?)(?![A-Za-z\d])"
)
_SPAN = re.compile(rf"{_BEFORE}({_NUM})\s?[-–—~～]\s?({_NUM}){_AFTER}")
_RATIO = re.compile(r"(?<![\d:：])(\d{1,4})[:：](\d{1,4})(?![\d:：])")
_MINUS = re.compile(r"(?<![A-Za-z\d）)])[-−](?=\d)")
_NAME_HYPHEN = re.compile(r"(?<=[A-Za-z])-(?=\d)")
_COUNT = re.compile(rf"(?<![\d.\w])2\s?(?={_MEASURE_WORDS})|(?<=[^\W\d_])2(?={_MEASURE_WORDS})")
_NUMBER = re.compile(rf"(?:{_NUM})")
_OPERATORS = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"\s*(?:!=|≠)\s*", "不等于"),
        (r"\s*(?:<=|≤)\s*", "小于等于"),
        (r"\s*(?:>=|≥)\s*", "大于等于"),
        (r"(?<=[\w)])\s*≈\s*(?=\w)", "约等于"),
        (r"\s*(?:->|=>|→|⇒)\s*", "，"),
        (r"(?<=[\w)%])\s*==?\s*(?=[\w(-])", "等于"),
        (r"(?<=[\w)])\s*<\s*(?=[\w(-])", "小于"),
        (r"(?<=[\w)])\s*>\s*(?=[\w(-])", "大于"),
        (r"(?<=\d)\s*\+\s*(?=\d)|(?<=\w)\s+\+\s+(?=\w)", "加"),
        (r"(?<=\d)\s+-\s+(?=\d)|(?<=\w)\s*−\s*(?=\w)", "减"),
        (r"(?<=[\w)])\s*[×*]\s*(?=[\w(])", "乘以"),
        (r"(?<=[\w)])\s*÷\s*(?=[\w(])", "除以"),
        (r"\s*±\s*", "正负"),
        (r"(?<![A-Za-z\d])[~～≈]\s?(?=\d)", "约"),
        (r"(?<=\w)\s*&\s*(?=\w)", "和"),
        (r"(?<![A-Za-z\d])#(?=\d)", "第"),
        (r"(?<![A-Za-z\d])#(?=\w)", ""),
        (r"(?<=[\u4e00-\u9fff])\s*/\s*(?=[\u4e00-\u9fff])", "或"),
    )
)
_HAN = "\u3400-\u9fff"
_MARKS = {",": "，", ".": "。", "!": "！", "?": "？", ";": "；", ":": "："}
_HALF_MARK = re.compile(rf"(?<=[{_HAN}])\s*([,.!?;:])(?![A-Za-z\d.])\s*")
_DASHES = re.compile(r"\s*(?:——+|—|--+)\s*")
_DOTS = re.compile(r"(?:…+|。{2,}|\.{3,})")
_SILENT = re.compile("[「」『』《》〈〉【】（）()]")
_GAP = re.compile(rf"(?<=[{_HAN}，。！？；：、])\s+(?=[{_HAN}])|\s+(?=[，。！？；：、])")


def _date(match: re.Match[str]) -> str | None:
    year, _, month, day = match.groups()
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    return f"{say.digits(year)}年{say.cardinal(int(month))}月{say.cardinal(int(day))}日"


def _clock(match: re.Match[str]) -> str:
    hour, minute, second = match.groups()
    words = ("两" if int(hour) == 2 else say.cardinal(int(hour))) + "点"
    if int(minute) or second:
        words += ("零" if 0 < int(minute) < 10 else "") + say.cardinal(int(minute)) + "分"
    return words + (say.cardinal(int(second)) + "秒" if second else "")


def _temperature(match: re.Match[str]) -> str:
    minus, amount, scale = match.groups()
    cold = "零下" if minus else ""
    if "F" in scale or scale == "℉":
        return f"华氏{cold}{say.number(amount)}度"
    return f"{cold}{say.number(amount)}{'度' if scale == '°' else '摄氏度'}"


def _money(match: re.Match[str]) -> str:
    minus, sign, amount, big = match.groups()
    if "." in amount:
        amount = amount.rstrip("0").rstrip(".")
    return f"{'负' if minus else ''}{say.count(amount)}{big or ''}{_CURRENCIES[sign]}"


def _version(match: re.Match[str]) -> str:
    mark, long, short = match.groups()
    words = "点".join(say.number(part) for part in (long or short).split("."))
    return f"版本{words}" if mark or short or match.group().startswith("版本") else words


def _power(match: re.Match[str]) -> str:
    exponent = match.group(1)
    if exponent in ("2", "3"):
        return "的平方" if exponent == "2" else "的立方"
    return f"的{say.number(exponent) if exponent.lstrip('-−').isdecimal() else exponent}次方"


def say_chinese(text: Tracked) -> Tracked:
    """ "2024年5月1日下午3:30, 50%, ¥35" -> "二零二四年五月一日下午三点三十分，百分之五十，三十五元"."""
    text = text.sub(_DATE, _date)
    text = text.sub(_YEAR_SPAN, lambda m: f"{say.digits(m.group(1))}到{say.digits(m.group(2))}")
    text = text.sub(_YEAR, lambda m: say.digits(m.group(1)))
    text = text.sub(_AFTER_PHONE_WORD, lambda m: m.group(1) + say.digits(m.group(2)))
    text = text.sub(_MOBILE, _digits).sub(_LANDLINE, _digits).sub(_CLOCK, _clock)
    text = text.sub(_CHAPTER, lambda m: f"第{say.cardinal(int(m.group(1)))}")
    text = text.sub(_PERCENT_SPAN, lambda m: f"百分之{say.number(m.group(1))}到{say.number(m.group(2))}")
    text = text.sub(_PERCENT, lambda m: f"{'百' if m.group(2) == '%' else '千'}分之{say.number(m.group(1))}")
    text = text.sub(_CELSIUS, _temperature).sub(_MONEY, _money)
    text = text.sub(_MEASURE, lambda m: say.count(m.group(1)) + _UNITS[m.group(2)])
    text = text.sub(_TEN_TO, lambda m: f"乘以十的{say.number((m.group(1) or m.group(2)).lstrip('+'))}次方")
    text = text.sub(_SQUARE, "的平方").sub(_CUBE, "的立方").sub(_POWER, _power)
    text = text.sub(_FRACTION, lambda m: f"{say.number(m.group(2))}分之{say.number(m.group(1))}")
    text = text.sub(_VERSION, _version)
    text = text.sub(_SPAN, lambda m: f"{say.number(m.group(1))}到{say.number(m.group(2))}")
    text = text.sub(_RATIO, lambda m: f"{say.number(m.group(1))}比{say.number(m.group(2))}")
    for pattern, word in _OPERATORS:
        text = text.sub(pattern, word)
    text = text.sub(_NAME_HYPHEN, "")
    return text.sub(_MINUS, "负").sub(_COUNT, "两").sub(_NUMBER, lambda m: say.number(m.group()))


def _digits(match: re.Match[str]) -> str:
    return say.digits(match.group())


def chinese_marks(text: Tracked) -> Tracked:
    """Half-width marks after a character become full-width, dashes pauses; brackets and title marks are not heard."""
    text = text.sub(_DOTS, "。").sub(_DASHES, "，").sub(_SILENT, " ")
    return text.sub(_HALF_MARK, lambda match: _MARKS[match.group(1)]).sub(_GAP, "")
