#!/bin/sh
# A database directory with its first table.
# inputs: name (default: shop)
# outputs: directory
set -eu
root=${EXAMPLE_ROOT:-/var/lib/appliance-example}
mkdir -p "$root/db/${name:-shop}"
echo database >> "$root/log"

printf 'id\tarticle\tprice\n1\tapple\t0.40\n' > "$root/db/${name:-shop}/articles.tsv"
printf '%s' "$root/db/${name:-shop}" > "$heat_outputs_path.directory"
echo "database ${name:-shop} is ready"
