#!/bin/sh
# An archive of the database, made aside and moved into place when it is whole.
# inputs: name (default: shop), seconds (how long writers are given to end; default: 0)
set -eu
root=${EXAMPLE_ROOT:-/var/lib/appliance-example}
mkdir -p "$root/backup"
echo backup >> "$root/log"

echo "waiting ${seconds:-0} s for writers"
sleep "${seconds:-0}"
tar -C "$root/db" -cf "$root/backup/${name:-shop}.tar.new" "${name:-shop}"
mv "$root/backup/${name:-shop}.tar.new" "$root/backup/${name:-shop}.tar"
echo "wrote $(wc -c < "$root/backup/${name:-shop}.tar") bytes"
