#!/bin/sh
# Makes a new Debian 12, clones the committed state of this checkout into it, and runs a command there:
#   scripts/fresh_root.sh FOLDER [COMMAND]
# Without COMMAND it runs the two commands of the README. Ends with 0 if they went well. The Debian has
# the packages of the release and none of the security archive, so it has the oldest Python of
# Debian 12 that anybody still has. The Debian stays in FOLDER for the next run; the clone is made anew.
# Needs root, git and debootstrap. Uses this machine's package mirror, certificates, and pip's index and
# proxy.
set -eu
unset TMPDIR TMP TEMP # they name folders of this machine, which the new Debian does not have
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "scripts/fresh_root.sh FOLDER [COMMAND]: the folder that the fresh Debian is, or will be, in" >&2
    exit 2
fi
root=$(mkdir -p "$1" && cd "$1" && pwd -P)
here=$(cd "$(dirname "$0")/.." && pwd -P)
command=${2:-sh scripts/readme_commands.sh}
ours="$root/.nekro-fresh"
case $root in *[[:space:]]*) echo "debootstrap takes no folder with a blank in its name: $root" >&2 && exit 2 ;; esac
if [ ! -e "$ours" ] && [ -n "$(ls -A "$root")" ]; then
    echo "$root holds something that is no fresh Debian of ours; name an empty folder" >&2
    exit 2
fi
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "A fresh Debian is made by root with debootstrap: apt-get install debootstrap" >&2
    exit 2
fi
# Only one run at a time may use FOLDER: this script holds the lock until it ends. The command inside
# does not inherit the lock.
exec 9>>"$ours"
flock --nonblock 9 || { echo "$root is in use by another run; name another folder" >&2; exit 2; }

# If an earlier run was ended before the Debian was complete, the Debian is made again.
if [ "$(cat "$ours")" != ready ]; then
    find "$root" -xdev -mindepth 1 ! -path "$ours" -delete
    mirror=$(sed -n 's/^URIs: *//p; s/^deb [^ ]*\(http[^ ]*\).*/\1/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        grep '/debian/*$' | head -n 1)
    debootstrap --variant=minbase --include=ca-certificates bookworm "$root" ${mirror:+"$mirror"}
    # The certificates that this machine trusts, so that connections to registries work inside too.
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y --no-install-recommends git make python3-venv
    echo ready >"$ours"
fi
# Files that every installer of Debian writes, but debootstrap does not.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
rm -rf "$root/root/nekro-core" && git clone --quiet "$here" "$root/root/nekro-core"
echo "In $root: python3.11 $(chroot "$root" dpkg-query -W -f '${Version}' python3.11)," \
    "nekro-core $(git -C "$here" log -1 --format='%h %s')"
[ -z "$(git -C "$here" status --porcelain)" ] || echo "What is not committed here is not in it."

index=${PIP_INDEX_URL:-$(python3 -m pip config get global.index-url 2>/dev/null || true)}
set -- "$root" "$command"
# pivot_root and not chroot, because in a plain chroot the kernel refuses user namespaces. The shell
# stays as the first process of the namespace, because that process must reap orphaned processes.
exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" LANG=C.UTF-8 \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt ${index:+PIP_INDEX_URL="$index"} \
    ${PIP_TRUSTED_HOST:+PIP_TRUSTED_HOST="$PIP_TRUSTED_HOST"} ${PIP_PROXY:+PIP_PROXY="$PIP_PROXY"} \
    ${PIP_DEFAULT_TIMEOUT:+PIP_DEFAULT_TIMEOUT="$PIP_DEFAULT_TIMEOUT"} \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    ${no_proxy:+no_proxy="$no_proxy"} ${ARGS:+ARGS="$ARGS"} \
    unshare --mount --pid --fork --kill-child sh -c '
        exec 9>&-
        mount --make-rprivate / && mount --bind "$1" "$1" && cd "$1" && mkdir -p old || exit 2
        mount --rbind /dev dev && mount -t tmpfs tmpfs dev/shm && mount -t tmpfs tmpfs tmp || exit 2
        mount -t sysfs sysfs sys && pivot_root . old && mount -t proc proc /proc || exit 2
        umount -l /old && cd /root/nekro-core || exit 2
        sh -c "$2"
        exit $?
    ' sh "$@"
