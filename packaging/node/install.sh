#!/bin/sh
# Puts stickpin on this machine, or below another root. Running it again updates it, and starts the
# daemon again if it ran.
set -eu
# What is made here has the modes that are written here, whatever umask the caller has.
umask 022

usage() {
  cat <<'TEXT'
Usage: install.sh [--root DIR] [--crio yes|no|auto] [--no-start]

  --root DIR   install below DIR, as for an image of a machine; nothing is started
  --crio       whether the node runs CRI-O; auto (default): if it is installed
  --no-start   don't start the service now; it is enabled all the same
TEXT
}

root= crio=auto start=auto
while [ $# -gt 0 ]; do
  case $1 in
    --root) root=${2:?--root needs a directory}; root=${root%/}; shift 2 ;;
    --crio) crio=${2:?--crio needs yes, no or auto}; shift 2 ;;
    --no-start) start=no; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
case $crio in yes | no | auto) ;; *) usage >&2; exit 2 ;; esac

fail() { echo "install.sh: $1" >&2; exit 1; }

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
[ -d "$here/lib/dist" ] || fail "$here is not an unpacked stickpin archive: lib/dist is missing"
[ "$(id -u)" = 0 ] || [ -n "$root" ] || fail 'this needs root; try sudo'
# An archive for another machine would fail at its first start; better now. Node.js comes with it.
node=$here/lib/bin/node
[ -x "$node" ] || fail "$here is not a whole stickpin archive: lib/bin/node is missing"
if [ -z "$root" ]; then
  (cd "$here/lib" && "$node" -e 'require("better-sqlite3"); require("koffi")') ||
    fail "the programs of this archive do not run on this machine ($(uname -m)): take the archive for its architecture; glibc 2.34 or newer is needed"
fi
for part in inside.sh files setup; do
  [ -f "$here/lib/$part" ] || fail "$here is not a whole stickpin archive: lib/$part is missing"
done
# shellcheck source=packaging/node/inside.sh
. "$here/lib/inside.sh"

lib=$(inside /usr/lib/stickpin)
if [ -f "$lib/format" ] && [ "$(cat "$lib/format")" != archive ]; then
  fail "stickpin is installed as a $(cat "$lib/format") already: update that, or remove it first"
fi

# put MODE SOURCE TARGET: in place at one stroke, so that nothing ever reads half a file.
put() {
  folder=$(inside "$(dirname "$3")")
  to=$folder/$(basename "$3")
  mkdir -p "$folder"
  rm -f "$to.stickpin-new"
  install -m "$1" "$here/$2" "$to.stickpin-new"
  # A link of that name is replaced, and not what it leads to.
  [ ! -L "$to" ] || rm -f "$to"
  mv -f "$to.stickpin-new" "$to"
}

# put_tree SOURCE TARGET: in place of what is there.
put_tree() {
  folder=$(inside "$(dirname "$2")")
  name=$(basename "$2")
  mkdir -p "$folder"
  # Cut between the two moves below, the earlier one stays until the new one is whole.
  [ -e "$folder/$name" ] || [ ! -d "$folder/$name.old" ] || mv "$folder/$name.old" "$folder/$name"
  rm -rf "$folder/$name.new" "$folder/$name.old"
  cp -R "$here/$1" "$folder/$name.new"
  chmod -R u=rwX,go=rX "$folder/$name.new"
  [ "$(id -u)" != 0 ] || chown -R 0:0 "$folder/$name.new"
  # A vendor's settings lie there as well, and stay.
  vendor=$(inside "$2/stickpin.toml.d")
  [ ! -d "$vendor" ] || cp -RPp "$vendor" "$folder/$name.new/stickpin.toml.d"
  # A power cut leaves empty files of what is not on the disk.
  sync -f "$folder/$name.new"
  if [ -L "$folder/$name" ]; then rm -f "$folder/$name"; fi
  [ ! -d "$folder/$name" ] || mv "$folder/$name" "$folder/$name.old"
  mv "$folder/$name.new" "$folder/$name"
  rm -rf "$folder/$name.old"
}

while read -r type mode source target; do
  case $type in
    tree) put_tree "$source" "$target" ;;
    file) put "$mode" "$source" "$target" ;;
  esac
done < "$here/lib/files"

/bin/sh "$here/lib/setup" --root "$root" --crio "$crio" --first auto --start "$start"

cat <<TEXT
stickpin is installed${root:+ below $root}.
Next: copy the public key of whoever makes your bundles to /etc/stickpin/keys.d/, plug a stick in, and watch 'systemctl status stickpin'.
TEXT
