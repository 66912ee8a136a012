// Finished jobs and old logs go after a time, a part at each sweep.
#include "server/host/job_retention.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "proto/resource_names.h"

namespace comera::server {
namespace {

// Jobs that one sweep removes; the next one comes soon when there are more.
constexpr size_t kMaxJobs = 1000;
constexpr absl::Duration kNextPart = absl::Seconds(10);
constexpr absl::Duration kMaxFirstWait = absl::Minutes(1);

}  // namespace

bool JobRetention::IsDue(absl::Time now) {
  // A clock that was set back does not put the sweeps off.
  if (next_sweep_ > now + options_.sweep_interval) next_sweep_ = now;
  if (now < next_sweep_) return false;
  const bool first = next_sweep_ == absl::InfinitePast();
  next_sweep_ = now + (first ? std::min(kMaxFirstWait, options_.sweep_interval)
                             : options_.sweep_interval);
  return !first;
}

JobRetention::Expired JobRetention::Find(const Coordinator& coordinator,
                                         absl::Time now, absl::Duration lead) {
  const absl::Time then = now - lead;
  Expired expired;
  if (options_.keep_jobs != absl::InfiniteDuration()) {
    expired.jobs = coordinator.ExpiredJobs(then - options_.keep_jobs, kMaxJobs);
  }
  if (options_.keep_logs < options_.keep_jobs) {
    expired.silent = coordinator.ExpiredJobs(
        then - options_.keep_logs, std::numeric_limits<size_t>::max());
  }
  if (!expired.jobs.empty() || (options_.dry_run && !expired.silent.empty())) {
    LOG(INFO) << "event=retention expired_jobs=" << expired.jobs.size()
              << " expired_logs=" << expired.silent.size()
              << " dry_run=" << options_.dry_run
              << (expired.jobs.empty() ? "" : " first=" + expired.jobs.front());
  }
  if (options_.dry_run) return Expired();
  if (expired.jobs.size() == kMaxJobs) next_sweep_ = now + kNextPart;
  return expired;
}

void RemoveJobFiles(const std::string& data_dir,
                    const std::vector<std::string>& jobs, bool logs_only) {
  size_t files = 0;
  for (const std::string& job : jobs) {
    const auto id = ParseJobName(job);
    if (!id) continue;
    for (const char* kind : {"logs", "artifacts"}) {
      if (logs_only && kind != std::string("logs")) continue;
      std::error_code error;
      const auto removed = std::filesystem::remove_all(
          absl::StrCat(data_dir, "/", kind, "/", *id), error);
      if (error) {
        LOG(WARNING) << "job=" << job << " event=files_not_removed error=\""
                     << error.message() << "\"";
      } else {
        files += removed;
      }
    }
  }
  if (files > 0) LOG(INFO) << "event=files_removed count=" << files;
}

}  // namespace comera::server
