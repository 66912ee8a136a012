#!/usr/bin/env bash
# Runs the commands of docs/security.md, in order, in a folder of its own, and
# then looks for the secrets where none may be: command lines, logs, state.
set -euo pipefail
root=$PWD
work=$(mktemp -d "$TEST_TMPDIR/docs.XXXXXX")
mkdir "$work/bin" "$work/home"
for program in client/comera server/comera-server worker/comera-worker \
  worker/trainer/comera-trainer; do
  ln -s "$root/$program" "$work/bin/"
done
# The worker looks for the trainer beside itself.
rm "$work/bin/comera-worker"
cp "$root/worker/comera-worker" "$work/bin/"
export PATH="$work/bin:$PATH" HOME="$work/home"
unset COMERA_SERVER COMERA_TOKEN COMERA_TOKEN_FILE COMERA_CA XDG_CONFIG_HOME
port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
# The blocks of shell commands, for this machine.
awk '/^```sh$/ { inside = 1; next } /^```$/ { if (inside) print "after_block"; inside = 0 } inside' \
  "$root/docs/security.md" |
  sed "s/train\.example\.com/localhost/g; s/7400/$port/g" > "$work/commands"
grep -q comera-server "$work/commands"
cd "$work"

stop() {
  local pids
  pids=$(jobs -p)
  [ -z "$pids" ] || kill $pids 2>/dev/null || true
  wait || true
}
trap stop EXIT
# What a person would wait for.
after_block() {
  if [ -n "$(jobs -p)" ]; then
    for _ in $(seq 600); do
      [ -s admin.token ] && return
      sleep 0.1
    done
    echo "no admin token after 60 s" >&2
    exit 1
  fi
}
exec 3>&1
source ./commands > output 2> log || { cat output log >&2; exit 1; }

fail() {
  echo "FAILED: $*" >&2
  cat log >&2
  exit 1
}
grep -q alice output || fail "whoami did not know alice"
[ "$(stat -c %a admin.token)" = 600 ] || fail "admin.token is for all to read"
[ "$(stat -c %a home/.config/comera/login.json)" = 600 ] ||
  fail "login.json is for all to read"
comera workers -o json > workers.json 2>/dev/null || true
# The revoked token, and none, are refused.
code=0
COMERA_TOKEN_FILE=alice.token comera ls > /dev/null 2> refused || code=$?
[ "$code" = 4 ] || fail "a revoked token ended with $code: $(cat refused)"
# One in the clear never leaves.
code=0
env -u COMERA_CA COMERA_TOKEN_FILE=alice.token \
  comera --server example.invalid:1 ls > /dev/null 2> refused || code=$?
[ "$code" = 1 ] && grep -q unencrypted refused ||
  fail "a token would have been sent in the clear: $code $(cat refused)"

for token in admin.token alice.token worker.token; do
  secret=$(cut -d_ -f3 "$token")
  [ ${#secret} = 64 ] || fail "$token holds no token"
  if grep -rlF "$secret" log output refused state worker; then
    fail "the secret of $token is in the files above"
  fi
  for line in /proc/[0-9]*/cmdline; do
    if grep -qaF "$secret" "$line" 2>/dev/null; then
      fail "the secret of $token is in $line"
    fi
  done
done
echo "all commands of docs/security.md work; no secret was found" >&3
