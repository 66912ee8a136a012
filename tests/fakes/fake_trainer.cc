// Stands in for comera-trainer: does what the job's display_name (or --do=)
// says, with the trainer's own events and exit codes.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "comera/v1/progress.pb.h"
#include "google/protobuf/util/json_util.h"
#include "worker/collective/rendezvous.h"
#include "worker/trainer/process/exit_line.h"
#include "worker/trainer/process/task.pb.h"

namespace comera {
namespace {

using trainer::TrainerTask;

volatile sig_atomic_t asked_to_stop = 0;

void WriteEvent(const v1::TrainerEvent& event) {
  std::string line;
  (void)google::protobuf::util::MessageToJsonString(event, &line);
  line += '\n';
  (void)!write(STDOUT_FILENO, line.data(), line.size());
}

void WriteHeartbeat(int64_t step) {
  v1::TrainerEvent event;
  event.mutable_heartbeat()->set_stage(v1::EARLY);
  event.mutable_heartbeat()->set_step(step);
  event.mutable_heartbeat()->set_collectives(10 * step);
  WriteEvent(event);
}

void WriteModel(const TrainerTask& task) {
  const std::string folder = task.work_dir() + "/model";
  (void)!system(("mkdir -p " + folder).c_str());
  std::ofstream(folder + "/config.json") << "{}";
  // Larger than one piece of an upload.
  std::ofstream(folder + "/model.safetensors") << std::string(3 << 20, 'w');
}

int Succeed(const TrainerTask& task) {
  WriteHeartbeat(1);
  if (task.rank() != 0) return 0;
  v1::TrainerEvent event;
  event.mutable_run_info()->set_total_steps(3);
  WriteEvent(event);
  for (int step = 1; step <= 3; ++step) {
    event.mutable_metrics()->set_step(step);
    WriteEvent(event);
  }
  WriteModel(task);
  event.mutable_result()->set_outcome(v1::COMPLETED);
  event.mutable_result()->set_validation_loss(1.5);
  event.mutable_result()->set_size_parameters(42);
  WriteEvent(event);
  return 0;
}

// Succeeds with a list of two targets, each with a model.
int SucceedTwice(const TrainerTask& task) {
  for (int i = 1; i <= 2; ++i) {
    const std::string folder =
        task.work_dir() + "/targets/target-" + std::to_string(i);
    (void)!system(("mkdir -p " + folder).c_str());
    std::ofstream(folder + "/model.safetensors") << std::string(i, 't');
  }
  return Succeed(task);
}

int Fail(const TrainerTask& task) {
  fprintf(stderr, "a line about the data\n");
  v1::TrainerEvent event;
  event.mutable_failure()->set_failure_class(v1::DATA);
  event.mutable_failure()->set_message("line 7 is junk");
  WriteEvent(event);
  return 1;
}

int Crash(const TrainerTask& task) {
  WriteHeartbeat(1);
  fprintf(stderr, "about to crash\n");
  printf("unfinished");
  fflush(stdout);
  signal(SIGABRT, SIG_DFL);
  raise(SIGABRT);
  return 0;
}

// Waits for SIGTERM, then ends in good order.
int Wait(const TrainerTask& task) {
  sigset_t term, old;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, &old);
  signal(SIGTERM, [](int) { asked_to_stop = 1; });
  WriteHeartbeat(7);
  while (!asked_to_stop) sigsuspend(&old);
  fprintf(stderr, "stopping as asked\n");
  return 0;
}

// Succeeds once it gets SIGTERM.
int SucceedWhenTold(const TrainerTask& task) {
  sigset_t term, old;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, &old);
  signal(SIGTERM, [](int) { asked_to_stop = 1; });
  WriteHeartbeat(1);
  fprintf(stderr, "waiting\n");
  while (!asked_to_stop) sigsuspend(&old);
  fprintf(stderr, "told\n");
  return Succeed(task);
}

int IgnoreTerm(const TrainerTask& task) {
  signal(SIGTERM, SIG_IGN);
  WriteHeartbeat(1);
  while (true) pause();
}

int Spam(const TrainerTask& task) {
  const std::string line(999, 's');
  for (int i = 0; i < 1500; ++i) fprintf(stderr, "%s\n", line.c_str());
  printf("%s\n", std::string(3 << 20, 'x').c_str());  // Too long a line.
  printf("{\"not\": an event}\nplain words\n");
  fflush(stdout);
  return Succeed(task);
}

// Makes its output longer than all that it writes.
int Stretch(const TrainerTask& task) {
  if (ftruncate(STDOUT_FILENO, int64_t{4} << 40) != 0) return 1;
  WriteHeartbeat(1);
  return 0;
}

// Leaves a process behind that holds the pipes open.
int Orphan(const TrainerTask& task) {
  if (fork() == 0) {
    while (true) pause();
  }
  return Succeed(task);
}

// Leaves a process behind in a session of its own, as daemons do, and writes
// its id to the log.
int Daemon(const TrainerTask& task) {
  int told[2];
  if (pipe(told) != 0) return 1;
  if (fork() == 0) {
    setsid();
    close(told[0]);
    if (fork() != 0) _exit(0);
    close(STDOUT_FILENO);
    signal(SIGTERM, SIG_IGN);
    fprintf(stderr, "daemon=%d\n", getpid());
    close(STDERR_FILENO);
    close(told[1]);
    while (true) pause();
  }
  close(told[1]);
  wait(nullptr);
  // Waits until the daemon has written its id.
  char nothing;
  (void)!read(told[0], &nothing, 1);
  WriteHeartbeat(1);
  return 0;
}

// Leaves a process behind that says that it belongs to somebody else, and
// writes its id to the log.
int Impostor(const TrainerTask& task) {
  int told[2];
  if (pipe2(told, O_CLOEXEC) != 0) return 1;
  const pid_t pid = fork();
  if (pid == 0) {
    setsid();
    setenv("COMERA_RANK_MARK", "somebody#1#", 1);
    execlp("sleep", "sleep", "1000", nullptr);
    _exit(1);
  }
  close(told[1]);
  // Waits until the other program runs, which closes the pipe.
  char nothing;
  (void)!read(told[0], &nothing, 1);
  fprintf(stderr, "daemon=%d\n", pid);
  WriteHeartbeat(1);
  return 0;
}

// Stands still for ever, like a process in a debugger: reacts to no signal but
// SIGKILL.
int Freeze(const TrainerTask& task) {
  signal(SIGTERM, SIG_IGN);  // ignored even before it is stopped
  WriteHeartbeat(1);
  raise(SIGSTOP);
  return 0;
}

// Reports its result but does not end.
int Linger(const TrainerTask& task) {
  Succeed(task);
  while (true) pause();
}

void ShowVariable(const char* name) {
  const char* value = getenv(name);
  fprintf(stderr, "%s=%s ", name, value == nullptr ? "-" : value);
}

int ShowEnvironment(const TrainerTask& task) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK",
                           "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS"}) {
    ShowVariable(name);
  }
  char byte;
  fprintf(stderr, "stdin=%zd pgid=%d ", read(STDIN_FILENO, &byte, 1),
          getpgrp() == getpid());
  ShowVariable("CUDA_VISIBLE_DEVICES");
  ShowVariable("NCCL_NVLS_ENABLE");
  fprintf(stderr, "device=%s\n",
          v1::ResourceSpec::Device_Name(task.device()).c_str());
  return Succeed(task);
}

int Meet(const TrainerTask& task) {
  auto rendezvous = collective::FileRendezvous::Open(task.rendezvous_dir());
  if (!rendezvous.ok()) return 2;
  const auto key = [](int rank) { return "at/" + std::to_string(rank); };
  if (!rendezvous->Set(key(task.rank()), "address").ok()) return 2;
  const auto other = rendezvous->Get(key(1 - task.rank()), absl::Seconds(30));
  if (!other.ok()) return 3;
  fprintf(stderr, "met %s\n", other->c_str());
  return Succeed(task);
}

// Leaves in the rendezvous what no call can carry, and waits.
int Litter(const TrainerTask& task) {
  auto rendezvous = collective::FileRendezvous::Open(task.rendezvous_dir());
  if (!rendezvous.ok() || !rendezvous->Set("\xff", "no text").ok()) return 2;
  const std::string value(size_t{256} << 10, 'x');
  for (int i = 0; i < 65; ++i) {
    if (!rendezvous->Set("litter-" + std::to_string(i), value).ok()) return 2;
  }
  return Wait(task);
}

int Main(const std::string& what, const TrainerTask& task) {
  static const auto* const kActs =
      new std::map<std::string, int (*)(const TrainerTask&)>{
          {"succeed", Succeed},
          {"succeed_twice", SucceedTwice},
          {"fail", Fail},
          {"crash", Crash},
          {"wait", Wait},
          {"ignore_term", IgnoreTerm},
          {"spam", Spam},
          {"orphan", Orphan},
          {"daemon", Daemon},
          {"impostor", Impostor},
          {"freeze", Freeze},
          {"linger", Linger},
          {"environment", ShowEnvironment},
          {"meet", Meet},
          {"litter", Litter},
          {"succeed_when_told", SucceedWhenTold},
          {"stretch", Stretch}};
  const auto act = kActs->find(what);
  if (act == kActs->end()) {
    fprintf(stderr, "no act \"%s\"\n", what.c_str());
    return 64;
  }
  const int code = act->second(task);
  if (!task.lease_file().empty()) {
    const std::string line = trainer::kExitLine + std::to_string(code) + "\n";
    (void)!write(STDOUT_FILENO, line.data(), line.size());
  }
  return code;
}

}  // namespace
}  // namespace comera

int main(int argc, char** argv) {
  comera::trainer::TrainerTask task;
  const std::string argument = argc == 2 ? argv[1] : "";
  if (argument.rfind("--do=", 0) == 0) {
    task.set_rank(1);
    return comera::Main(argument.substr(5), task);
  }
  if (argument.rfind("--task=", 0) != 0) return 64;
  std::ifstream file(argument.substr(7));
  std::stringstream json;
  json << file.rdbuf();
  if (!google::protobuf::util::JsonStringToMessage(json.str(), &task).ok()) {
    return 65;
  }
  return comera::Main(task.spec().display_name(), task);
}
