#!/bin/sh
# A test that needs a real part: with_part.sh [WORD=]PART COMMAND... runs COMMAND with the word WORD (PART where none is
# given) replaced by the folder of the part. Exit code 77 when the part cannot be had, with the reason.
set -eu

replaced=PART
case $1 in *=*) replaced=${1%%=*} ;; esac
folder=$(sh "$(dirname "$0")/../real_parts.sh" "${1#*=}") || exit $?
shift
for word; do
  shift
  [ "$word" != "$replaced" ] || word=$folder
  set -- "$@" "$word"
done
exec "$@"
