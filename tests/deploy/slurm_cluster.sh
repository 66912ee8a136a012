# shellcheck shell=bash
# For tests to source: a Slurm of their own on this machine, below one folder
# and on free ports of loopback; nothing of the system's is read or written.

# start_slurm FOLDER: munged, slurmctld and two nodes, n1 and n2, of two
# processors each; SLURM_CONF is exported. Their ids go to slurm_pids. FOLDER's
# name must be short (sockets). Lines of slurm_more_conf go into slurm.conf.
slurm_pids=()
slurm_more_conf=""
start_slurm() {
  local folder=$1 me node ports
  me=$(id -un)
  mapfile -t ports < <(free_ports 3)
  mkdir -p "$folder/state" "$folder/n1" "$folder/n2"
  chmod 711 "$folder"
  dd if=/dev/urandom of="$folder/munge.key" bs=32 count=1 status=none
  chmod 600 "$folder/munge.key"
  cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=30
SchedulerParameters=batch_sched_delay=0,sched_min_interval=10000
NodeName=n1 NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=2 State=UNKNOWN
NodeName=n2 NodeAddr=127.0.0.1 Port=${ports[2]} CPUs=2 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
$slurm_more_conf
CONF
  # slurmd loads a plugin for control groups though nothing here uses one; this
  # one then touches none.
  printf 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=%s\n' "$folder/none" \
    >"$folder/cgroup.conf"
  export SLURM_CONF=$folder/slurm.conf
  /usr/sbin/munged --foreground --force --key-file="$folder/munge.key" \
    --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --seed-file="$folder/munged.seed" --log-file="$folder/munged.log" \
    >"$folder/munged.out" 2>&1 &
  slurm_pids+=($!)
  wait_for 20 test -S "$folder/munge.socket" || return 1
  /usr/sbin/slurmctld -D -i >"$folder/slurmctld.out" 2>&1 &
  slurm_pids+=($!)
  for node in n1 n2; do
    /usr/sbin/slurmd -D -N "$node" >"$folder/$node.out" 2>&1 &
    slurm_pids+=($!)
  done
  wait_for 60 slurm_ready
}
slurm_ready() {
  [ "$(sinfo -h -o %t -t idle -n n1,n2 -N | wc -l)" = 2 ]
}

# stop_slurm: the daemons of nodes last started end first.
stop_slurm() {
  local i
  for ((i = ${#slurm_pids[@]} - 1; i >= 0; i--)); do stop "${slurm_pids[i]}"; done
  slurm_pids=()
}
