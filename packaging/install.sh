#!/bin/sh
# Puts stickpin on this machine, or below another root. Running it again updates it.
set -eu
# What is made here has the modes that are written here, whatever umask the caller has.
umask 022

usage() {
  cat <<'TEXT'
Usage: install.sh [--root DIR] [--crio yes|no|auto] [--no-start]

  --root DIR   install below DIR, as for an image of a machine; nothing is started
  --crio       whether the node runs CRI-O; auto (default): if it is installed
  --no-start   enable the service, but don't start it now
TEXT
}

root= crio=auto start=yes
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

[ -f "$here/inside.sh" ] || fail "$here is not a whole stickpin archive: inside.sh is missing"
# shellcheck source=packaging/inside.sh
. "$here/inside.sh"

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

lib=$(inside /usr/lib)
mkdir -p "$lib"
rm -rf "$lib/stickpin.new" "$lib/stickpin.old"
cp -R "$here/lib" "$lib/stickpin.new"
install -m 0755 "$here/systemd/clear-mirrors" "$lib/stickpin.new/clear-mirrors"
install -m 0755 "$here/systemd/keep-mirrors" "$lib/stickpin.new/keep-mirrors"
chmod -R u=rwX,go=rX "$lib/stickpin.new"
[ "$(id -u)" != 0 ] || chown -R 0:0 "$lib/stickpin.new"
# A vendor's settings lie there as well, and stay.
vendor=$(inside /usr/lib/stickpin/stickpin.toml.d)
if [ -d "$vendor" ]; then
  cp -RPp "$vendor" "$lib/stickpin.new/stickpin.toml.d"
fi
if [ -L "$lib/stickpin" ]; then rm -f "$lib/stickpin"; fi
[ ! -d "$lib/stickpin" ] || mv "$lib/stickpin" "$lib/stickpin.old"
mv "$lib/stickpin.new" "$lib/stickpin"
rm -rf "$lib/stickpin.old"

put 0755 stickpin /usr/bin/stickpin
put 0644 systemd/stickpin.service /usr/lib/systemd/system/stickpin.service
put 0644 systemd/stickpin-registry.socket /usr/lib/systemd/system/stickpin-registry.socket
put 0644 systemd/stickpin-clear-mirrors.service /usr/lib/systemd/system/stickpin-clear-mirrors.service
put 0644 systemd/stickpin.tmpfiles.conf /usr/lib/tmpfiles.d/stickpin.conf
put 0644 systemd/stickpin.catalog /usr/lib/systemd/catalog/stickpin.catalog
put 0644 systemd/io.stickpin1.conf /usr/share/dbus-1/system.d/io.stickpin1.conf
put 0644 systemd/io.stickpin1.policy /usr/share/polkit-1/actions/io.stickpin1.policy
put 0644 udev/90-stickpin.rules /usr/lib/udev/rules.d/90-stickpin.rules
put 0644 systemd/crio-guard.conf /etc/systemd/system/crio.service.d/10-stickpin.conf
for document in README.md CHANGELOG.md LICENSE LICENSES.third-party.txt; do
  put 0644 "$document" "/usr/share/doc/stickpin/$document"
done

# /etc/crio tells that CRI-O is installed, to us and to others, so it is not made where there is
# none.
if [ "$crio" = auto ]; then
  crio=no
  for trace in /etc/crio /usr/bin/crio /usr/local/bin/crio /usr/lib/systemd/system/crio.service /etc/systemd/system/crio.service; do
    if [ -e "$(inside "$trace")" ]; then crio=yes; fi
  done
fi
if [ "$crio" = yes ]; then
  put 0644 systemd/stickpin-crio.tmpfiles.conf /usr/lib/tmpfiles.d/stickpin-crio.conf
fi

for folder in /etc/stickpin/keys.d /etc/stickpin/stickpin.toml.d; do
  folder=$(inside "$folder")
  mkdir -p "$folder"
done

if [ -n "$root" ] || [ ! -d /run/systemd/system ]; then
  for link in multi-user.target.wants/stickpin.service multi-user.target.wants/stickpin-clear-mirrors.service \
    sockets.target.wants/stickpin-registry.socket; do
    folder=$(inside "/etc/systemd/system/$(dirname "$link")")
    mkdir -p "$folder"
    ln -sfn "/usr/lib/systemd/system/$(basename "$link")" "$folder/$(basename "$link")"
  done
  if command -v journalctl >/dev/null; then journalctl --update-catalog --root="$root/" >/dev/null 2>&1 || true; fi
else
  systemd-tmpfiles --create stickpin.conf
  [ "$crio" = no ] || systemd-tmpfiles --create stickpin-crio.conf
  journalctl --update-catalog
  udevadm control --reload
  systemctl daemon-reload
  # The bus reads its policy again by itself on most systems.
  systemctl reload dbus.service 2>/dev/null || systemctl reload dbus-broker.service 2>/dev/null || true
  systemctl --quiet enable stickpin-registry.socket stickpin.service stickpin-clear-mirrors.service
  # Media that are plugged in already get their mark, before the daemon asks for it.
  udevadm trigger --subsystem-match=block --action=change
  udevadm settle --timeout=30 || true
  if [ "$start" = yes ]; then
    systemctl restart stickpin-registry.socket stickpin.service 2>/dev/null || {
      systemctl stop stickpin.service stickpin-registry.socket
      systemctl start stickpin-registry.socket stickpin.service
    }
  fi
fi

if [ "$crio" = yes ]; then for_crio='with'; else for_crio='without'; fi
cat <<TEXT
stickpin is installed${root:+ below $root} ($for_crio support for CRI-O).
Next: copy the public key of whoever makes your bundles to /etc/stickpin/keys.d/, plug a stick in, and watch 'systemctl status stickpin'.
TEXT
