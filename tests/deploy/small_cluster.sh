# shellcheck shell=bash
# For tests to source: the built programs in one folder, free ports, a small
# job without data files, and no process left behind.

test_root=$PWD  # where Bazel starts tests
export PATH=$PATH:/usr/sbin:/sbin  # Bazel leaves these out.

# Waits for a condition, for N seconds at most: wait_for N COMMAND...
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -le "$end" ] || return 1
    sleep 0.1
  done
}

# gather_programs FOLDER: the four programs as an installation has them; the
# worker and the trainer, found beside it, are no links.
gather_programs() {
  mkdir -p "$1"
  local program
  for program in client/comera server/comera-server worker/comera-worker \
    worker/trainer/comera-trainer; do
    cp -L "$test_root/$program" "$1/"
    chmod u+w,a+rx "$1/${program##*/}"
  done
}

# free_ports N: that many, one per line. They are below those from which the
# system chooses for everybody's connections, so that none is gone before it is
# bound.
free_ports() {
  /usr/bin/python3 - "$1" <<'PYTHON'
import random, socket, sys
held = []
while len(held) < int(sys.argv[1]):
    one = socket.socket()
    try:
        one.bind(("127.0.0.1", random.randrange(10000, 32000)))
    except OSError:
        continue
    held.append(one)
    print(one.getsockname()[1])
PYTHON
}

# small_job STEPS [RANKS]: a job of clicks that it makes up itself, a checkpoint
# each 50 steps. 1,000 steps take a second or two.
small_job() {
  cat <<YAML
display_name: small
model:
  family: dlrm
  dlrm: {bottom_mlp: [16, 8], top_mlp: [16, 1], compressed_tables: 1}
data:
  synthetic_clicks:
    train_rows: 20000
    validation_rows: 200
    seed: 7
    table_rows: [2000, 50, 10]
compression:
  table: {input_modes: [20, 100], output_modes: [2, 4], ranks: 3}
objective:
  early: {steps: $1, gamma: 0.0}
optimizer:
  learning_rate_cores: 0.003
  learning_rate_ranks: 0.001
  learning_rate_other: 0.001
training: {batch_size: 64, seed: 1, report_every_steps: 50, validate_every_steps: 100000}
resources: {device: cpu, processes: ${2:-1}, threads_per_process: 1}
checkpoint: {every_steps: 50}
YAML
}

# stop PID...: SIGTERM, and SIGKILL for what is there 20 s later.
stop() {
  local pid
  for pid; do kill "$pid" 2>/dev/null || true; done
  for pid; do
    wait_for 20 gone "$pid" || kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}
gone() {
  local state
  state=$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)
  [ -z "$state" ] || [ "$state" = Z ]
}
