#!/bin/sh
# OpenVINO GenAI, and optimum-intel to export a model for it, in a virtual environment of its own.
# Usage: benchmarks/peers/openvino.sh [FOLDER]    (default: benchmarks/peers/.venvs/openvino)
# Torch is needed for the export only. torchvision, which optimum-intel asks for and a language model does not need, is
# left out: it would bring torch's CUDA build with it.
set -eu
version=2026.4.1.0
folder=${1:-$(dirname "$0")/.venvs/openvino}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
[ -e "$folder/.ready-$version" ] && exit 0
[ -x "$folder/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder"
python="$folder/bin/python"
"$python" -m pip install --quiet "torch==2.13.0+cpu" || "$python" -m pip install --quiet torch==2.13.0
"$python" -m pip install --quiet --no-deps optimum-intel==2.2.0 optimum==2.3.0
"$python" -m pip install --quiet "openvino-genai==$version" "transformers>=4.51,<5.6" "huggingface-hub<1.22" nncf "requests>=2.33"
"$python" -c "import openvino_genai, torch; print('openvino-genai', openvino_genai.__version__, 'torch', torch.__version__)"
touch "$folder/.ready-$version"
