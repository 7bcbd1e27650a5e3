"""LaTeX and inline mathematics, worded as someone reading them aloud would."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.tts.speakable.tracked import Tracked


@dataclass(frozen=True, slots=True)
class Wording:
    """How one language reads a formula; {0} and {1} are its parts. Signs it leaves are worded with the other text."""

    squared: str
    cubed: str
    power: str
    over: str
    root: str
    cube_root: str
    sum: str
    sum_over: str
    integral: str
    integral_over: str
    limit: str
    minus: str
    plus: str
    times: str
    slash: str
    symbols: dict[str, str]


_GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"),
    *("iota", "kappa", "lambda", "mu", "nu", "xi", "pi", "rho"),
    *("sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
)
_GREEK_COMMANDS = {name: name for name in _GREEK} | {name.capitalize(): name for name in _GREEK}
_GREEK_LETTERS = dict(zip("αβγδεζηθικλμνξπρστυφχψω", _GREEK, strict=True)) | {
    "Δ": "delta",
    "Σ": "sigma",
    "Ω": "omega",
    "Φ": "phi",
    "Ψ": "psi",
    "Γ": "gamma",
    "Θ": "theta",
    "Λ": "lambda",
    "Π": "pi",
    "ϕ": "phi",
}
_COMMON_SYMBOLS = _GREEK_COMMANDS | {
    "varepsilon": "epsilon",
    "varphi": "phi",
    "times": "×",
    "cdot": "×",
    "div": "÷",
    "pm": "±",
    "leq": "≤",
    "le": "≤",
    "geq": "≥",
    "ge": "≥",
    "neq": "≠",
    "ne": "≠",
    "approx": "≈",
    "left": "",
    "right": "",
    "quad": "",
    "qquad": "",
    "displaystyle": "",
    "ldots": "...",
    "cdots": "...",
    "dots": "...",
}
ENGLISH = Wording(
    squared=" squared",
    cubed=" cubed",
    power=" to the power of {0}",
    over=" {0} over {1} ",
    root=" the square root of {0} ",
    cube_root=" the cube root of {0} ",
    sum=" the sum of ",
    sum_over=" the sum from {0} to {1} of ",
    integral=" the integral of ",
    integral_over=" the integral from {0} to {1} of ",
    limit=" the limit as {0} of ",
    minus=" minus ",
    plus=" plus ",
    times=" times ",
    slash=" over ",
    symbols=_COMMON_SYMBOLS
    | {
        "infty": "infinity",
        "to": "approaches",
        "rightarrow": "goes to",
        "Rightarrow": "implies",
        "in": "in",
        "notin": "not in",
        "degree": " degrees",
        "circ": " degrees",
        "partial": "partial",
        "nabla": "nabla",
        "equiv": "is equivalent to",
        "propto": "is proportional to",
        "forall": "for all",
        "exists": "there exists",
        "cup": "union",
        "cap": "intersection",
        "subset": "is a subset of",
        "sin": "sine",
        "cos": "cosine",
        "tan": "tangent",
        "ln": "natural log of",
        "log": "log",
        "exp": "exp",
        "max": "max",
        "min": "min",
    },
)
CHINESE = Wording(
    squared="的平方",
    cubed="的立方",
    power="的{0}次方",
    over="{1}分之{0}",
    root="根号{0}",
    cube_root="三次根号{0}",
    sum="求和",
    sum_over="从{0}到{1}求和",
    integral="积分",
    integral_over="从{0}到{1}的积分",
    limit="当{0}时的极限",
    minus="减",
    plus="加",
    times="乘以",
    slash="除以",
    symbols=_COMMON_SYMBOLS
    | {"infty": "无穷大", "to": "趋于", "rightarrow": "趋于", "in": "属于", "degree": "度", "circ": "度", "pi": "派"},
)

_DOLLARS = re.compile(r"(?<![A-Za-z\d$\\])\$\$?(?=\S)(?!\d[\d.,]*(?:\s|[-–]\$|$))([^$\n]{1,200}?)(?<=\S)\$\$?(?![\d$])")
_ROUND = re.compile(r"\\\(\s*(.{1,300}?)\s*\\\)|\\\[\s*(.{1,300}?)\s*\\\]", re.S)
_MATHEMATICAL = re.compile(r"[\\^_=+*/<>]|^[A-Za-z]$|^[A-Za-z]['(]|^-?\d[\d.,]*$|^[\d\sA-Za-z()-]{1,5}$")
_PROSE = re.compile(r"(?<![\\A-Za-z])(?!(?:sin|cos|tan|log|lim|exp|max|min|mod)\b)[A-Za-z]{4,}\s")
_TEXT = r"\\(?:text|mathrm|operatorname|mathbf|mathit|mathcal|mathbb|textbf|boxed)\s*\{([^{}]*)\}"
_NAMES = re.compile(rf"{_TEXT}|\\[A-Za-z]+|[A-Za-z]{{2,}}")
_FUNCTIONS = {"sin", "cos", "tan", "log", "ln", "exp", "lim", "max", "min", "mod"}
_FUNCTION_CALL = re.compile(r"(?<![\w\\])([fghFGHP])\(([A-Za-z])\)")
_FRACTION = re.compile(r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_ROOT = re.compile(r"\\sqrt\s*(?:\[(\d)\])?\s*\{([^{}]*)\}")
_BOUNDS = r"\s*_(?:\{([^{}]*)\}|(\w))\s*\^(?:\{([^{}]*)\}|(\\?\w+))"
_SUM_OVER = re.compile(rf"\\sum{_BOUNDS}")
_INTEGRAL_OVER = re.compile(rf"\\int{_BOUNDS}")
_SUM = re.compile(r"\\sum(?![A-Za-z])")
_INTEGRAL = re.compile(r"\\int(?![A-Za-z])")
_LIMIT = re.compile(r"\\lim\s*_\{([^{}]*)\}")
_RAISED = re.compile(r"\s*\^\s*(?:\{([^{}]*)\}|(-?\d+|\w))")
_DEGREES = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)")
_LOWERED = re.compile(r"(?<=[A-Za-z])_(?:\{([^{}]*)\}|([A-Za-z0-9]))(?![A-Za-z0-9])")
_COMMAND = re.compile(r"\\([A-Za-z]+)\s?")
_SPACING = re.compile(r"\\[,;:!]")
_SPACED_SIGN = re.compile(r"\s*([+=])\s*")
_MINUS_SIGN = re.compile(r"\s*[-−]\s*")
_PLUS_SIGN = re.compile(r"\s*\+\s*")
_OVER_SIGN = re.compile(r"(?<=[\w)])\s*/\s*(?=[A-Za-z(])|(?<=[A-Za-z)])\s*/\s*(?=\w)")
_TIMES_SIGN = re.compile(r"\s*\*\s*")
_RAISED_BRACKET = re.compile(r"\(([^()]*)\)(?=\^)")
_SUPERSCRIPT = re.compile("(?:(?<=[\\d)])|(?<=(?<![A-Za-z])[A-Za-z]))[⁻⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ]+")
_SUBSCRIPT = re.compile("[₀-₉]")
_ORPHAN_SUPERSCRIPT = re.compile("(?<=[A-Za-z]{2})[⁰¹⁴⁵⁶⁷⁸⁹]+")
_PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ₀₁₂₃₄₅₆₇₈₉", "-0123456789n0123456789")
_GREEK_LETTER = re.compile(
    f"(?<![\\u0370-\\u03ff])(?!(?<=\\d)Ω|(?<=\\d )Ω|μ[msgA])[{''.join(_GREEK_LETTERS)}](?![\\u0370-\\u03ff])"
)
_LINE_WITH_COMMAND = re.compile(r"^.*\\[A-Za-z]{2}.*$", re.M)
_KNOWN_COMMAND = re.compile(
    r"\\(?:[dtc]?frac|sqrt|sum|int|lim|text|mathrm|mathbf|boxed|times|cdot|div|pm|leq?|geq?|neq?|approx|infty|alpha|beta|gamma"
    r"|delta|theta|lambda|mu|pi|sigma|omega|rightarrow|Rightarrow|ldots|cdots|left|right|quad|circ)(?![A-Za-z])"
)


def say_formulas(text: Tracked, words: Wording) -> Tracked:
    """ "$E=mc^2$" -> "E = m c squared", "\\frac{1}{2}" -> "1/2"; "$5 and $6" stays money.

    Signs and digits are left to the transforms that follow.
    """
    text = text.sub(_ROUND, lambda match: f" {_formula(match.group(1) or match.group(2), words)} ")
    text = text.sub(_DOLLARS, lambda match: _dollars(match, words))
    if _KNOWN_COMMAND.search(text.text):
        text = text.sub(_LINE_WITH_COMMAND, lambda match: _commands(match.group(), words))
    text = text.sub(_SUPERSCRIPT, lambda match: "^" + match.group().translate(_PLAIN))
    text = text.sub(_ORPHAN_SUPERSCRIPT, "").sub(_SUBSCRIPT, lambda match: match.group().translate(_PLAIN))
    return text.sub(_GREEK_LETTER, lambda match: _GREEK_LETTERS[match.group()])


def _dollars(match: re.Match[str], words: Wording) -> str | None:
    content = match.group(1)
    if not _MATHEMATICAL.search(content) or ("\\" not in content and _PROSE.search(content)):
        return None
    return _formula(content, words)


def _formula(content: str, words: Wording) -> str:
    """Inside marks that say "formula" letters are single and every sign is one of arithmetic."""
    content = _NAMES.sub(_spread, _FUNCTION_CALL.sub(r"\1 of \2", content))
    content = _commands(content, words)
    content = _raise(_RAISED_BRACKET.sub(r" \1", content), words)
    content = _OVER_SIGN.sub(words.slash, content)
    content = _MINUS_SIGN.sub(words.minus, _PLUS_SIGN.sub(words.plus, _TIMES_SIGN.sub(words.times, content)))
    return re.sub(r"[(){}]", " ", content)


def _spread(match: re.Match[str]) -> str:
    whole = match.group()
    if match.group(1) is not None:
        return f"\\text{{{match.group(1)}}}"
    return whole if whole[0] == "\\" or whole in _FUNCTIONS or whole == "of" else " ".join(whole)


def _commands(content: str, words: Wording) -> str:
    content = _SPACING.sub(" ", content)
    content = _SUM_OVER.sub(lambda m: words.sum_over.format(*_bounds(m)), content)
    content = _INTEGRAL_OVER.sub(lambda m: words.integral_over.format(*_bounds(m)), content)
    content = _LIMIT.sub(lambda m: words.limit.format(m.group(1)), content)
    content = _SUM.sub(words.sum, _INTEGRAL.sub(words.integral, content))
    content = _DEGREES.sub(words.symbols["degree"], content)
    content = _LOWERED.sub(lambda m: f" {m.group(1) or m.group(2) or ''}", content)
    for _ in range(4):  # as deep as anyone can follow by ear
        shorter = re.sub(_TEXT, r" \1 ", content)
        shorter = _raise(shorter, words) if "\\" in content else shorter
        shorter = _FRACTION.sub(lambda m: _over(m.group(1), m.group(2), words), shorter)
        shorter = _ROOT.sub(
            lambda m: (words.cube_root if m.group(1) == "3" else words.root).format(m.group(2)), shorter
        )
        if shorter == content:
            break
        content = shorter
    return _COMMAND.sub(
        lambda m: f" {words.symbols[m.group(1)]} " if m.group(1) in words.symbols else m.group(), content
    )


def _bounds(match: re.Match[str]) -> tuple[str, str]:
    return match.group(1) or match.group(2) or "", match.group(3) or match.group(4) or ""


def _over(upper: str, lower: str, words: Wording) -> str:
    if upper.strip().isdecimal() and lower.strip().isdecimal():
        return f" {upper.strip()}/{lower.strip()} "
    return words.over.format(*(_SPACED_SIGN.sub(r" \1 ", part).strip() for part in (upper, lower)))


def _raise(content: str, words: Wording) -> str:
    return _RAISED.sub(lambda match: _raised((match.group(1) or match.group(2) or "").strip(), words), content)


def _raised(exponent: str, words: Wording) -> str:
    if exponent == "2":
        return words.squared + " "
    return words.cubed + " " if exponent == "3" else words.power.format(exponent) + " "
