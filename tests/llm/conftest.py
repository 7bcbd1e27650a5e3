from __future__ import annotations

from pathlib import Path

import pytest

from app.catalog import model_path


@pytest.fixture(scope="session")
def smollm2(store: Path) -> Path:
    return model_path("smollm2-135m-instruct", store, kind="llm")
