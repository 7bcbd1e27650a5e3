"""A turn is fetched by the client in whose call it was."""

from __future__ import annotations

import asyncio
import io
import re
import zipfile

import httpx
import numpy as np
import pytest

from app.config import Settings
from app.server import Answer, create_app
from app.telemetry.turns import KeptTurns

MINE = "/sessions/turns/item_2.zip"


class NoCalls:
    async def offer(self, *_: object, **__: object) -> Answer:
        raise AssertionError

    async def hang_up(self, call_id: str, **_: object) -> None: ...

    async def close_all(self) -> None: ...


def ask(path: str, *, limit_mb: int = 8, server: dict[str, object] | None = None, **headers: str) -> httpx.Response:
    """After a turn "item_2" of the session "mine"."""

    async def main() -> httpx.Response:
        kept = KeptTurns(limit_mb)
        if (tape := kept.tape("mine", asyncio.get_running_loop().time)) is not None:
            tape.begin()
            tape.hear(np.ones(320, np.int16))
            tape.turn_done("item_2", dict, 0)
        settings = Settings.model_validate({"server": server or {}})
        app = create_app(settings, calls=NoCalls(), turns=kept)  # type: ignore[arg-type]
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.get(path, headers=named)

    return asyncio.run(main())


def test_a_turn_is_a_zip_file() -> None:
    response = ask(MINE, x_resume_token="mine")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/zip"
    assert response.headers["cache-control"] == "no-store"
    named = r'attachment; filename="parley-turn-\d{4}-\d\d-\d\d-\d{6}\.zip"'
    assert re.fullmatch(named, response.headers["content-disposition"]), "another name for each turn"
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert archive.testzip() is None
        assert "turn.json" in archive.namelist()


@pytest.mark.parametrize(
    ("path", "token", "limit_mb", "told"),
    [
        ("/sessions/turns/item_2.zip", "yours", 8, "no such turn"),
        ("/sessions/turns/item_2.zip", "", 8, "no such turn"),
        ("/sessions/turns/item_9.zip", "mine", 8, "no such turn"),
        ("/sessions/turns/item_2.zip", "mine", 0, "server.saved_turns_mb = 0"),
    ],
)
def test_what_is_not_there_is_told_in_words(path: str, token: str, limit_mb: int, told: str) -> None:
    response = ask(path, limit_mb=limit_mb, x_resume_token=token)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "turn_not_kept"
    assert told in response.json()["error"]["message"]


def test_the_servers_token_and_origin_are_asked_for_first() -> None:
    locked: dict[str, object] = {"token": "s3cret"}
    assert ask(MINE, server=locked, x_resume_token="mine").status_code == 401
    assert ask(MINE, server=locked, x_resume_token="mine", authorization="Bearer s3cret").status_code == 200
    assert ask(MINE, x_resume_token="mine", origin="https://evil.example").status_code == 403


async def test_files_are_made_one_after_the_other_and_only_so_many_are_waited_for() -> None:
    kept = KeptTurns(8)
    tape = kept.tape("mine", asyncio.get_running_loop().time)
    assert tape is not None
    tape.begin()
    tape.hear(np.ones(320, np.int16))
    tape.turn_done("item_2", dict, 0)
    app = create_app(Settings(), calls=NoCalls(), turns=kept)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        asked = [client.get(MINE, headers={"x-resume-token": "mine"}) for _ in range(20)]
        found = [response.status_code for response in await asyncio.gather(*asked)]
        assert found.count(200) >= 8
        assert set(found) == {200, 503}
        assert (await client.get(MINE, headers={"x-resume-token": "mine"})).status_code == 200
