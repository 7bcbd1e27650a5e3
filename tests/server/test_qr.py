"""The QR code of the address: what the terminal shows is what segno has computed."""

from __future__ import annotations

import io

import pytest
import segno
from rich.console import Console

from app.server.qr import qr_code

ADDRESS = "https://192.168.178.23:8080/#token=abcdefghijklmnopqrstuvwxyz012345"
MODULES = {"█": (0, 0), "▀": (0, 1), "▄": (1, 0), " ": (1, 1)}


def terminal(**changes: object) -> Console:
    file = io.TextIOWrapper(io.BytesIO(), encoding=str(changes.pop("encoding", "utf-8")))
    options: dict[str, object] = {"force_terminal": True, "color_system": "256", "width": 80, "legacy_windows": False}
    return Console(file=file, **(options | changes))  # type: ignore[arg-type]


def test_the_code_on_the_terminal_is_that_of_the_address_with_its_quiet_zone() -> None:
    code = qr_code(ADDRESS, terminal())
    assert code is not None
    rows = [row for line in code.plain.splitlines() for row in zip(*(MODULES[char] for char in line), strict=True)]
    quiet = [tuple(row) for row in segno.make_qr(ADDRESS, error="l").matrix_iter(border=4)]
    assert rows[: len(quiet)] == quiet
    assert max(len(line) for line in code.plain.splitlines()) <= 45
    assert not any(any(row) for row in rows[len(quiet) :])


def test_light_modules_are_white_on_black_whatever_the_theme_of_the_terminal() -> None:
    console = terminal()
    code = qr_code(ADDRESS, console)
    assert code is not None
    with console.capture() as shown:
        console.print(code)
    assert "\x1b[38;5;231;48;5;16m" in shown.get()


@pytest.mark.parametrize(
    "changes", [{"force_terminal": False}, {"width": 30}, {"color_system": None}, {"encoding": "latin-1"}]
)
def test_where_no_camera_could_read_it_there_is_none(changes: dict[str, object]) -> None:
    assert qr_code(ADDRESS, terminal(**changes)) is None
