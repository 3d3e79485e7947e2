#!/bin/sh
# Says why the environment in folder $1 cannot be used any more; says nothing where it can.
here=$(cd "$1" && pwd -P)
if ! "$1/bin/python" -c '' 2>/dev/null; then
    echo "The Python of $1 is gone. Run: make clean, then this again"
elif ! grep -qF "$here" "$1/bin/activate"; then
    echo "$1 was made in another folder. Run: make clean, then this again"
fi
