from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from app.catalog import model_path


@pytest.fixture(scope="session")
def smollm2(store: Path) -> Path:
    return model_path("smollm2-135m-instruct", store, kind="llm")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tiny matrices only lose time to a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
