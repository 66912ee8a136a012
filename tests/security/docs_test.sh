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
# The page's commands for this machine, as a script of its own: "|| ..." around
# them would turn `set -e` off in all of them. At its end it tells what the
# checks below go on from.
cat > "$work/commands" <<'END'
trap 'jobs -p > pids; export -p > environment' EXIT
wait_for() {
  for _ in $(seq 600); do
    eval "$1" && return
    sleep 0.1
  done
  echo "still not so after 60 s: $1" >&2
  return 1
}
END
PYTHONPATH="$root/tests/docs" python3 -B - >> "$work/commands" <<'END'
import shlex
import page
for item in page.read_page('docs/security.md'):
    if isinstance(item, page.Directive):
        if item.kind != 'wait':
            raise SystemExit(f'docs/security.md:{item.line}: this test knows '
                             f'no "{item.kind}"')
        print('wait_for', shlex.quote(item.argument))
    elif item.language == 'sh' and not item.skip:
        print('\n'.join(item.text))
END
sed -i "s/7400/$port/g" "$work/commands"
grep -q comera-server "$work/commands"
cd "$work"

# Whether it has; an orphan may stay a zombie where nobody collects it.
has_ended() {
  ! grep -q '^State:.[^Z]' "/proc/$1/status" 2>/dev/null
}
stop() {
  local pid pids
  pids=$(cat pids 2>/dev/null) || return 0
  for pid in $pids; do kill "$pid" 2>/dev/null || true; done
  for pid in $pids; do
    for _ in $(seq 100); do
      if has_ended "$pid"; then break; fi
      sleep 0.1
    done
  done
}
trap stop EXIT
exec 3>&1
if ! bash -e -o pipefail commands > output 2> log; then
  echo "FAILED: a command of docs/security.md; the output and the log:"
  cat output log
  exit 1
fi >&2
source ./environment

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
