#!/bin/sh
# A test that needs a real part: with_part.sh PART COMMAND... runs COMMAND with the word PART replaced by the
# folder of the part. Exit code 77 when the part cannot be had, with the reason.
set -eu

folder=$(sh "$(dirname "$0")/../real_parts.sh" "$1") || exit $?
shift
for word; do
  shift
  [ "$word" != PART ] || word=$folder
  set -- "$@" "$word"
done
exec "$@"
