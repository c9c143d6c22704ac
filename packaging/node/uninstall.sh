#!/bin/sh
# Takes stickpin off again: the same as /usr/lib/stickpin/uninstall on the node, for whoever has the
# unpacked archive at hand.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
[ -f "$here/lib/uninstall" ] || { echo "uninstall.sh: $here is not an unpacked stickpin archive: lib/uninstall is missing" >&2; exit 1; }
exec /bin/sh "$here/lib/uninstall" "$@"
