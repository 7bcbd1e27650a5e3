"""The files of the page, always revalidated so that an upgraded server never meets an old page."""

from __future__ import annotations

import mimetypes
import os
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

WEB_ROOT = Path(__file__).resolve().parents[2] / "web"

# Some systems map .js to text/plain, and browsers refuse modules of that type.
mimetypes.add_type("text/javascript", ".js")
mimetypes.add_type("image/svg+xml", ".svg")
mimetypes.add_type("application/manifest+json", ".webmanifest")


class Page(StaticFiles):
    """Static files with an ETag each and ``Cache-Control: no-cache``."""

    def __init__(self, root: Path) -> None:
        super().__init__(directory=root, html=True)

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["cache-control"] = "no-cache"
        return response
