// Starts, signals, reaps and starves the processes of a cluster.

#include "tests/e2e/chaos/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "tests/e2e/chaos/evidence.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

constexpr absl::Duration kStartLimit = absl::Seconds(60);
constexpr absl::Duration kStopLimit = absl::Seconds(60);

// Coordinators with less room than this on their disk take no changes. It is
// far less than the small disk has.
constexpr int64_t kMinFreeBytes = 16 << 20;

// The first port of the coordinators in a network of their own.
constexpr int kFirstPort = 7400;
constexpr int kFirstProxyPort = 7500;

std::string NetworkAddress(const std::string& host, int coordinator) {
  return absl::StrCat(host, ":", kFirstPort + coordinator);
}

std::string Ballast(const std::string& folder) { return folder + "/ballast"; }

}  // namespace

std::string ChaosCluster::worker_folder(int worker) const {
  return absl::StrCat(options_.folder, "/worker", worker);
}

std::string ChaosCluster::Name(int which) const {
  return which < 0 ? absl::StrCat("server", kCoordinator - which)
                   : absl::StrCat("worker", which);
}

std::unique_ptr<Process>& ChaosCluster::Slot(int which) {
  return which < 0 ? servers_[kCoordinator - which] : workers_[which];
}

const std::unique_ptr<Process>& ChaosCluster::Slot(int which) const {
  return which < 0 ? servers_[kCoordinator - which] : workers_[which];
}

std::string ChaosCluster::PortFile(int coordinator) {
  return absl::StrCat("port", coordinator);
}

std::string ChaosCluster::addresses() const {
  return absl::StrJoin(addresses_, ",");
}

pid_t ChaosCluster::Pid(int which) const {
  return Slot(which) != nullptr ? Slot(which)->pid() : 0;
}

absl::Status ChaosCluster::Begin() {
  servers_.resize(coordinators_);
  workers_.resize(options_.workers);
  if (options_.database != nullptr) {
    database_ = options_.database->MakeDatabase();
    for (int i = 0; i < coordinators_; ++i) {
      store_urls_.push_back(
          options_.network == nullptr || !options_.database_addresses
              ? options_.database->Url(database_)
              : options_.database->Url(database_,
                                       ChaosNetwork::DatabaseAddress(i)));
    }
  }
  RETURN_IF_ERROR(MakeDirectories(store_folder()));
  for (int i = 0; i < options_.workers; ++i) {
    RETURN_IF_ERROR(MountDisk(worker_folder(i)));
  }
  if (options_.coordinator_disk) RETURN_IF_ERROR(MountDisk(server_folder()));
  for (int which = -coordinators_; which < options_.workers; ++which) {
    RETURN_IF_ERROR(SetClock(which, absl::ZeroDuration()));
  }
  for (int i = 0; i < coordinators_; ++i) {
    RETURN_IF_ERROR(Start(kCoordinator - i));
    if (!WaitForFile(options_.folder, PortFile(i), kStartLimit)) {
      return absl::DeadlineExceededError("a coordinator does not start");
    }
    ASSIGN_OR_RETURN(std::string address,
                     ReadFile(absl::StrCat(options_.folder, "/", PortFile(i))));
    // A later start listens where the first one did.
    if (options_.network != nullptr) address = NetworkAddress("127.0.0.1", i);
    addresses_.push_back(std::move(address));
  }
  for (int i = 0; i < options_.workers; ++i) {
    std::vector<std::string>& routes = routes_.emplace_back();
    for (int c = 0; c < coordinators_; ++c) {
      std::string address =
          options_.network == nullptr
              ? addresses_[c]
              : NetworkAddress(ChaosNetwork::AddressFor(i), c);
      if (options_.proxy != nullptr) {
        ASSIGN_OR_RETURN(
            address, options_.proxy->AddRoute(
                         options_.network == nullptr
                             ? "127.0.0.1:0"
                             : absl::StrCat(ChaosNetwork::AddressFor(i), ":",
                                            kFirstProxyPort + c),
                         address, i));
      }
      routes.push_back(std::move(address));
    }
    RETURN_IF_ERROR(Start(i));
  }
  return absl::OkStatus();
}

absl::Status ChaosCluster::MountDisk(const std::string& folder) {
  RETURN_IF_ERROR(MakeDirectories(folder));
  if (options_.disk_bytes == 0) return absl::OkStatus();
  if (mount("tmpfs", folder.c_str(), "tmpfs", 0,
            absl::StrCat("mode=755,size=", options_.disk_bytes).c_str()) != 0) {
    return ErrnoStatus(errno, "mount a tmpfs at " + folder);
  }
  mounts_.push_back(folder);
  return absl::OkStatus();
}

std::string ChaosCluster::FolderOf(int which) const {
  return which < 0 ? server_folder() : worker_folder(which);
}

std::string ChaosCluster::ClockFile(int which) const {
  return absl::StrCat(options_.folder, "/", Name(which), ".clock");
}

std::string ChaosCluster::DiskFile(int which) const {
  return absl::StrCat(options_.folder, "/", Name(which), ".disk");
}

std::vector<std::string> ChaosCluster::Environment(int which) const {
  std::vector<std::string> preload, environment;
  if (has_clocks()) {
    preload.push_back(options_.faketime);
    environment.push_back("FAKETIME_TIMESTAMP_FILE=" + ClockFile(which));
    environment.push_back("FAKETIME_CACHE_DURATION=1");
    environment.push_back("FAKETIME_DONT_FAKE_MONOTONIC=1");
  }
  if (can_break_disks()) {
    preload.push_back(options_.disk_shim);
    environment.push_back("COMERA_DISK_FAULTS=" + DiskFile(which));
  }
  if (!preload.empty()) {
    environment.push_back("LD_PRELOAD=" + absl::StrJoin(preload, ":"));
  }
  return environment;
}

std::string ChaosCluster::Program(int which, const std::string& path) const {
  const bool old = which == 0 || (coordinators_ > 1 && which == -coordinators_);
  if (options_.old_programs.empty() || !old) return Binary(path);
  return absl::StrCat(options_.old_programs, "/",
                      path.substr(path.rfind('/') + 1));
}

absl::Status ChaosCluster::SetClock(int which, absl::Duration offset) const {
  if (!has_clocks()) return absl::OkStatus();
  const int64_t seconds = absl::ToInt64Seconds(offset);
  return WriteFileAtomically(
      ClockFile(which), absl::StrCat(seconds < 0 ? "" : "+", seconds, "\n"));
}

absl::Status ChaosCluster::BreakDisk(int which, absl::Duration delay,
                                     int percent) const {
  // The library compares it with the names that the kernel gives.
  std::error_code error;
  const std::string folder =
      std::filesystem::canonical(FolderOf(which), error).string();
  return WriteFileAtomically(
      DiskFile(which),
      absl::StrCat(folder, "\t", absl::ToInt64Milliseconds(delay), "\t",
                   percent, "\n"));
}

absl::Status ChaosCluster::MendDisk(int which) const {
  return WriteFileAtomically(DiskFile(which), "");
}

bool ChaosCluster::coordinator_disk_is_full() const {
  std::error_code error;
  const auto space = std::filesystem::space(server_folder(), error);
  return !error && space.available < static_cast<uint64_t>(kMinFreeBytes);
}

void ChaosCluster::LoseMachine(int worker) {
  Kill(worker);
  // One that was just started may not be seen at once.
  const absl::Time limit = absl::Now() + kStopLimit;
  for (std::vector<pid_t> members = Members(worker);
       !members.empty() && absl::Now() < limit; members = Members(worker)) {
    for (const pid_t member : members) ::kill(member, SIGKILL);
    absl::SleepFor(absl::Milliseconds(20));
  }
  // The folder itself may be a mount.
  std::error_code error;
  const std::filesystem::directory_iterator all(worker_folder(worker), error);
  const std::vector<std::filesystem::path> files(begin(all), end(all));
  for (const auto& file : files) std::filesystem::remove_all(file, error);
}

absl::StatusOr<int> ChaosCluster::Leader() const {
  if (options_.database == nullptr) return kCoordinator;
  ASSIGN_OR_RETURN(
      const std::string address,
      options_.database->ReadOne(database_, "SELECT address FROM coordinator"));
  for (int i = 0; i < coordinators_; ++i) {
    if (addresses_[i] == address) return kCoordinator - i;
  }
  return absl::UnavailableError("no coordinator is at " + address);
}

std::vector<std::string> ChaosCluster::Command(int which) const {
  std::vector<std::string> command;
  if (const std::vector<std::string> environment = Environment(which);
      !environment.empty()) {
    command.push_back("/usr/bin/env");
    command.insert(command.end(), environment.begin(), environment.end());
  }
  const std::vector<std::string> program =
      which < 0 ? CoordinatorCommand(kCoordinator - which)
                : WorkerCommand(which, worker_folder(which));
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

std::vector<std::string> ChaosCluster::CoordinatorCommand(
    int coordinator) const {
  std::vector<std::string> command = {
      Program(kCoordinator - coordinator, "server/comera-server"),
      absl::StrCat("--data_dir=", server_folder()),
      absl::StrCat("--port_file=", options_.folder, "/", PortFile(coordinator)),
      "--http_listen=127.0.0.1:0", "--node_lost_after=10s",
      // States that only an impostor has saved do not come back.
      "--checkpoint_wait=30s", "--reattach_grace=20s",
      absl::StrCat("--min_free_bytes=", kMinFreeBytes),
      "--disk_reserve_bytes=4194304"};
  const bool known = coordinator < static_cast<int>(addresses_.size());
  if (options_.network != nullptr) {
    // Reached at several loopback addresses, which nobody outside can reach.
    command.insert(
        command.end(),
        {absl::StrCat("--listen=", NetworkAddress("0.0.0.0", coordinator)),
         "--insecure_allow_remote"});
    if (options_.database != nullptr) {
      command.push_back(absl::StrCat("--advertise=",
                                     NetworkAddress("127.0.0.1", coordinator)));
    }
  } else {
    command.push_back(absl::StrCat(
        "--listen=", known ? addresses_[coordinator] : "127.0.0.1:0"));
  }
  if (!store_urls_.empty()) {
    command.push_back(absl::StrCat("--store=", store_urls_[coordinator]));
  }
  return command;
}

std::vector<std::string> ChaosCluster::WorkerCommand(
    int worker, const std::string& folder) const {
  std::vector<std::string> command = {
      Program(worker, "worker/comera-worker"),
      absl::StrCat("--server=", absl::StrJoin(routes_[worker], ",")),
      absl::StrCat("--name=", Name(worker)),
      absl::StrCat("--slots=", options_.slots),
      "--gpus=none",
      "--grace=10",
      "--member_lease=20s",
      absl::StrCat("--data_dir=", folder),
      "--data_root=/",
      absl::StrCat("--checkpoint_store=", store_folder()),
      absl::StrCat("--trainer=",
                   Program(worker, "worker/trainer/comera-trainer"))};
  if (options_.network != nullptr && options_.peer_addresses) {
    command.push_back(
        absl::StrCat("--address=", ChaosNetwork::PeerAddress(worker)));
  }
  return command;
}

void ChaosCluster::StartImpostor(int worker) {
  impostor_ = std::make_unique<Process>(
      WorkerCommand(worker, impostor_folder()), impostor_log());
}

bool ChaosCluster::ImpostorRuns() const {
  return impostor_ != nullptr && !impostor_->Wait(absl::ZeroDuration());
}

void ChaosCluster::KillImpostor() {
  if (impostor_ == nullptr) return;
  // The pid of one that has ended may be another's by now.
  if (ImpostorRuns()) ::kill(impostor_->pid(), SIGKILL);
  impostor_->Wait(kStopLimit);
  impostor_.reset();
}

absl::Status ChaosCluster::Start(int which) {
  Slot(which) = std::make_unique<Process>(Command(which), LogPath(which));
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

std::string ChaosCluster::LogPath(int which) const {
  return absl::StrCat(options_.folder, "/", Name(which), ".log");
}

std::vector<ChaosCluster::Ended> ChaosCluster::Reap() {
  // The last words of a worker that another one of its name has replaced, and
  // of a coordinator that starts while the database is away, which is to be
  // started again.
  constexpr char kReplaced[] = "has taken over";
  constexpr char kNoDatabase[] = "PostgreSQL: connection to server";
  constexpr size_t kTail = 1024;
  std::vector<Ended> all;
  for (int which = -coordinators_; which < options_.workers; ++which) {
    if (Slot(which) == nullptr) continue;
    const std::optional<int> code = Slot(which)->Wait(absl::ZeroDuration());
    if (!code) continue;
    Ended& ended = all.emplace_back();
    ended.which = which;
    ended.what = absl::StrCat(Name(which), " ended with ", *code);
    const absl::StatusOr<std::string> log = ReadFile(LogPath(which));
    ended.gave_way =
        log.ok() &&
        absl::StrContains(absl::string_view(*log).substr(
                              log->size() - std::min(log->size(), kTail)),
                          which >= 0 ? kReplaced : kNoDatabase);
    Slot(which).reset();
  }
  return all;
}

absl::Status ChaosCluster::End() {
  KillImpostor();
  RETURN_IF_ERROR(End(0, options_.workers));
  return End(-coordinators_, 0);
}

absl::Status ChaosCluster::End(int first, int end) {
  for (int which = first; which < end; ++which) {
    Signal(which, SIGCONT);
    Signal(which, SIGTERM);
  }
  absl::Status status;
  for (int which = first; which < end; ++which) {
    if (Slot(which) == nullptr) continue;
    const std::optional<int> code = Slot(which)->Wait(kStopLimit);
    if (code.value_or(-1) != 0) {
      status.Update(absl::DeadlineExceededError(
          absl::StrCat(Name(which), code ? " ended with " : " does not end ",
                       code.value_or(0))));
    }
  }
  return status;
}

std::vector<pid_t> ChaosCluster::Members(int worker) const {
  // A member that an earlier daemon started is no child of this one, but its
  // command line names a task file below the folder.
  std::vector<pid_t> members;
  for (const std::string& process :
       ProcessesNaming(worker_folder(worker) + "/")) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(process, absl::MaxSplits(": ", 1));
    pid_t pid = 0;
    if (absl::SimpleAtoi(parts.first, &pid) &&
        absl::StrContains(parts.second.substr(0, parts.second.find(' ')),
                          "comera-trainer")) {
      members.push_back(pid);
    }
  }
  return members;
}

void ChaosCluster::FillDisk(int which) const {
  const int file = open(Ballast(FolderOf(which)).c_str(),
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

void ChaosCluster::FreeDisk(int which) const {
  unlink(Ballast(FolderOf(which)).c_str());
}

ChaosCluster::~ChaosCluster() {
  impostor_.reset();
  workers_.clear();
  servers_.clear();
  for (const std::string& folder : mounts_) {
    umount2(folder.c_str(), MNT_DETACH);
  }
}

}  // namespace comera::e2e
