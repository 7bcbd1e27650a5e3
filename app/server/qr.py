"""An address as a QR code, for the camera of a phone."""

from __future__ import annotations

import segno
from rich.console import Console
from rich.style import Style
from rich.text import Text

_QUIET_ZONE = 4
"""Light modules around the code, as ISO/IEC 18004 wants them."""
_HALVES = {(0, 0): "█", (0, 1): "▀", (1, 0): "▄", (1, 1): " "}
"""A character is two modules high; its ink is the light ones, since the terminal's own colours are not to be relied on."""
_LIGHT_ON_DARK = Style(color="color(231)", bgcolor="color(16)")  # white on black, whatever the theme makes of "white"


def qr_code(address: str, console: Console) -> Text | None:
    """The code of ``address``; None where nobody could scan it: no terminal, no colours, too narrow, no such letters."""
    if not console.is_terminal or console.color_system is None or not console.encoding.lower().startswith("utf"):
        return None
    code = segno.make_qr(address, error="l")  # a screen has no dirt on it, and a smaller code is read from farther away
    rows = [list(row) for row in code.matrix_iter(border=_QUIET_ZONE)]
    if len(rows[0]) > console.width:
        return None
    rows.append([0] * len(rows[0]))  # an odd number of modules, and two a line
    lines = (
        "".join(_HALVES[pair] for pair in zip(*both, strict=True)) for both in zip(rows[::2], rows[1::2], strict=False)
    )
    return Text("\n".join(lines), style=_LIGHT_ON_DARK, no_wrap=True)
