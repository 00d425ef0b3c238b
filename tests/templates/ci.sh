#!/bin/sh
# The files for continuous integration, without the services: each is valid by the schema that is published for it, one with
# a misspelt word is not, and the commands in it, except those that install packages, pass in a project of `cudeploy new`.
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
# shellcheck source=tests/cmake_modules/expect.sh
. "$here/../cmake_modules/expect.sh"
command -v curl > /dev/null || skip "curl is not installed"
checker=$(sh "$CUDEPLOY_SOURCE/tests/real_parts.sh" check-jsonschema)
check() { env PYTHONPATH="$checker" python3 -m check_jsonschema "$@"; }

CUDACXX=$CUDEPLOY_TOOLKIT/bin/nvcc
CUDEPLOY=file://$work/cudeploy.tar.gz
GITHUB_PATH=$work/github_path
export CUDACXX CUDEPLOY GITHUB_PATH
tar -czf "$work/cudeploy.tar.gz" -C "$(dirname "$CUDEPLOY_PREFIX")" "$(basename "$CUDEPLOY_PREFIX")"

# What the installed README calls a file is beside it.
templates=$CUDEPLOY_PREFIX/share/cudeploy/templates
sed -n '/^| file /,$s/^| *\(`[^|]*\).*/\1/p' "$templates/README.md" | tr -d ',`' | tr ' ' '\n' | grep . > "$work/files" ||
  { echo "the README of the templates lists no file"; exit 1; }
while read -r file; do
  # shellcheck disable=SC2086
  ls $templates/$file > "$log" 2>&1 || { echo "not installed: $file of the README in $templates"; exit 1; }
done < "$work/files"
if grep -n '](\.\.' "$templates/README.md"; then echo "the README in $templates links what is not installed"; exit 1; fi

for service in github gitlab; do
  file=$CUDEPLOY_SOURCE/templates/ci/$service.yml
  schema=vendor.github-workflows
  [ $service = github ] || schema=vendor.gitlab-ci
  must_pass check --builtin-schema $schema "$file"
  sed 's/^\( *\)\(runs-on\|script\):/\1scirpt:/' "$file" > "$work/misspelt.yml"
  must_fail check --builtin-schema $schema "$work/misspelt.yml"
  output_has 'Schema validation errors'

  must_pass "$CUDEPLOY_PREFIX/bin/cudeploy" new "$work/$service"
  env PYTHONPATH="$checker" python3 - "$file" > "$work/$service/commands" << 'PYTHON'
import sys
from ruamel.yaml import YAML
job = YAML(typ="safe").load(open(sys.argv[1]))
job = job.get("jobs", job)["build"]
for command in [*job.get("before_script", []), *job.get("script", []), *(step.get("run", "") for step in job.get("steps", []))]:
    if command and not command.startswith("apt-get"):
        print(command.strip())
        print('[ ! -f "$GITHUB_PATH" ] || PATH=$(cat "$GITHUB_PATH"):$PATH')  # as the service does after each step
PYTHON
  sed -i "s,/opt/cudeploy,$work/opt-$service,g" "$work/$service/commands"
  grep -q 'cmake --workflow' "$work/$service/commands" || { echo "no commands in $file"; exit 1; }
  rm -f "$GITHUB_PATH"
  gpus=$(sed -n 's/^set(GPUS \([0-9 ]*\) CACHE.*/\1/p' "$work/$service/CMakeLists.txt" | tr ' ' ',')
  grep -q -e "cudeploy audit --gpus $gpus " "$file" || { echo "$file asks for other GPUs than the project's: $gpus"; exit 1; }
  must_pass sh -ec "cd '$work/$service'; . ./commands"
  output_has 'Auditing' '100% tests passed' 'audit passed' '0 errors, 0 warnings'
  # The last command says what each GPU gets.
  sed -n '/package: .*\.deb generated/,$p' "$log" > "$log.last"
  grep -q Hopper "$log.last" || { cat "$log.last"; echo "the audit of the package does not name what each GPU gets"; exit 1; }
done
echo "ci: valid, and the commands pass"
