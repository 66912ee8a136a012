// Runs one thread per fetch and reports the progress of all of them as
// heartbeats.

#include "worker/data/data_fetcher.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/backoff.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/data/dataset_view.h"
#include "worker/data/url_view.h"

namespace comera::worker {
namespace {

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsOutOfRange(status) || absl::IsUnauthenticated(status) ||
         absl::IsInternal(status) || absl::IsUnknown(status);
}

v1::TrainerEvent Heartbeat(const FetchProgress& progress,
                           const std::string& problem) {
  constexpr double kMiB = 1 << 20;
  v1::TrainerEvent event;
  v1::Heartbeat& heartbeat = *event.mutable_heartbeat();
  heartbeat.set_stage(v1::PREPARING);
  heartbeat.set_activity(
      absl::StrFormat("fetching data: %.1f of %.1f MiB%s",
                      progress.done_bytes / kMiB, progress.total_bytes / kMiB,
                      problem.empty() ? "" : absl::StrCat("; ", problem)));
  heartbeat.set_work(progress.done_bytes);
  return event;
}

}  // namespace

DataFetcher::DataFetcher(const Options& options, DatasetCache* cache,
                         BlobSource* source, Observer* observer)
    : options_(options),
      cache_(cache),
      source_(source),
      observer_(observer),
      reporter_([this] { Report(); }) {}

DataFetcher::~DataFetcher() {
  std::unique_lock<std::mutex> lock(mutex_);
  ending_ = true;
  for (auto& [id, task] : tasks_) task->cancelled = true;
  changed_.notify_all();
  lock.unlock();
  cache_->Wake();
  reporter_.join();
  lock.lock();
  // From here on no new task is started.
  std::vector<std::thread*> threads;
  for (auto& [id, task] : tasks_) threads.push_back(&task->thread);
  lock.unlock();
  for (std::thread* thread : threads) thread->join();
}

void DataFetcher::Start(Id id, const v1::MemberAssignment& assignment) {
  Reap();
  auto task = std::make_unique<Task>(cache_);
  Task* raw = task.get();
  raw->assignment = assignment;
  const std::lock_guard<std::mutex> lock(mutex_);
  raw->thread = std::thread([this, id, raw] { Run(id, raw); });
  tasks_[id] = std::move(task);
}

void DataFetcher::Cancel(Id id) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = tasks_.find(id);
    if (it == tasks_.end() || it->second->ended) return;
    it->second->cancelled = true;
    changed_.notify_all();
  }
  cache_->Wake();
}

void DataFetcher::Release(Id id) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = tasks_.find(id);
    if (it == tasks_.end()) return;
    it->second->released = true;
  }
}

void DataFetcher::Reap() {
  std::vector<std::unique_ptr<Task>> done;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = tasks_.begin(); it != tasks_.end();) {
      if (it->second->ended && it->second->released) {
        done.push_back(std::move(it->second));
        it = tasks_.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (const auto& task : done) task->thread.join();
}

void DataFetcher::Run(Id id, Task* task) {
  absl::StatusOr<v1::JobSpec> spec = Fetch(task);
  bool ending = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    task->fetched = true;
    ending = ending_;
  }
  if (!ending) {
    LOG(INFO) << "data fetched job=" << task->assignment.job()
              << " rank=" << task->assignment.rank() << " " << spec.status();
    observer_->OnFetched(id, std::move(spec));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  task->ended = true;
}

// Also sends heartbeats while no bytes arrive, because a member whose data are
// being fetched is not lost.
void DataFetcher::Report() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ending_) {
    std::vector<std::pair<Id, v1::TrainerEvent>> heartbeats;
    for (const auto& [id, task] : tasks_) {
      if (task->fetched) continue;
      heartbeats.emplace_back(id, Heartbeat(task->progress, task->problem));
    }
    lock.unlock();
    for (const auto& [id, event] : heartbeats) observer_->OnFetching(id, event);
    lock.lock();
    changed_.wait_for(
        lock, absl::ToChronoMilliseconds(options_.report_interval),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_; });
  }
}

absl::StatusOr<v1::JobSpec> DataFetcher::FetchAll(
    Task* task, const std::function<void(const FetchProgress&)>& on_progress) {
  FetchProgress datasets;
  ASSIGN_OR_RETURN(const v1::JobSpec spec,
                   FetchDatasets(
                       task->assignment.spec(), task->assignment.datasets(),
                       cache_, source_, task->cancelled,
                       [&](const FetchProgress& progress) {
                         datasets = progress;
                         on_progress(progress);
                       },
                       &task->lease));
  return FetchUrls(
      spec, options_.urls, cache_, task->cancelled,
      [&](const FetchProgress& progress) {
        on_progress({datasets.done_bytes + progress.done_bytes,
                     datasets.total_bytes + progress.total_bytes});
      },
      &task->lease);
}

absl::StatusOr<v1::JobSpec> DataFetcher::Fetch(Task* task) {
  Backoff backoff(options_.min_backoff, options_.max_backoff);
  absl::Time patience = absl::Now() + options_.patience;
  int64_t furthest = 0;
  while (true) {
    absl::StatusOr<v1::JobSpec> spec =
        FetchAll(task, [&](const FetchProgress& progress) {
          const std::lock_guard<std::mutex> lock(mutex_);
          task->progress = progress;
          if (progress.done_bytes <= furthest) return;
          furthest = progress.done_bytes;
          patience = absl::Now() + options_.patience;
          task->problem.clear();
        });
    if (task->cancelled) return absl::CancelledError("not wanted any more");
    if (spec.ok() || !IsTransient(spec.status())) return spec;
    if (absl::Now() >= patience) return spec;
    std::unique_lock<std::mutex> lock(mutex_);
    task->problem = std::string(spec.status().message());
    changed_.wait_for(lock, absl::ToChronoMilliseconds(backoff.Next()),
                      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                        return task->cancelled.load();
                      });
  }
}

}  // namespace comera::worker
