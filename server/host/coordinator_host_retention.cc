// Finished jobs and old logs go after a time, a part at each sweep.

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "proto/job_state.h"
#include "proto/resource_names.h"
#include "server/host/coordinator_host.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

// Of one sweep; the next one comes soon when there are more.
constexpr size_t kMaxJobs = 1000;

}  // namespace

void CoordinatorHost::MaybeSweep() {
  const absl::Time now = clock_->Now();
  if (now < next_sweep_) return;
  // Not in the first moments, which belong to the workers that come back.
  const bool first = next_sweep_ == absl::InfinitePast();
  next_sweep_ = now + (first ? std::min(absl::Minutes(1),
                                        options_.retention.sweep_interval)
                             : options_.retention.sweep_interval);
  if (!first) Sweep();
}

void CoordinatorHost::Sweep() {
  const Retention& keep = options_.retention;
  const absl::Time now = clock_->Now();
  const std::vector<std::string> expired =
      keep.keep_jobs == absl::InfiniteDuration()
          ? std::vector<std::string>()
          : coordinator_.ExpiredJobs(now - keep.keep_jobs, kMaxJobs);
  const std::vector<std::string> silent =
      keep.keep_logs >= keep.keep_jobs
          ? std::vector<std::string>()
          : coordinator_.ExpiredJobs(now - keep.keep_logs,
                                     std::numeric_limits<size_t>::max());
  if (!expired.empty() || (keep.dry_run && !silent.empty())) {
    LOG(INFO) << "event=retention expired_jobs=" << expired.size()
              << " expired_logs=" << silent.size()
              << " dry_run=" << keep.dry_run
              << (expired.empty() ? "" : " first=" + expired.front());
  }
  if (keep.dry_run) return;
  if (expired.size() == kMaxJobs) next_sweep_ = now + absl::Seconds(10);
  if (!expired.empty()) ForgetJobs(expired);
  if (!silent.empty()) {
    io_->Post([this, silent] { RemoveFiles(silent, /*logs_only=*/true); });
  }
  store_->Read([](JobStore* store) {
    const absl::Status status = store->Compact();
    LOG_IF(WARNING, !status.ok())
        << "event=compact status=\"" << status << "\"";
  });
}

void CoordinatorHost::ForgetJobs(const std::vector<std::string>& names) {
  Effects effects;
  coordinator_.Forget(names, &effects);
  const std::vector<std::string> deleted = effects.deleted_jobs;
  Apply(std::move(effects), [this, deleted](const absl::Status& status) {
    // Files go only once their job is surely forgotten.
    if (!status.ok() || stopping_) return;
    io_->Post([this, deleted] { RemoveFiles(deleted, /*logs_only=*/false); });
  });
}

void CoordinatorHost::RemoveFiles(const std::vector<std::string>& jobs,
                                  bool logs_only) {
  size_t files = 0;
  for (const std::string& job : jobs) {
    const auto id = ParseJobName(job);
    if (!id) continue;
    for (const char* kind : {"logs", "artifacts"}) {
      if (logs_only && kind != std::string("logs")) continue;
      std::error_code error;
      const auto removed = std::filesystem::remove_all(
          absl::StrCat(options_.data_dir, "/", kind, "/", *id), error);
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
