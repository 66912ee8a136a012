// Keeps every job in memory for readers, and lists them by filter.
#include "server/view/job_directory.h"

#include <limits>
#include <utility>

#include "common/status_macros.h"
#include "server/view/job_filter.h"
#include "server/view/job_view.h"

namespace comera::server {
namespace {

// Pages stay below the 4 MiB that gRPC clients take by default.
constexpr size_t kMaxPageBytes = 2 << 20;
// Jobs looked at while the mutex is held: the loop waits no longer than for
// some tens of microseconds.
constexpr int kScan = 500;

}  // namespace

void JobDirectory::Put(int64_t serial, int64_t last_sequence, v1::Job job) {
  auto shown = std::make_shared<const v1::Job>(std::move(job));
  const bool known = Find(shown->name()) != nullptr;
  auto text =
      known ? nullptr : std::make_shared<const std::string>(SearchText(*shown));
  std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = entries_[shown->name()];
  if (known) {
    Count(*entry.job, -1);
  } else {
    entry.text = std::move(text);
  }
  by_serial_[serial] = &entry;
  Count(*shown, 1);
  entry.serial = serial;
  entry.last_sequence = last_sequence;
  // What was shown before is freed without the lock.
  entry.job.swap(shown);
}

void JobDirectory::Remove(const std::string& name) {
  auto it = entries_.find(name);
  if (it == entries_.end()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  Count(*it->second.job, -1);
  by_serial_.erase(it->second.serial);
  entries_.erase(it);
}

void JobDirectory::Refresh(v1::Job job) {
  auto it = entries_.find(job.name());
  if (it == entries_.end()) return;
  auto shown = std::make_shared<const v1::Job>(std::move(job));
  std::lock_guard<std::mutex> lock(mutex_);
  Count(*it->second.job, -1);
  Count(*shown, 1);
  it->second.job.swap(shown);
}

void JobDirectory::Count(const v1::Job& job, int by) {
  if (job.state() == v1::QUEUED) queued_[job.user()] += by;
  const auto count =
      counts_.try_emplace({job.spec().queue(), job.state()}).first;
  count->second += by;
  if (count->second == 0) counts_.erase(count);
}

JobDirectory::Counts JobDirectory::counts() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

int64_t JobDirectory::queued(const std::string& user) const {
  const auto it = queued_.find(user);
  return it == queued_.end() ? 0 : it->second;
}

const JobDirectory::Entry* JobDirectory::Find(const std::string& name) const {
  auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

void JobDirectory::ForEach(
    const std::function<void(const v1::Job&)>& visit) const {
  for (const auto& [name, entry] : entries_) visit(*entry.job);
}

std::shared_ptr<const v1::Job> JobDirectory::Get(
    const std::string& name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const Entry* entry = Find(name);
  return entry != nullptr ? entry->job : nullptr;
}

std::optional<JobDirectory::Entry> JobDirectory::GetEntry(
    const std::string& name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const Entry* entry = Find(name);
  if (entry == nullptr) return std::nullopt;
  return *entry;
}

void JobDirectory::ForEachNewest(
    int64_t serial, const std::function<bool(const Entry&)>& visit) const {
  auto it = by_serial_.upper_bound(serial);
  while (it != by_serial_.begin()) {
    if (!visit(*(--it)->second)) return;
  }
}

absl::StatusOr<v1::ListJobsResponse> JobDirectory::List(
    const v1::ListJobsRequest& request, const QueueFilter& visible) const {
  ASSIGN_OR_RETURN(JobFilter filter, JobFilter::Create(request, visible));
  ASSIGN_OR_RETURN(const int64_t before, filter.ParseToken());
  std::vector<std::pair<int64_t, std::shared_ptr<const v1::Job>>> page;
  bool more = false;
  int32_t total = 0;
  // All of them, for their number.
  int64_t next = std::numeric_limits<int64_t>::max();
  while (next > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = by_serial_.lower_bound(next);
    next = 0;
    for (int i = 0; i < kScan && it != by_serial_.begin(); ++i) {
      --it;
      next = it->first;
      const Entry& entry = *it->second;
      if (!filter.Matches(*entry.job, *entry.text)) continue;
      ++total;
      if (it->first >= before) continue;
      if (static_cast<int32_t>(page.size()) < filter.page_size()) {
        page.emplace_back(it->first, entry.job);
      } else {
        more = true;
      }
    }
  }
  v1::ListJobsResponse response;
  response.set_total_size(total);
  size_t bytes = 0;
  for (size_t i = 0; i < page.size(); ++i) {
    v1::Job* job = response.add_jobs();
    if (request.view() == v1::JOB_VIEW_BASIC) {
      ViewBasic(*page[i].second, job);
    } else {
      *job = *page[i].second;
    }
    bytes += job->ByteSizeLong();
    const bool last = i + 1 == page.size();
    if (last ? more : bytes > kMaxPageBytes) {
      response.set_next_page_token(filter.Token(page[i].first));
      break;
    }
  }
  return response;
}

}  // namespace comera::server
