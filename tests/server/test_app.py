from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from app import __version__
from app.config.settings import Settings
from app.dialogue.ports import LastHeard
from app.dialogue.stages import Stages
from app.errors import InvalidRequest, Overloaded, ParleyError, ResumeExpired, SessionLimit, StageUnavailable
from app.server import Answer, Choices, MeteredHost, create_app
from app.server.guard import CONTENT_SECURITY_POLICY
from app.server.signalling import BODY_LIMIT
from app.telemetry.metrics import Metrics
from app.transports.start import AFRESH, Start
from tests.kit.script import FakeRecognizer, FakeVoice
from tests.kit.scripted_session import ScriptedHost, ScriptedSeat

OFFER = {"sdp": "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\n", "type": "offer"}


class Calls:
    """Answers with what it is told to, and remembers."""

    def __init__(self) -> None:
        self.raises: Exception | None = None
        self.hung_up: list[str] = []
        self.left: list[str] = []
        self.start = AFRESH
        self.gate: asyncio.Event | None = None
        self.offers = 0

    async def offer(self, sdp: str, type: str, start: Start = AFRESH) -> Answer:
        self.offers += 1
        self.start = start
        if self.gate:
            await self.gate.wait()
        if self.raises:
            raise self.raises
        return Answer("v=0 answer", "answer", "call-1")

    async def hang_up(self, call_id: str, *, leave: bool = False) -> None:
        (self.left if leave else self.hung_up).append(call_id)

    async def close_all(self) -> None: ...


def client_for(calls: Calls, *, base: str = "http://127.0.0.1:8080", **server: object) -> httpx.AsyncClient:
    settings = Settings.model_validate({"server": server})
    app = create_app(settings, ScriptedHost(), calls)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url=base)


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
async def client(calls: Calls) -> AsyncIterator[httpx.AsyncClient]:
    async with client_for(calls) as client:
        yield client


async def test_an_offer_is_answered_with_a_call_id(client: httpx.AsyncClient) -> None:
    response = await client.post("/offer", json=OFFER)
    assert response.status_code == 200
    assert response.json() == {"sdp": "v=0 answer", "type": "answer", "call_id": "call-1"}
    assert response.headers["cache-control"] == "no-store"


async def test_a_waiting_session_is_ended_by_its_token_and_by_no_other() -> None:
    host = ScriptedHost()
    app = create_app(Settings(), host, Calls())
    seat = await host.open(lambda event: None, transport="test")
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        for token in ("", "another"):
            assert (await client.delete("/sessions", headers={"x-resume-token": token})).status_code == 204
        assert host.active == 1
        for _ in range(2):
            own = {"x-resume-token": seat.resume_token}
            assert (await client.delete("/sessions", headers=own)).status_code == 204
        assert host.active == 0
        foreign = await client.delete("/sessions", headers={"origin": "https://elsewhere.example"})
        assert foreign.json()["error"]["code"] == "wrong_origin"


async def test_hanging_up_is_idempotent(client: httpx.AsyncClient, calls: Calls) -> None:
    for _ in range(2):
        assert (await client.delete("/calls/call-1")).status_code == 204
    assert calls.hung_up == ["call-1", "call-1"]


async def test_a_page_that_goes_away_leaves_without_hanging_up(client: httpx.AsyncClient, calls: Calls) -> None:
    assert (await client.delete("/calls/call-1?leave=1")).status_code == 204
    assert (calls.left, calls.hung_up) == (["call-1"], [])


async def test_an_offer_may_say_what_the_session_is_like_and_which_one_it_goes_on_with(
    client: httpx.AsyncClient, calls: Calls
) -> None:
    resume = {"token": "abc", "heard": {"response_id": "resp_1", "chars": 7}}
    assert (await client.post("/offer", json={**OFFER, "session": {}, "resume": resume})).status_code == 200
    assert calls.start == Start({}, "abc", LastHeard("resp_1", 7))
    assert (await client.post("/offer", json={**OFFER, "resume": {"token": "abc", "heard": None}})).status_code == 200
    assert calls.start == Start(None, "abc", None)


@pytest.mark.parametrize(
    "resume",
    [
        7,
        {},
        {"token": ""},
        {"token": 7},
        {"token": "x" * 1000},
        {"token": "t", "heard": 7},
        {"token": "t", "heard": {"response_id": "r"}},
        {"token": "t", "heard": {"response_id": "r", "chars": -1}},
        {"token": "t", "heard": {"response_id": "r", "chars": True}},
    ],
)
async def test_a_malformed_resume_is_refused_and_opens_nothing(
    client: httpx.AsyncClient, calls: Calls, resume: object
) -> None:
    response = await client.post("/offer", json={**OFFER, "resume": resume})
    assert response.status_code == 400
    assert "resume." in response.json()["error"]["message"]
    assert calls.offers == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b'{"type": "offer"}',
        b'{"sdp": 7, "type": "offer"}',
        b'{"sdp": "hello", "type": "offer"}',
        b'{"sdp": "v=0", "type": "answer"}',
        b"\xff\xfe",
        b"[" * 20_000,
    ],
)
async def test_a_malformed_offer_is_a_400_that_says_what_to_send(
    client: httpx.AsyncClient, calls: Calls, body: bytes
) -> None:
    response = await client.post("/offer", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["code"] == "invalid_request"
    assert error["message"]
    assert calls.offers == 0


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (InvalidRequest("The SDP has no audio."), 400, "invalid_request", None),
        (SessionLimit("All 32 sessions are in use (server.max_sessions)."), 503, "session_limit", "10"),
        (ResumeExpired("That call is over."), 410, "resume_expired", None),
        (Overloaded("Busy.", retry_after_s=2.2), 503, "overloaded", "3"),
        (StageUnavailable("The LLM worker is being restarted."), 503, "stage_unavailable", "2"),
        (ParleyError("x"), 500, "internal_error", None),
    ],
)
async def test_deliberate_errors_become_typed_answers(
    client: httpx.AsyncClient, calls: Calls, error: ParleyError, status: int, code: str, retry_after: str | None
) -> None:
    calls.raises = error
    response = await client.post("/offer", json=OFFER)
    assert response.status_code == status
    assert response.json()["error"]["code"] == code
    assert response.json()["error"]["message"] == str(error)
    assert response.headers.get("retry-after") == retry_after


async def test_an_unexpected_error_tells_the_client_nothing_of_its_inside(
    client: httpx.AsyncClient, calls: Calls
) -> None:
    calls.raises = RuntimeError("secret path /home/x")
    response = await client.post("/offer", json=OFFER)
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.json()["error"]["code"] == "internal_error"


async def test_an_offer_too_large_is_refused_whether_or_not_it_says_so(client: httpx.AsyncClient, calls: Calls) -> None:
    large = json.dumps(OFFER | {"sdp": "v=0" + "a" * BODY_LIMIT}).encode()

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 8192):
            yield large[start : start + 8192]

    headers = {"content-type": "application/json"}
    for content in (large, chunks()):
        response = await client.post("/offer", content=content, headers=headers)
        assert response.status_code == 413
        assert response.json()["error"]["code"] == "too_large"
    assert calls.offers == 0


async def test_an_offer_that_is_no_json_by_its_type_is_refused(client: httpx.AsyncClient, calls: Calls) -> None:
    response = await client.post("/offer", content=json.dumps(OFFER), headers={"content-type": "text/plain"})
    assert response.status_code == 415
    assert calls.offers == 0


async def test_a_burst_of_offers_is_told_to_come_back(client: httpx.AsyncClient, calls: Calls) -> None:
    calls.gate = asyncio.Event()
    waiting = [asyncio.create_task(client.post("/offer", json=OFFER)) for _ in range(16)]
    async with asyncio.timeout(5):
        while calls.offers < 16:  # noqa: ASYNC110 - the fake counts, it does not signal
            await asyncio.sleep(0)
    refused = await client.post("/offer", json=OFFER)
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    calls.gate.set()
    assert {response.status_code for response in await asyncio.gather(*waiting)} == {200}
    assert (await client.post("/offer", json=OFFER)).status_code == 200


async def test_pages_of_other_sites_cannot_open_or_end_calls(client: httpx.AsyncClient, calls: Calls) -> None:
    headers = {"origin": "https://evil.example"}
    for response in (
        await client.post("/offer", json=OFFER, headers=headers),
        await client.delete("/calls/call-1", headers=headers),
    ):
        assert response.status_code == 403
        assert response.json()["error"]["code"] == "wrong_origin"
    assert calls.offers == 0
    assert calls.hung_up == []
    assert (await client.post("/offer", json=OFFER, headers={"origin": "http://127.0.0.1:8080"})).status_code == 200


async def test_a_rebound_name_is_refused_for_the_page_too(calls: Calls) -> None:
    async with client_for(calls, base="http://rebound.evil.example:8080") as client:
        for path in ("/", "/config.json", "/metrics"):
            response = await client.get(path)
            assert response.status_code == 421
        assert (await client.post("/offer", json=OFFER)).status_code == 421


async def test_an_allowed_origin_may_call_and_read_the_answer(calls: Calls) -> None:
    async with client_for(calls, allowed_origins=("https://talk.example",)) as client:
        origin = {"origin": "https://talk.example"}
        asked = {
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        preflight = await client.options("/offer", headers=origin | asked)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "https://talk.example"
        response = await client.post("/offer", json=OFFER, headers=origin)
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "https://talk.example"
        other = await client.post("/offer", json=OFFER, headers={"origin": "https://evil.example"})
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers


async def test_with_a_token_calls_and_metrics_want_it_but_the_page_loads(calls: Calls) -> None:
    async with client_for(calls, base="http://box.lan:8080", host="0.0.0.0", token="s3cret") as client:
        assert (await client.get("/")).status_code == 200
        assert (await client.get("/healthz")).status_code == 200
        good, bad = {"authorization": "Bearer s3cret"}, {"authorization": "Bearer nope"}
        for headers in ({}, bad):
            response = await client.post("/offer", json=OFFER, headers=headers)
            assert response.status_code == 401
            assert response.json()["error"]["code"] == "wrong_token"
            assert response.headers["www-authenticate"].startswith("Bearer")
            assert (await client.delete("/calls/call-1", headers=headers)).status_code == 401
            assert (await client.get("/metrics", headers=headers)).status_code == 401
            assert (await client.get("/config.json", headers=headers)).json() == {
                "token_required": True,
                "token_accepted": False,
            }
        assert (await client.post("/offer", json=OFFER, headers=good)).status_code == 200
        assert (await client.get("/metrics", headers=good)).status_code == 200
        config = await client.get("/config.json", headers=good)
        assert config.json()["token_accepted"] is True
        assert config.json()["models"]["llm"]
        assert "s3cret" not in config.text


def choices_of(asr: FakeRecognizer) -> Choices:
    return Choices.of(Stages(None, asr, None, FakeVoice(), None, None))  # type: ignore[arg-type]


async def test_the_page_learns_what_a_session_may_choose_from(calls: Calls) -> None:
    choices = choices_of(FakeRecognizer(languages=("en", "de")))
    server = {"recording": True, "resume_s": 30.0, "saved_turns_mb": 0}
    for allowed in (False, True):
        settings = Settings.model_validate({"server": server | {"client_instructions": allowed}})
        app = create_app(settings, ScriptedHost(), calls, choices=choices)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            told = (await client.get("/config.json")).json()
        assert told["voices"] == ["one", "two"]
        assert told["default_voice"] == "one"
        assert told["speeds"] == [0.5, 2.0]
        assert told["languages"] == ["en", "de", "auto"]
        assert told["client_instructions"] is allowed
        assert ("instructions" in told) is allowed, "a prompt nobody may change is nobody's business"
        assert (told["recording"], told["resume_s"], told["saved_turns"]) == (True, 30.0, False)
        assert told["version"] == __version__
    assert choices_of(FakeRecognizer()).languages == ("en",), "there is nothing to choose from automatically"


async def test_the_page_is_served_with_types_etags_and_a_strict_policy(client: httpx.AsyncClient) -> None:
    for path, media_type in (
        ("/", "text/html"),
        ("/js/main.js", "text/javascript"),
        ("/css/style.css", "text/css"),
        ("/favicon.svg", "image/svg+xml"),
    ):
        response = await client.get(path)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith(media_type)
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        again = await client.get(path, headers={"if-none-match": response.headers["etag"]})
        assert again.status_code == 304
    assert "unsafe-inline" not in CONTENT_SECURITY_POLICY


@pytest.mark.parametrize("path", ["/nothing", "/../pyproject.toml", "/%2e%2e/app/errors.py", "/js/../../app/errors.py"])
async def test_nothing_outside_the_page_is_served(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(path)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"


async def test_a_wrong_method_is_a_typed_405(client: httpx.AsyncClient) -> None:
    response = await client.put("/offer")
    assert response.status_code == 405
    assert response.json()["error"]["code"] == "method_not_allowed"


async def test_readiness_follows_the_stages() -> None:
    stages = {"ASR": True, "LLM": False}
    app = create_app(Settings(), ScriptedHost(), Calls(), stages_ready=lambda: stages)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        waiting = await client.get("/readyz")
        assert (waiting.status_code, waiting.json()["stages"]) == (503, stages)
        stages["LLM"] = True
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/healthz")).json() == {"status": "ok", "service": "parley"}


async def test_metrics_count_sessions_turns_latencies_and_errors() -> None:
    metrics = Metrics()
    scripted = ScriptedHost()
    host = MeteredHost(scripted, metrics)
    told: list[object] = []
    await host.open(told.append, transport="webrtc")
    session = scripted.sessions[0]
    session.turn("r1", early_ms=150.0, wasted=7, endpoint=400, asr=120, voice_to_voice=900)
    session.send("parley.backchannel", item_id="u2", transcript="Mm-hm.")
    session.send("response.done", response={"id": "r1", "status": "cancelled"})
    session.send("error", error={"type": "server_error", "code": "stage_timeout", "message": ""})
    session.send("parley.notice", code="stage_failed", text="Sorry.")
    app = create_app(Settings(), host, Calls(), metrics=metrics)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        await client.post("/offer", content=b"x", headers={"content-type": "application/json"})
        lines = set((await client.get("/metrics")).text.splitlines())
    assert {
        "parley_sessions_active 1.0",
        'parley_sessions_total{transport="webrtc"} 1.0',
        "parley_turns_total 1.0",
        "parley_backchannels_total 1.0",
        "parley_early_tokens_wasted_total 7.0",
        'parley_early_reply_seconds_bucket{le="0.1"} 0.0',
        'parley_early_reply_seconds_bucket{le="0.2"} 1.0',
        'parley_replies_total{status="cancelled"} 1.0',
        'parley_errors_total{code="stage_timeout"} 1.0',
        'parley_notices_total{code="stage_failed"} 1.0',
        'parley_refused_total{code="invalid_request"} 1.0',
        'parley_stage_seconds_count{stage="asr"} 1.0',
        'parley_stage_seconds_bucket{le="1.0",stage="voice_to_voice"} 1.0',
        'parley_stage_seconds_bucket{le="0.75",stage="voice_to_voice"} 0.0',
    } <= lines
    assert len(told) == 7, "every event also reached the client"


async def test_gaps_in_replies_are_counted_once_however_often_a_client_is_lost_and_comes_back() -> None:
    metrics, scripted = Metrics(), ScriptedHost()
    host = MeteredHost(scripted, metrics)
    first = await host.open(lambda event: None, transport="webrtc")
    assert isinstance(first, ScriptedSeat)
    await asyncio.sleep(0)
    first.underruns = 50
    second = await host.resume(first.resume_token, lambda event: None, transport="websocket")
    assert isinstance(second, ScriptedSeat)
    second.underruns = 50  # they are the session's
    await asyncio.sleep(0.01)
    second.underruns = 75
    await second.leave()
    await asyncio.sleep(0.01)
    assert "parley_underrun_seconds_total 1.5" in metrics.render().decode()
    assert 'parley_sessions_total{transport="websocket"}' not in metrics.render().decode()
