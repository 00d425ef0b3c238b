#!/bin/sh
# The hook as its users have it: pre-commit itself takes it from a repository and runs it on commits of another one. A library
# with a search path of one machine is refused and says why; without it the commit is made.
#
#   sh tests/house/pre_commit.sh CUDEPLOY FOLDER         77 and a reason where something is missing
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cudeploy=$1
folder=$2
tool=$(sh "$root/tests/real_parts.sh" pre-commit)
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
PATH=$(dirname "$cudeploy"):$PATH
PYTHONPATH=$tool
PRE_COMMIT_HOME=$folder/home
HOME=$folder
export PATH PYTHONPATH PRE_COMMIT_HOME HOME
git config --global user.name tester
git config --global user.email tester@example.com
git config --global init.defaultBranch main

git init -q hooks
cp "$root/.pre-commit-hooks.yaml" hooks
git -C hooks add .
git -C hooks commit -qm hooks
git init -q mine
cd mine
cat > .pre-commit-config.yaml << YAML
repos:
  - repo: $folder/hooks
    rev: $(git -C ../hooks rev-parse HEAD)
    hooks:
      - id: cudeploy-audit
YAML
python3 -m pre_commit validate-manifest ../hooks/.pre-commit-hooks.yaml
python3 -m pre_commit validate-config
git add .
python3 -m pre_commit install
# The hook that git runs calls pre-commit by the python that installed it.
echo 'int answer(void) { return 42; }' > answer.c
cc -shared -fPIC answer.c -o libanswer.so "-Wl,-rpath,/opt/one machine/lib"
git add .
if git commit -qm wrong > ../log 2>&1; then cat ../log; echo "error: the commit was made"; exit 1; fi
grep -q 'CD201 absolute-rpath' ../log || { cat ../log; echo "error: no finding"; exit 1; }
cc -shared -fPIC answer.c -o libanswer.so
git add .
git commit -qm right > ../log 2>&1 || { cat ../log; exit 1; }
grep 'cudeploy audit.*Passed' ../log || { cat ../log; exit 1; }
# Sources alone are none of its business.
echo '/* no change */' >> answer.c
git commit -qam source > ../log 2>&1 || { cat ../log; exit 1; }
grep 'cudeploy audit.*Skipped' ../log || { cat ../log; exit 1; }
