#!/bin/sh
# transformers with the very packages that Parley runs on, so that the engines differ and not torch: a virtual environment
# that looks into Parley's.
# Usage: benchmarks/peers/transformers.sh [FOLDER]    (default: benchmarks/peers/.venvs/transformers)
# PYTHON is Parley's interpreter (default: .venv/bin/python).
set -eu
folder=${1:-$(dirname "$0")/.venvs/transformers}
parley=${PYTHON:-.venv/bin/python}
mkdir -p "$folder"
[ -x "$folder/bin/python" ] || "$parley" -m venv --without-pip "$folder"
packages=$("$parley" -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")
own=$("$folder/bin/python" -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")
echo "$packages" >"$own/parley.pth"
"$folder/bin/python" -c "import transformers, torch; print('transformers', transformers.__version__, 'torch', torch.__version__)"
