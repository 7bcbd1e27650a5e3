from __future__ import annotations

import time

from app.bench.turns.load import Watch


def test_work_of_this_process_is_its_own_and_not_that_of_others() -> None:
    watch = Watch()
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    own_cores, other_cores = watch.cores()
    assert own_cores > 0.0
    assert other_cores >= 0.0
