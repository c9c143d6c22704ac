#!/bin/sh
# Takes stickpin off this machine, or from below another root. Images stay in the container runtime.
# In CRI-O they are no longer pinned; in containerd the label io.cri-containerd.pinned stays on them
# until the images go.
set -eu

usage() {
  cat <<'TEXT'
Usage: uninstall.sh [--root DIR] [--purge]

  --root DIR   uninstall from below DIR
  --purge      remove keys, configuration, state and the drop folder as well
TEXT
}

root= purge=no
while [ $# -gt 0 ]; do
  case $1 in
    --root) root=${2:?--root needs a directory}; root=${root%/}; shift 2 ;;
    --purge) purge=yes; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
[ "$(id -u)" = 0 ] || [ -n "$root" ] || { echo 'uninstall.sh: this needs root; try sudo' >&2; exit 1; }

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
[ -f "$here/inside.sh" ] || { echo "uninstall.sh: $here is not an unpacked stickpin archive: inside.sh is missing" >&2; exit 1; }
# shellcheck source=packaging/inside.sh
. "$here/inside.sh"

live=no
if [ -z "$root" ] && [ -d /run/systemd/system ]; then live=yes; fi

if [ $live = yes ]; then
  systemctl --quiet disable --now stickpin.service stickpin-registry.socket \
    stickpin-clear-mirrors.service 2>/dev/null || true
  for medium in /run/stickpin/media/*; do
    [ ! -d "$medium" ] || umount -l "$medium" 2>/dev/null || true
  done
fi
# drop PATH...: removes files and folders of the installed system; of a link the link alone.
drop() {
  for path in "$@"; do
    folder=$(inside "$(dirname "$path")")
    rm -rf "$folder/$(basename "$path")"
  done
}

# clear-mirrors asks inside() where its places are. Below another root the archive's own is run: a
# script of that root is not to be trusted here.
clear=$here/systemd/clear-mirrors
[ -n "$root" ] || clear=/usr/lib/stickpin/clear-mirrors
if [ -f "$clear" ]; then (ROOT=$root && . "$clear"); fi

# The link before its target: CRI-O does not start with a link to nowhere.
drop /etc/crio/crio.conf.d/99-stickpin.conf /etc/containers/registries.conf.d/99-stickpin.conf
drop /etc/systemd/system/crio.service.d/10-stickpin.conf
rmdir "$(inside /etc/systemd/system/crio.service.d)" 2>/dev/null || true
drop /run/crio/crio.conf.d/99-stickpin.conf

drop /etc/systemd/system/multi-user.target.wants/stickpin.service \
  /etc/systemd/system/multi-user.target.wants/stickpin-clear-mirrors.service \
  /etc/systemd/system/sockets.target.wants/stickpin-registry.socket \
  /usr/lib/systemd/system/stickpin-clear-mirrors.service \
  /usr/lib/systemd/system/stickpin.service /usr/lib/systemd/system/stickpin-registry.socket \
  /usr/lib/tmpfiles.d/stickpin.conf /usr/lib/tmpfiles.d/stickpin-crio.conf \
  /usr/lib/systemd/catalog/stickpin.catalog /usr/share/dbus-1/system.d/io.stickpin1.conf \
  /usr/share/polkit-1/actions/io.stickpin1.policy \
  /usr/lib/udev/rules.d/90-stickpin.rules /usr/bin/stickpin /usr/lib/stickpin /usr/share/doc/stickpin
# Not media that could not be unmounted: rmdir leaves what is in use.
run=$(inside /run/stickpin)
if [ -d "$run" ]; then
  media=$(inside /run/stickpin/media)
  rmdir "$media"/* "$media" 2>/dev/null || true
  rm -f "$run"/* 2>/dev/null || true
  rmdir "$run" 2>/dev/null || true
fi

if [ $live = yes ]; then
  systemctl daemon-reload
  udevadm control --reload
  journalctl --update-catalog
  if systemctl --quiet is-active crio.service; then systemctl reload crio.service || true; fi
fi

if [ $purge = yes ]; then
  drop /etc/stickpin /var/lib/stickpin
  echo "stickpin is removed${root:+ from below $root}, with its keys, configuration and state."
else
  echo "stickpin is removed${root:+ from below $root}. Kept: /etc/stickpin (keys, configuration) and /var/lib/stickpin (state, drop folder); --purge removes them."
fi
