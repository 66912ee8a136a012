// Makes, writes and cleans up the folders of jobs, attempts and members.

#include "worker/gang/job_folders.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/time_util.h"
#include "worker/files/open_folder.h"
#include "worker/gang/gang.h"
#include "worker/trainer/process/task.pb.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

// Follows no links: libstdc++ goes down by descriptors, since version 12 also
// while others rename what is removed.
void Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

std::vector<fs::path> Children(const fs::path& folder) {
  std::vector<fs::path> children;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    children.push_back(it->path());
  }
  return children;
}

// When the file was last written; not what it leads to, if it is a link.
absl::Time Written(const fs::path& path) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return absl::InfinitePast();
  return absl::TimeFromTimespec(info.st_mtim);
}

// The time since anything in `path` was last written.
absl::Duration Age(const fs::path& path) {
  const absl::Time now = absl::Now();
  absl::Time newest = Written(path);
  if (newest == absl::InfinitePast()) return absl::ZeroDuration();
  std::error_code error;
  for (fs::recursive_directory_iterator it(path, error), end;
       !error && it != end; it.increment(error)) {
    newest = std::max(newest, Written(it->path()));
  }
  return now - newest;
}

// Whether the folder is there and not empty; true where that cannot be told. A
// link is no folder.
bool HoldsAny(const PathBelow& path) {
  const absl::StatusOr<OpenFolder> folder = OpenFolder::Open(path);
  if (absl::IsNotFound(folder.status()) ||
      absl::IsFailedPrecondition(folder.status())) {
    return false;
  }
  if (!folder.ok()) return true;
  const absl::StatusOr<std::vector<std::string>> names = folder->List();
  return !names.ok() || !names->empty();
}

}  // namespace

// The session has checked that `job` has the form "jobs/<id>".
std::string JobFolders::Job(const std::string& job) const {
  return absl::StrCat(data_dir_, "/", job);
}

std::string JobFolders::Attempt(const std::string& job, int64_t attempt) const {
  return absl::StrCat(Job(job), "/epoch-", attempt);
}

PathBelow JobFolders::Work(const std::string& job) const {
  return {Job(job), "work"};
}

PathBelow JobFolders::Checkpoints(const std::string& job) const {
  return Work(job).Child("checkpoints");
}

std::string JobFolders::Temporary(const std::string& job,
                                  int64_t attempt) const {
  return absl::StrCat(Attempt(job, attempt), "/tmp");
}

std::vector<std::string> JobFolders::Jobs() const {
  std::vector<std::string> jobs;
  for (const fs::path& job : Children(data_dir_ + "/jobs")) {
    std::error_code error;
    if (fs::is_directory(job / "work", error)) {
      jobs.push_back("jobs/" + job.filename().string());
    }
  }
  return jobs;
}

PathBelow JobFolders::Model(const std::string& job) const {
  return Work(job).Child("model");
}

PathBelow JobFolders::Targets(const std::string& job) const {
  return Work(job).Child("targets");
}

PathBelow JobFolders::Start(const std::string& job) const {
  return Work(job).Child("start_from.checkpoint");
}

std::string JobFolders::Rendezvous(const std::string& job,
                                   int64_t attempt) const {
  return absl::StrCat(Attempt(job, attempt), "/rendezvous");
}

std::string JobFolders::Log(const v1::MemberKey& rank) const {
  return absl::StrCat(Job(rank.job()), "/logs/", rank.attempt(), "-",
                      rank.rank(), ".log");
}

std::string JobFolders::Events(const v1::MemberKey& rank) const {
  return absl::StrCat(Attempt(rank.job(), rank.attempt()), "/rank-",
                      rank.rank(), "/events");
}

std::string JobFolders::Lease() const { return data_dir_ + "/lease"; }

std::vector<std::string> JobFolders::WritableFolders(
    const v1::MemberAssignment& member) const {
  std::vector<std::string> folders = {
      Work(member.job()).ToString(),
      Rendezvous(member.job(), member.attempt())};
  if (!member.spec().has_program()) {
    folders.push_back(absl::StrCat(data_dir_, "/cache"));
  }
  return folders;
}

absl::StatusOr<std::string> JobFolders::WriteTask(
    const v1::MemberAssignment& assignment, int threads,
    const std::string& address, v1::ResourceSpec::Device device,
    absl::Duration lease) const {
  const std::string& job = assignment.job();
  trainer::TrainerTask task;
  task.set_job(job.substr(job.rfind('/') + 1));
  task.set_attempt(assignment.attempt());
  *task.mutable_spec() = assignment.spec();
  task.set_rank(assignment.rank());
  task.set_world_size(assignment.world_size());
  task.set_local_rank(assignment.local_rank());
  task.set_local_world_size(assignment.local_world_size());
  task.set_threads(threads);
  task.set_device(device);
  task.set_rendezvous_dir(Rendezvous(job, assignment.attempt()));
  task.set_work_dir(Work(job).ToString());
  task.set_cache_dir(absl::StrCat(data_dir_, "/cache"));
  task.set_resume(assignment.resume());
  if (assignment.resume() && assignment.has_start()) {
    task.mutable_start()->set_attempt(assignment.start().attempt());
    task.mutable_start()->set_step(assignment.start().step());
  }
  if (lease > absl::ZeroDuration()) {
    task.set_lease_file(Lease());
    *task.mutable_lease() =
        google::protobuf::util::TimeUtil::NanosecondsToDuration(
            absl::ToInt64Nanoseconds(lease));
  }
  task.set_snapshot_every_steps(
      assignment.spec().checkpoint().snapshot_every_steps());
  if (SpansWorkers(assignment)) task.set_host(address);
  if (assignment.spec().has_start_from() && assignment.rank() == 0) {
    task.set_start_from(Start(job).ToString());
  }
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  const auto status =
      google::protobuf::util::MessageToJsonString(task, &json, options);
  if (!status.ok()) return absl::InternalError("task to JSON");
  const std::string folder = absl::StrCat(Attempt(job, assignment.attempt()),
                                          "/rank-", assignment.rank());
  for (const std::string& path :
       {folder, task.rendezvous_dir(), task.work_dir(), task.cache_dir(),
        Temporary(job, assignment.attempt()),
        absl::StrCat(Job(job), "/logs")}) {
    RETURN_IF_ERROR(MakeDirectories(path));
  }
  const std::string file = absl::StrCat(folder, "/task.json");
  RETURN_IF_ERROR(WriteFileAtomically(file, json));
  return file;
}

void JobFolders::RemoveAttempt(const std::string& job, int64_t attempt) const {
  Remove(Attempt(job, attempt));
}

void JobFolders::RemoveAllButLogs(const std::string& job) const {
  for (const fs::path& child : Children(Job(job))) {
    if (child.filename() != "logs") Remove(child.string());
  }
}

void JobFolders::RemoveOld(const std::set<std::string>& active,
                           absl::Duration stopped, absl::Duration logs) const {
  for (const fs::path& job : Children(data_dir_ + "/jobs")) {
    if (active.count("jobs/" + job.filename().string()) > 0) continue;
    for (const fs::path& child : Children(job)) {
      const bool is_logs = child.filename() == "logs";
      if (child.filename() == "work" &&
          HoldsAny({job.string(), "work/checkpoints"})) {
        continue;
      }
      if (Age(child) > (is_logs ? logs : stopped)) Remove(child.string());
    }
    std::error_code not_empty;
    fs::remove(job, not_empty);
  }
}

}  // namespace comera::worker
