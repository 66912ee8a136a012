// Fetches the data of members before they start.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/data/url_view.h"
#include "worker/session/worker_session.h"

namespace comera::worker {

absl::Status WorkerSession::OpenCache(
    const std::vector<MemberRecord>& records) {
  DatasetCache::Options options = options_.cache;
  for (const MemberRecord& record : records) {
    for (const v1::DatasetPin& pin : record.assignment().datasets()) {
      options.kept_views.insert(pin.digest());
    }
  }
  ASSIGN_OR_RETURN(
      cache_, DatasetCache::Open(absl::StrCat(options_.data_dir, "/datasets"),
                                 options));
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const MemberRecord& record : records) {
    DatasetCache::Lease& lease =
        adopted_data_.try_emplace(record.id(), cache_.get()).first->second;
    for (const v1::DatasetPin& pin : record.assignment().datasets()) {
      cache_->KeepView(pin.digest(), &lease);
    }
  }
  blobs_ = std::make_unique<RemoteBlobs>(channel_);
  DataFetcher::Observer* const observer = this;
  fetcher_ = std::make_unique<DataFetcher>(options_.fetch, cache_.get(),
                                           blobs_.get(), observer);
  return absl::OkStatus();
}

std::vector<MemberTable::Actions::Start> WorkerSession::FetchData(
    const std::vector<MemberTable::Actions::Start>& starts) {
  std::vector<MemberTable::Actions::Start> ready;
  for (const MemberTable::Actions::Start& start : starts) {
    if (start.assignment.datasets().empty() &&
        !NamesUrls(start.assignment.spec())) {
      ready.push_back(start);
      continue;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      fetching_[start.id] = start.assignment;
    }
    fetcher_->Start(start.id, start.assignment);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  for (MemberTable::Actions::Start& start : fetched_) {
    if (table_.IsAwaited(start.id)) {
      ready.push_back(std::move(start));
    } else {
      fetcher_->Release(start.id);
      table_.FetchFailed(start.id, absl::CancelledError("not wanted"),
                         absl::Now());
    }
  }
  fetched_.clear();
  return ready;
}

void WorkerSession::OnFetching(DataFetcher::Id id,
                               const v1::TrainerEvent& heartbeat) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (table_.OnEvent(id, heartbeat)) Notify();
}

void WorkerSession::OnFetched(DataFetcher::Id id,
                              absl::StatusOr<v1::JobSpec> spec) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = fetching_.find(id);
  if (it == fetching_.end()) return;
  if (spec.ok()) {
    MemberTable::Actions::Start start{id, std::move(it->second)};
    PinUrls(start.assignment.spec(), *spec,
            start.assignment.mutable_datasets());
    *start.assignment.mutable_spec() = *std::move(spec);
    fetched_.push_back(std::move(start));
    table_.Preparing(id);
  } else {
    LOG_IF(ERROR, !absl::IsCancelled(spec.status()))
        << "member not started job=" << it->second.job()
        << " rank=" << it->second.rank() << " " << spec.status();
    fetcher_->Release(id);
    table_.FetchFailed(id, spec.status(), absl::Now());
  }
  fetching_.erase(it);
  // The session's thread starts the member.
  Notify();
}

void WorkerSession::CancelFetch(GangMembers::Id id) { fetcher_->Cancel(id); }

void WorkerSession::DropFetched() {
  for (const MemberTable::Actions::Start& start : fetched_) {
    fetcher_->Release(start.id);
    table_.FetchFailed(start.id, absl::CancelledError("not wanted"),
                       absl::Now());
  }
  fetched_.clear();
}

}  // namespace comera::worker
