"""What benchmarks refuse before they begin, and what they tell while they run without a terminal."""

from __future__ import annotations

import pytest

from app.cli.bench.progress import steps
from app.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["voice", "--port", "99999"], "from 0 to 65535"),
        (["voice", "--port", "-1"], "from 0 to 65535"),
        (["voice", "--sessions", "2,0"], "from 1 to 256"),
        (["voice", "--sessions", "two"], "from 1 to 256"),
        (["voice", "--turns", "0"], "from 1 to 1000"),
        (["turns", "--jobs", "0"], "from 1 to 64"),
        (["turns", "--jobs", "-3"], "from 1 to 64"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_with_their_range(
    arguments: list[str], wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", *arguments])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert f"argument {arguments[1]}: '{arguments[2].split(',')[-1]}' must be a whole number {wanted}" in told


def test_a_case_that_is_none_is_told_with_the_kinds_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "turns", "--case", "stop-1", "--case", "nothere"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("parley: No case matches 'nothere'; there are: question-*, statement-*, ")
    assert len(told) < 400


def test_without_a_terminal_every_step_is_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with steps(2, "cases") as progress:
        progress.begin("loading the models")
        progress.finish("stop-1: passed")
        progress.finish("[stop]-2: passed")
    shown = capsys.readouterr()
    assert shown.err.splitlines() == ["loading the models", "1/2 stop-1: passed", "2/2 [stop]-2: passed"]
    assert shown.out == ""


def interrupted_after_one() -> None:
    with steps(80, "cases", line_s=60.0) as progress:
        progress.finish("stop-1: passed")
        raise KeyboardInterrupt


def test_an_interruption_is_told_in_one_line_with_how_far_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_after_one()
    assert capsys.readouterr().err == "parley: interrupted after 1 of 80 cases\n"
