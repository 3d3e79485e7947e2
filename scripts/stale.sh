#!/bin/sh
# Says why the environment in folder $1 cannot be used any more. Prints nothing if it can be used.
here=$(cd "$1" && pwd -P | sed 's/[][\.*^$+?(){}|]/\\&/g')
# If the system's Python is replaced by a new version with the same name, the new one does not find the
# packages that were installed for the old one.
packages='import os, sys, sysconfig; sys.exit(not os.path.isdir(sysconfig.get_path("purelib")))'
if ! "$1/bin/python" -c '' 2>/dev/null; then
    echo "The Python of $1 is gone. Run: make clean, then this again"
elif ! "$1/bin/python" -c "$packages"; then
    echo "$1 was made for another version of Python. Run: make clean, then this again"
elif ! grep -qE "VIRTUAL_ENV=[\"']?$here[\"']?$" "$1/bin/activate"; then
    echo "$1 was made in another folder. Run: make clean, then this again"
fi
