"""The child process that talks to Hugging Face: an order as JSON on stdin, the outcome as JSON on stdout.

Run as ``python -m app.catalog.hub_fetch`` by ``app.catalog.hub``.
"""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path


def main() -> int:
    order = json.load(sys.stdin)
    from huggingface_hub import constants, errors, snapshot_download

    try:
        folder = snapshot_download(
            order["repo"],
            revision=order["revision"],
            allow_patterns=order["patterns"],
            ignore_patterns=["original/*", "onnx/*", "openvino/*"],
            local_dir=order["local_dir"],
        )
        if order["local_dir"]:
            missing = [path for path in order["patterns"] if not (Path(folder) / path).is_file()]
            if missing:
                return _fail("not_found", ", ".join(missing))
    except (errors.GatedRepoError, errors.DisabledRepoError) as error:
        return _fail("denied", str(error))
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.EntryNotFoundError) as error:
        if isinstance(error, errors.LocalEntryNotFoundError):  # nothing cached and the hub was not reached
            return _fail("offline" if constants.HF_HUB_OFFLINE else "no_network", str(error))
        return _fail("not_found", str(error))
    except OSError as error:
        return _fail("disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "no_network", str(error))
    except Exception as error:
        transport = type(error).__module__.split(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2")
        return _fail("no_network" if transport else "failed", f"{type(error).__name__}: {error}")
    print(json.dumps({"folder": str(folder)}))
    return 0


def _fail(code: str, detail: str) -> int:
    print(json.dumps({"code": code, "detail": detail.strip().splitlines()[0] if detail.strip() else code}))
    return 1


if __name__ == "__main__":
    sys.exit(main())
