// Starts, signals, reaps and starves the processes of a cluster.

#include "tests/e2e/chaos/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

constexpr absl::Duration kStartLimit = absl::Seconds(60);
constexpr absl::Duration kStopLimit = absl::Seconds(60);

std::string Ballast(const std::string& folder) { return folder + "/ballast"; }

}  // namespace

std::string ChaosCluster::worker_folder(int worker) const {
  return absl::StrCat(options_.folder, "/worker", worker);
}

std::string ChaosCluster::Name(int which) const {
  return which == kCoordinator ? "server" : absl::StrCat("worker", which);
}

std::unique_ptr<Process>& ChaosCluster::Slot(int which) {
  return which == kCoordinator ? server_ : workers_[which];
}

const std::unique_ptr<Process>& ChaosCluster::Slot(int which) const {
  return which == kCoordinator ? server_ : workers_[which];
}

pid_t ChaosCluster::Pid(int which) const {
  return Slot(which) != nullptr ? Slot(which)->pid() : 0;
}

absl::Status ChaosCluster::Begin() {
  workers_.resize(options_.workers);
  RETURN_IF_ERROR(MakeDirectories(options_.folder));
  for (int i = 0; i < options_.workers; ++i) {
    const std::string folder = worker_folder(i);
    RETURN_IF_ERROR(MakeDirectories(folder));
    if (options_.disk_bytes == 0) continue;
    if (mount("tmpfs", folder.c_str(), "tmpfs", 0,
              absl::StrCat("mode=755,size=", options_.disk_bytes).c_str()) !=
        0) {
      return ErrnoStatus(errno, "mount a tmpfs at " + folder);
    }
    mounts_.push_back(folder);
  }
  RETURN_IF_ERROR(Start(kCoordinator));
  if (!WaitForFile(options_.folder, "port", kStartLimit)) {
    return absl::DeadlineExceededError("the coordinator does not start");
  }
  ASSIGN_OR_RETURN(address_, ReadFile(options_.folder + "/port"));
  for (int i = 0; i < options_.workers; ++i) RETURN_IF_ERROR(Start(i));
  return absl::OkStatus();
}

std::vector<std::string> ChaosCluster::Command(int which) const {
  std::vector<std::string> command;
  if (!options_.environment.empty()) {
    command.push_back("/usr/bin/env");
    command.insert(command.end(), options_.environment.begin(),
                   options_.environment.end());
  }
  std::vector<std::string> program;
  if (which == kCoordinator) {
    program = {
        Binary("server/comera-server"),
        absl::StrCat("--listen=", address_.empty() ? "127.0.0.1:0" : address_),
        absl::StrCat("--data_dir=", server_folder()),
        absl::StrCat("--port_file=", options_.folder, "/port"),
        "--node_lost_after=10s",
        "--reattach_grace=20s"};
  } else {
    program = {
        Binary("worker/comera-worker"),
        absl::StrCat("--server=", address_),
        absl::StrCat("--name=", Name(which)),
        absl::StrCat("--slots=", options_.slots),
        "--gpus=none",
        "--grace=10",
        absl::StrCat("--data_dir=", worker_folder(which)),
        "--data_root=/",
        absl::StrCat("--trainer=", Binary("worker/trainer/comera-trainer"))};
  }
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

absl::Status ChaosCluster::Start(int which) {
  Slot(which) = std::make_unique<Process>(
      Command(which), absl::StrCat(options_.folder, "/", Name(which), ".log"));
  return absl::OkStatus();
}

void ChaosCluster::Signal(int which, int signal) const {
  if (Pid(which) > 0) ::kill(Pid(which), signal);
}

void ChaosCluster::Kill(int which) {
  Signal(which, SIGKILL);
  // Kills the process alone: what it leaves behind must end by itself.
  if (Slot(which) != nullptr) Slot(which)->Wait(kStopLimit);
  Slot(which).reset();
}

std::vector<std::string> ChaosCluster::Reap() {
  std::vector<std::string> lines;
  for (int which = kCoordinator; which < options_.workers; ++which) {
    if (Slot(which) == nullptr) continue;
    const std::optional<int> code = Slot(which)->Wait(absl::ZeroDuration());
    if (!code) continue;
    lines.push_back(absl::StrCat(Name(which), " ended with ", *code));
    Slot(which).reset();
  }
  return lines;
}

absl::Status ChaosCluster::End() {
  absl::Status status;
  for (int which = options_.workers - 1; which >= kCoordinator; --which) {
    Signal(which, SIGCONT);
    Signal(which, SIGTERM);
    if (which > 0) continue;  // the workers end together
    const int last = which == 0 ? options_.workers - 1 : kCoordinator;
    for (int ending = which; ending <= last; ++ending) {
      if (Slot(ending) == nullptr) continue;
      const std::optional<int> code = Slot(ending)->Wait(kStopLimit);
      if (status.ok() && code.value_or(-1) != 0) {
        status = absl::DeadlineExceededError(
            absl::StrCat(Name(ending), code ? " ended with " : " does not end ",
                         code.value_or(0)));
      }
    }
  }
  return status;
}

std::vector<pid_t> ChaosCluster::Members(int worker) const {
  const pid_t pid = Pid(worker);
  return pid > 0 ? Children(pid, "comera-trainer") : std::vector<pid_t>();
}

void ChaosCluster::FillDisk(int worker) const {
  const int file = open(Ballast(worker_folder(worker)).c_str(),
                        O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  // Writes ever smaller pieces, until the disk is full.
  off_t end = 0;
  for (off_t piece = 16 << 20; piece >= 4096;) {
    if (posix_fallocate(file, end, piece) == 0) {
      end += piece;
    } else {
      piece /= 2;
    }
  }
  close(file);
}

void ChaosCluster::FreeDisk(int worker) const {
  unlink(Ballast(worker_folder(worker)).c_str());
}

ChaosCluster::~ChaosCluster() {
  workers_.clear();
  server_.reset();
  for (const std::string& folder : mounts_) {
    umount2(folder.c_str(), MNT_DETACH);
  }
}

}  // namespace comera::e2e
