#!/bin/sh
# A Debian 12 that nobody prepared, and this checkout cloned into it: `scripts/fresh_root.sh FOLDER [COMMAND]`.
# Needs root, debootstrap and the machine's own package mirror. Without a COMMAND it runs `make run`.
# pivot_root, not chroot: in a plain chroot the kernel refuses user namespaces.
set -eu
root=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
command=${2:-make run}

if [ ! -x "$root/usr/bin/git" ]; then
    mirror=$(sed -n 's/^URIs: *//p; s/^deb [^ ]*\(http[^ ]*\).*/\1/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
    debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror"
    # This machine's trust and name service, so that the registries answer inside as they do outside.
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    chroot "$root" apt-get install -y --no-install-recommends git make python3-venv
fi
rm -rf "$root/root/nekro-core" && git clone --quiet "$here" "$root/root/nekro-core"

exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" LANG=C.UTF-8 \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt ${PORT:+PORT="$PORT"} \
    unshare --mount --pid --fork sh -c '
        mount --make-rprivate / && mount --bind "$1" "$1" && cd "$1" && mkdir -p old
        mount --rbind /dev dev && mount -t tmpfs tmpfs tmp && mount -t sysfs sysfs sys
        pivot_root . old && mount -t proc proc /proc && umount -l /old
        cd /root/nekro-core && exec sh -c "$2"
    ' sh "$root" "$command"
