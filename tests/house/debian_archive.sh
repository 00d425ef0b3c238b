#!/bin/sh
# A machine's sources name more archives than Debian's, in two forms, under the same suite. The wrong one would be asked
# for packages that it never had, and the tests that need them would be skipped for ever.
#
#   sh tests/house/debian_archive.sh FOLDER
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=$1
# shellcheck source=tests/debian_archive.sh
. "$here/../debian_archive.sh"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$suite" ] || { echo "not applicable: this system has no release of Debian's kind"; exit 77; }

# expect NAME WANTED: the sources in FOLDER/NAME lead to WANTED
expect() {
  got=$(debian_archive "$folder/$1" | sed 's/ *$//')
  [ "$got" = "$2" ] || { echo "error: $1: expected \"$2\", found \"$got\""; exit 1; }
}
rm -rf "$folder"
mkdir -p "$folder/deb822/sources.list.d" "$folder/lines/sources.list.d" "$folder/nothing"
cat > "$folder/deb822/sources.list.d/a.sources" << END
Types: deb
URIs: http://localhost/another
Suites: $suite
Components: stable
Signed-By: /another.gpg

Types: deb
# a remark
URIs: http://localhost/security
Suites: $suite-security
Components: main

Types: deb
URIs: http://localhost/debian
Suites: $suite $suite-updates
Components: main contrib
Signed-By: /debian.gpg
END
expect deb822 "http://localhost/debian /debian.gpg"

cat > "$folder/lines/sources.list" << END
# deb http://localhost/remark $suite main
deb-src http://localhost/sources $suite main
deb [arch=amd64 signed-by=/another.gpg] http://localhost/another $suite stable
deb http://localhost/security $suite-security main
END
cat > "$folder/lines/sources.list.d/b.list" << END
deb [ arch=amd64 signed-by=/debian.gpg ] http://localhost/debian $suite contrib main
END
expect lines "http://localhost/debian /debian.gpg"
echo "deb http://localhost/plain $suite main" > "$folder/lines/sources.list"
expect lines "http://localhost/plain"
expect nothing ""
