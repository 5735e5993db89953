#!/bin/sh
# A web site that names its database. It is deployed after the database is complete, on another machine.
# inputs: database (the machine that has it)
set -eu
root=${EXAMPLE_ROOT:-/var/lib/appliance-example}
mkdir -p "$root/www"
echo site >> "$root/log"

cat > "$root/www/index.html" <<PAGE
<!doctype html>
<title>Shop</title>
<p>Articles come from ${database:?the machine that has the database}.
PAGE
echo "site written for the database on $database"
