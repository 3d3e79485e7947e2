#!/bin/sh
# Says which system package is missing, and how to install it, before `make` begins its work.
python=${1:-python3}
if ! command -v "$python" >/dev/null 2>&1; then
    echo "There is no '$python' here. Debian, Ubuntu: apt-get install python3-venv. Then run make again." >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))'; then
    echo "$("$python" --version) came; 3.11, 3.12 or 3.13 is needed. Name another one: make run PYTHON=python3.12" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "$python has no venv. Debian, Ubuntu: apt-get install python3-venv. Then run make again." >&2
    exit 1
fi
case $(uname -s) in
    Linux) ;;
    *) echo "Note: the built-in jail needs Linux. On $(uname -s) the bot starts but runs no code." >&2 ;;
esac
