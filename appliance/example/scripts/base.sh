#!/bin/sh
# What every machine gets: a message of the day that says what it belongs to.
# inputs: site (default: lab)
set -eu
root=${EXAMPLE_ROOT:-/var/lib/appliance-example}
mkdir -p "$root/etc"
echo base >> "$root/log"

echo "This machine belongs to the site ${site:-lab} and is kept by the appliance." > "$root/etc/motd.new"
mv "$root/etc/motd.new" "$root/etc/motd"
cat "$root/etc/motd"
