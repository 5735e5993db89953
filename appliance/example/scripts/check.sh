#!/bin/sh
# Does the site say what it must? Exit status 1 if not.
# inputs: database
set -eu
root=${EXAMPLE_ROOT:-/var/lib/appliance-example}
echo check >> "$root/log"

grep -q "come from ${database:?}\." "$root/www/index.html" || { echo "the site does not name $database" >&2; exit 1; }
echo "the site names $database"
