// Launches a member: picks its GPU, confines it, and starts its process.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/files/open_folder.h"
#include "worker/gang/file_rules.h"
#include "worker/gang/gang.h"
#include "worker/gang/member_environment.h"
#include "worker/session/member_files.h"
#include "worker/session/nccl_environment.h"
#include "worker/session/slot_inventory.h"
#include "worker/session/worker_session.h"

namespace comera::worker {
namespace {

// The limit includes threads.
constexpr int64_t kMaxMemberProcesses = 2048;

// The memory that each of so many members may take: nine tenths of the
// machine's in equal parts, because one that takes all stops the others and the
// daemon.
int64_t ShareOfMemory(size_t slots) {
  const int64_t bytes =
      int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return bytes / 10 * 9 / std::max<int64_t>(1, static_cast<int64_t>(slots));
}

}  // namespace

std::string WorkerSession::WhyUnfit(const v1::Slot& slot) {
  const std::string& uuid = slot.gpu().uuid();
  for (const auto& [id, used] : gpu_of_) {
    const auto rank = table_.Assignment(id);
    // An earlier daemon was given other GPUs, so that it counted them
    // differently.
    if (used == uuid && (!rank || rank->slot() != slot.index())) {
      return "a member that was started in another slot runs on it";
    }
  }
  return gpus_->Unfit(uuid);
}

absl::Status WorkerSession::ClaimGpu(const MemberTable::Actions::Start& start,
                                     const v1::Slot& slot,
                                     MemberCommand* command) {
  if (gpus_ == nullptr) return absl::OkStatus();
  const std::string& uuid = slot.gpu().uuid();
  // Members on the CPU see no GPU.
  command->environment.push_back(absl::StrCat("CUDA_VISIBLE_DEVICES=", uuid));
  if (uuid.empty()) return absl::OkStatus();
  for (std::string& setting :
       NcclEnvironment(start.assignment.spec().training(), environ)) {
    command->environment.push_back(std::move(setting));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string unfit = WhyUnfit(slot);
  if (!unfit.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("slot ", slot.index(), ", GPU ", uuid, ": ", unfit));
  }
  gpus_->Begin(uuid);
  gpu_of_[start.id] = uuid;
  return absl::OkStatus();
}

absl::Status WorkerSession::Confine(const MemberTable::Actions::Start& start,
                                    int threads, MemberCommand* command) {
  const v1::MemberAssignment& rank = start.assignment;
  std::vector<std::string> writable = folders_.WritableFolders(rank);
  writable.push_back(folders_.Temporary(rank.job(), rank.attempt()));
  for (const std::string& folder : writable) {
    RETURN_IF_ERROR(MakeDirectories(folder));
    if (options_.member_user) {
      RETURN_IF_ERROR(GiveOwnership(*options_.member_user, folder));
    }
  }
  // The state to resume from was fetched to a folder that was made for it, and
  // in which the member is to save its own.
  const absl::StatusOr<OpenFolder> checkpoints =
      OpenFolder::Open(folders_.Checkpoints(rank.job()));
  if (options_.member_user && checkpoints.ok()) {
    RETURN_IF_ERROR(GiveOwnership(*options_.member_user, *checkpoints));
  }
  command->user = options_.member_user;
  if (options_.confine_files) {
    std::vector<std::string> environment =
        MemberEnvironment(environ, command->environment);
    ASSIGN_OR_RETURN(FileRules rules, FileRules::Create(MemberFiles(
                                          rank, folders_, options_.data_dir,
                                          options_.trainer, environment)));
    command->file_rules = std::make_shared<FileRules>(std::move(rules));
  }
  if (options_.cgroups == nullptr) return absl::OkStatus();
  MemberCgroups::Limits limits;
  limits.memory_bytes = rank.spec().resources().memory_bytes();
  if (limits.memory_bytes == 0 && options_.limit_memory) {
    limits.memory_bytes = ShareOfMemory(options_.slots.size());
  }
  limits.processes = kMaxMemberProcesses;
  // One more core for threads that do not compute.
  limits.cores = threads + 1;
  auto cgroup = options_.cgroups->Make(
      absl::StrCat(options_.incarnation, "-", start.id), limits);
  // A member without a group is better than none.
  LOG_IF(ERROR, !cgroup.ok()) << "member without cgroup " << cgroup.status();
  if (cgroup.ok()) command->cgroup = *std::move(cgroup);
  return absl::OkStatus();
}

void WorkerSession::ReleaseGpu(GangMembers::Id id) {
  const auto found = gpu_of_.find(id);
  if (found == gpu_of_.end()) return;
  gpus_->End(found->second);
  gpu_of_.erase(found);
}

absl::Status WorkerSession::StartMember(
    const MemberTable::Actions::Start& start) {
  const v1::MemberAssignment& rank = start.assignment;
  v1::MemberKey key;
  key.set_job(rank.job());
  key.set_attempt(rank.attempt());
  key.set_rank(rank.rank());
  const int threads = ThreadsPerProcess(
      rank.spec(), options_.cores, static_cast<int>(options_.slots.size()));
  LOG_IF(WARNING, SpansWorkers(rank) && options_.address.empty())
      << "no --address, so only members on this machine can join "
      << DescribeMember(key);
  v1::Slot slot;
  for (const v1::Slot& one : options_.slots) {
    if (one.index() == rank.slot()) slot = one;
  }
  if (rank.spec().has_program() && !options_.run_programs) {
    return absl::FailedPreconditionError(
        "program: this worker runs no programs; the operator allows them with "
        "--allow_programs");
  }
  ASSIGN_OR_RETURN(const std::string task,
                   folders_.WriteTask(rank, threads, options_.address,
                                      slot.device() == v1::ResourceSpec::GPU
                                          ? v1::ResourceSpec::GPU
                                          : v1::ResourceSpec::CPU,
                                      options_.member_lease));
  MemberCommand command;
  command.arguments = {options_.trainer, absl::StrCat("--task=", task)};
  if (!options_.limit_memory) {
    command.arguments.push_back("--limit_to_plan=off");
  }
  command.environment = options_.environment;
  for (const auto& [name, value] :
       std::map<std::string, int>{{"RANK", rank.rank()},
                                  {"WORLD_SIZE", rank.world_size()},
                                  {"LOCAL_RANK", rank.local_rank()},
                                  {"LOCAL_WORLD_SIZE", rank.local_world_size()},
                                  {"OMP_NUM_THREADS", threads}}) {
    command.environment.push_back(absl::StrCat(name, "=", value));
  }
  command.environment.push_back(
      absl::StrCat("TMPDIR=", folders_.Temporary(rank.job(), rank.attempt())));
  command.events_path = folders_.Events(key);
  command.log_path = folders_.Log(key);
  command.survives = MembersSurvive();
  RETURN_IF_ERROR(Confine(start, threads, &command));
  RETURN_IF_ERROR(ClaimGpu(start, slot, &command));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    logs_.Begin(key, command.log_path);
    table_.Launching(start.id);
  }
  const auto undo = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ReleaseGpu(start.id);
    logs_.End(key);
  };
  // A daemon that finds no process to the record knows that the start was cut
  // short, and does not start the member once more.
  const absl::Status noted = Record(start, command, /*pid=*/0);
  if (!noted.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    undo();
    return noted;
  }
  // Counted before its end can be.
  if (options_.metrics != nullptr) {
    options_.metrics->OnMemberStarted(rank.job(), rank.attempt());
  }
  const absl::StatusOr<pid_t> pid = processes_->Launch(start.id, command);
  if (!pid.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (options_.metrics != nullptr) {
      options_.metrics->OnMemberEnded(rank.job(), /*failed=*/true);
    }
    undo();
    return pid.status();
  }
  LOG(INFO) << "member started " << DescribeMember(key)
            << " slot=" << rank.slot() << " pid=" << *pid
            << " threads=" << threads;
  const absl::Status recorded = Record(start, command, *pid);
  LOG_IF(ERROR, !recorded.ok()) << "record pid=" << *pid << " " << recorded;
  return absl::OkStatus();
}

}  // namespace comera::worker
