#!/usr/bin/env bash
# Real shells complete verbs, flags, values, files, and a job that a server
# knows.
set -euo pipefail
comera=$PWD/client/comera
server=$PWD/tests/client/fake_server
export HOME=$TEST_TMPDIR TERM=dumb
cd "$TEST_TMPDIR"
mkdir -p bin data
ln -sf "$comera" bin/comera
touch my_job.yaml
export PATH=$TEST_TMPDIR/bin:$PATH
# It says where it serves.
exec 3< <(exec "$server" --listen=127.0.0.1:0 --port_file="$PWD/port" \
  --data_dir="$PWD/data" 2>&1)
server_pid=$!
trap 'kill "$server_pid"' EXIT
read -r _ COMERA_SERVER <&3
export COMERA_SERVER

failed=0
expect() {  # SHELL LINE WANTED GOT
  if [ "$3" != "$4" ]; then
    printf '%s: %s\n  wanted: %s\n  got:    %s\n' "$1" "$2" "$3" "$4"
    failed=1
  fi
}

# What bash would put in place of the last word.
cat >bash_complete.sh <<'END'
source <(comera completion bash)
COMP_LINE=$1 COMP_POINT=${#1}
# Splits the line as Bash does: at blanks and at = : @, which are words of their
# own.
read -ra COMP_WORDS <<<"$(sed 's/[=:@]/ & /g' <<<"$1")"
[[ $1 == *[[:space:]=:@] ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_comera
echo "${COMPREPLY[*]}"
END
cat >zsh_complete.zsh <<'END'
# Without a terminal there is no completion widget: the functions that would
# fill its menu print instead.
compdef() { : }
compset() { : }
_files() { print -n "files " }
_describe() { print -rn -- "${(@P)${@[-1]}%%:*} " }
source <(comera completion zsh)
words=(${(s: :)1})
[[ $1 == *" " ]] && words+=("")
CURRENT=$#words
PREFIX=$words[CURRENT]
_comera
END
shells() {  # LINE WANTED-OF-ALL [WANTED-OF-BASH]
  expect bash "$1" "${3-$2}" "$(bash --norc bash_complete.sh "$1")"
  if command -v zsh >/dev/null; then
    expect zsh "$1" "$2" "$(zsh -f zsh_complete.zsh "$1" | sed 's/ *$//')"
  fi
  if command -v fish >/dev/null; then
    expect fish "$1" "$2" "$(fish --no-config -c '
      comera completion fish | source
      complete -C $argv[1]' "$1" 2>/dev/null | cut -f1 | tr '\n' ' ' |
      sed 's/ *$//')"
  fi
}
for shell in zsh fish; do
  command -v $shell >/dev/null || echo "SKIPPED: $shell is not installed"
done

shells "comera wat" "watch"
shells "comera ls --lim" "--limit"
shells "comera -o j" "json"
shells "comera ls --output=y" "--output=yaml" "yaml"
shells "comera watch le" "left"
shells "comera watch jobs/le" "jobs/left"
shells "comera --server $COMERA_SERVER watch l" "left"
shells "comera nonsense " ""
expect bash files "my_job.yaml" \
  "$(bash --norc bash_complete.sh "comera submit my_j")"
if command -v fish >/dev/null; then
  expect fish files my_job.yaml "$(fish --no-config -c '
    comera completion fish | source
    complete -C "comera submit my_j"' 2>/dev/null | cut -f1)"
fi
exit $failed
