#!/bin/sh
# Takes stickpin off this machine, or from below another root. Images stay in the container runtime. In CRI-O they are no longer pinned; in
# containerd the label io.cri-containerd.pinned stays on them until the images go.
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

live=no
if [ -z "$root" ] && [ -d /run/systemd/system ]; then live=yes; fi

if [ $live = yes ]; then
  systemctl --quiet disable --now stickpin.service stickpin-registry.socket \
    stickpin-clear-mirrors.service 2>/dev/null || true
  for medium in /run/stickpin/media/*; do
    [ ! -d "$medium" ] || umount -l "$medium" 2>/dev/null || true
  done
fi
if [ -f "$root/usr/lib/stickpin/clear-mirrors" ]; then ROOT=$root sh "$root/usr/lib/stickpin/clear-mirrors"; fi

# The link before its target: CRI-O does not start with a link to nowhere.
rm -f "$root/etc/crio/crio.conf.d/99-stickpin.conf" "$root/etc/containers/registries.conf.d/99-stickpin.conf"
rm -f "$root/etc/systemd/system/crio.service.d/10-stickpin.conf"
rmdir "$root/etc/systemd/system/crio.service.d" 2>/dev/null || true
rm -rf "$root/run/crio/crio.conf.d/99-stickpin.conf"

rm -f "$root/etc/systemd/system/multi-user.target.wants/stickpin.service" \
  "$root/etc/systemd/system/multi-user.target.wants/stickpin-clear-mirrors.service" \
  "$root/etc/systemd/system/sockets.target.wants/stickpin-registry.socket" \
  "$root/usr/lib/systemd/system/stickpin-clear-mirrors.service" \
  "$root/usr/lib/systemd/system/stickpin.service" "$root/usr/lib/systemd/system/stickpin-registry.socket" \
  "$root/usr/lib/tmpfiles.d/stickpin.conf" "$root/usr/lib/tmpfiles.d/stickpin-crio.conf" \
  "$root/usr/lib/systemd/catalog/stickpin.catalog" "$root/usr/share/dbus-1/system.d/io.stickpin1.conf" \
  "$root/usr/lib/udev/rules.d/90-stickpin.rules" "$root/usr/bin/stickpin"
rm -rf "$root/usr/lib/stickpin" "$root/usr/share/doc/stickpin"
# Not media that could not be unmounted: rmdir leaves what is in use.
if [ -d "$root/run/stickpin" ]; then
  rmdir "$root/run/stickpin/media"/* "$root/run/stickpin/media" 2>/dev/null || true
  rm -f "$root/run/stickpin"/* 2>/dev/null || true
  rmdir "$root/run/stickpin" 2>/dev/null || true
fi

if [ $live = yes ]; then
  systemctl daemon-reload
  udevadm control --reload
  journalctl --update-catalog
  if systemctl --quiet is-active crio.service; then systemctl reload crio.service || true; fi
fi

if [ $purge = yes ]; then
  rm -rf "$root/etc/stickpin" "$root/var/lib/stickpin"
  echo "stickpin is removed${root:+ from below $root}, with its keys, configuration and state."
else
  echo "stickpin is removed${root:+ from below $root}. Kept: /etc/stickpin (keys, configuration) and /var/lib/stickpin (state, drop folder); --purge removes them."
fi
