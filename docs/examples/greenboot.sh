#!/bin/sh
# Takes the verdict of greenboot for the releases that the node booted with: a good boot proves them,
# a bad one rolls back those that were never proven. Copy it to /etc/greenboot/green.d/50_stickpin.sh
# and /etc/greenboot/red.d/50_stickpin.sh. STREAMS are the streams that greenboot's checks are about.
# Needs jq.
set -eu
streams=${STREAMS:-microshift}
command -v jq >/dev/null || { echo 'greenboot.sh needs jq: nothing is judged' >&2 && exit 1; }
booted=$(sed -n 's/^btime //p' "${STAT:-/proc/stat}")

# again COMMAND...: until the daemon answers (exit code 3), for a minute.
again() {
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    code=0
    "$@" </dev/null || code=$?
    [ "$code" = 3 ] || return "$code"
    sleep "${PAUSE:-5}"
  done
  return 3
}

# A release that was activated since the boot has not been checked: the next boot decides on it.
# `back` marks one to which the node went back, which a bad boot does not end.
releases=$(again stickpin list --json)
judged=$(printf '%s\n' "$releases" | jq -r --argjson booted "$booted" '.bundles as $all | $all[]
  | select(.current and (.phase == "activated" or .phase == "active"))
  | select(((.activatedAt // empty) | sub("\\.[0-9]+Z$"; "Z") | fromdateiso8601) < $booted)
  | . as $one
  | any($all[]; .name == $one.name and .rolledBack and .sequence > $one.sequence) as $back
  | "\(.name) \(.version) \(if $back then "back" else "new" end)"')
result=0
while read -r name version kind; do
  case " $streams " in
    *" $name "*) ;;
    *) continue ;;
  esac
  case $0 in
    */green.d/*) again stickpin prove "$name@$version" || result=$? ;;
    */red.d/*) [ "$kind" = back ] || again stickpin rollback "$name" || result=$? ;;
    *) echo 'Copy it to /etc/greenboot/green.d or /etc/greenboot/red.d' >&2 && exit 1 ;;
  esac
done <<EOT
$judged
EOT
exit "$result"
