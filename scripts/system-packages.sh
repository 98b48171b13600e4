#!/bin/sh
# Makes sure that the programs which are not Python packages are there: installs them where it
# may (root and apt-get), else says in one line what to install.
#
# Needed: ip (iproute2). For tests that compare with other people's tools: tcpdump, tshark, ethtool.
set -u
PATH=$PATH:/usr/sbin:/sbin # not on every user's PATH

missing=""
for pair in ip:iproute2 ethtool:ethtool tcpdump:tcpdump tshark:tshark; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
python=${PYTHON:-python3}
"$python" -c 'import ensurepip' >/dev/null 2>&1 || missing="$missing python3-venv"
[ -z "$missing" ] && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "setup: installing system packages:$missing"
    log=$(mktemp)
    if apt-get update -qq >"$log" 2>&1 &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >>"$log" 2>&1; then
        rm -f "$log"
        exit 0
    fi
    echo "setup: apt-get failed; the end of $log:" >&2
    tail -n 5 "$log" >&2
else
    echo "setup: please install:$missing (for example: sudo apt-get install$missing; Fedora: iproute ethtool tcpdump wireshark-cli)" >&2
fi
case "$missing" in
*iproute2* | *python3-venv*) exit 1 ;;
esac
echo "setup: going on without; the tests that need them will be skipped" >&2
