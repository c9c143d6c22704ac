# Sourced by install.sh, setup, remove and uninstall.
#
# inside PATH: prints where PATH of the installed system lies below $root. Links are followed as
# that system will follow them once it is booted: an absolute one begins at $root, and none leads
# out of it. Without $root that is what the kernel does anyway.
inside() {
  rest=$1 at='' links=0
  while [ -n "$rest" ]; do
    part=${rest%%/*}
    case $rest in */*) rest=${rest#*/} ;; *) rest='' ;; esac
    case $part in
      '' | .) ;;
      ..) at=${at%/*} ;;
      *)
        if [ -L "$root$at/$part" ]; then
          links=$((links + 1))
          if [ "$links" -gt 40 ]; then
            echo "$1 below $root leads in a circle of links ($at/$part): mend that link, then run this again" >&2
            return 1
          fi
          target=$(readlink "$root$at/$part")
          case $target in /*) at='' ;; esac
          rest=$target/$rest
        else
          at=$at/$part
        fi
        ;;
    esac
  done
  printf '%s\n' "$root$at"
}
