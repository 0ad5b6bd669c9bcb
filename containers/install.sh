#!/bin/sh
# The steps that Dockerfile and hxmesh.def have in common, each run as root in an image with SST:
#   install.sh compile SOURCE   the package and the element library, into /opt/hxmesh; adds the compiler
#   install.sh run              what running them needs, and the user hxmesh
# PYTHON and CXX name the interpreter and the compiler, which are names of packages too.
set -eu

PREFIX=/opt/hxmesh
export DEBIAN_FRONTEND=noninteractive

# Packages of Debian and Ubuntu; nothing of their lists stays in the image.
install_packages() {
  apt-get update
  apt-get install --yes --no-install-recommends "$@"
  rm -rf /var/lib/apt/lists/*
}

case "${1:-}" in
compile)
  install_packages make "$CXX" "$PYTHON" "$PYTHON-dev" "$PYTHON-venv"
  cd "$2"
  "$PYTHON" -m venv "$PREFIX"
  # The versions that the project is tested with; pip checks their hashes.
  "$PREFIX/bin/pip" install --no-cache-dir --require-hashes --requirement requirements.lock
  "$PREFIX/bin/pip" install --no-cache-dir --no-build-isolation --no-deps .
  "$PREFIX/bin/hxmesh" sst build --out "$PREFIX/sst"
  ;;
run)
  install_packages "$PYTHON"
  useradd --create-home --shell /bin/bash hxmesh
  ;;
*)
  echo "install.sh takes compile SOURCE or run, not '${1:-}'." >&2
  exit 2
  ;;
esac
