#!/bin/sh
# Installs the system packages for `run` or `test` where it may; otherwise prints the command and goes on.
# All can be done without: the microphone needs PortAudio, the language model is several times as fast with a C
# compiler (it builds its kernels for this very processor), and the tests want browsers and sound.
set -eu
packages="libportaudio2 libasound2-plugins gcc libc6-dev"
if [ "${1:-run}" = test ]; then
    packages="$packages chromium firefox-esr pulseaudio pulseaudio-utils iproute2 coturn"
fi
command -v dpkg-query >/dev/null 2>&1 || { echo "Not a Debian system; the local microphone needs PortAudio, fast language models a C compiler."; exit 0; }
missing=""
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif sudo -n true 2>/dev/null; then
    as_root="sudo"
else
    echo "System packages are missing; install them with: sudo apt-get install$missing"
    [ "${1:-run}" = test ] && exit 1 || exit 0
fi
echo "Installing system packages:$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
