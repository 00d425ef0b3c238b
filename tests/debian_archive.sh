# shellcheck shell=sh
# Parts of other Debian releases, and whole bare ones, are fetched from where this machine has its own release: a
# mirror that is known to answer, and no address of ours. Read with `.` by debootstrap.sh and real_parts.sh.
#
#   debian_archive DIR      prints "URI KEYRING" of the archive of this release (KEYRING may be empty), from the deb822 and
#                           one-line sources in DIR (/etc/apt); nothing where there is none
#
# Archives of other people stand in the same folder, some under the same suite: Debian's has the component main.
debian_archive() {
  sources=$1
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  {
    for file in "$sources"/sources.list.d/*.sources; do
      [ -f "$file" ] || continue
      awk -v suite="$release" '
        function say() { if (uri != "" && mine && main) print uri, key; uri = key = ""; mine = main = 0 }
        /^#/ { next }
        /^[ \t]*$/ { say() }
        /^URIs:/ { uri = $2 }
        /^Suites:/ { for (i = 2; i <= NF; i++) if ($i == suite) mine = 1 }
        /^Components:/ { for (i = 2; i <= NF; i++) if ($i == "main") main = 1 }
        /^Signed-By:/ { key = $2 }
        END { say() }' "$file"
    done
    for file in "$sources"/sources.list "$sources"/sources.list.d/*.list; do
      [ -f "$file" ] || continue
      awk -v suite="$release" '$1 == "deb" {
        key = ""
        if (match($0, /signed-by=[^] ]*/)) key = substr($0, RSTART + 10, RLENGTH - 10)
        sub(/\[[^]]*\]/, "")
        for (i = 4; i <= NF; i++) if ($3 == suite && $i == "main") { print $2, key; next }
      }' "$file"
    done
  } | head -n 1
}
