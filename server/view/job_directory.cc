// Keeps every job in memory for readers, and lists them by filter.
#include "server/view/job_directory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/status_macros.h"
#include "server/view/job_view.h"

namespace comera::server {
namespace {

// Pages stay below the 4 MiB that gRPC clients take by default.
constexpr size_t kMaxPageBytes = 2 << 20;
// Jobs looked at while the mutex is held: the loop waits no longer than for
// some tens of microseconds.
constexpr int kScan = 500;

// Adds jobs up to the most bytes of a page, and at least one; returns how many.
size_t ShowJobs(const v1::ListJobsRequest& request,
                const std::vector<NumberedJob>& page,
                v1::ListJobsResponse* response) {
  size_t bytes = 0;
  size_t shown = 0;
  while (shown < page.size() && bytes <= kMaxPageBytes) {
    const v1::Job& job = *page[shown++].job;
    if (request.view() == v1::JOB_VIEW_BASIC) {
      ViewBasic(job, response->add_jobs());
    } else {
      *response->add_jobs() = job;
    }
    bytes += response->jobs().rbegin()->ByteSizeLong();
  }
  return shown;
}

// The files of the job in the server's folder.
int64_t ModelBytes(const v1::Job& job) {
  int64_t bytes = 0;
  for (const v1::Artifact& model : job.models()) {
    for (const v1::ArtifactFile& file : model.files()) {
      bytes += file.size_bytes();
    }
  }
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    bytes += checkpoint.file().size_bytes();
  }
  return bytes;
}

}  // namespace

void JobDirectory::Put(int64_t serial, int64_t last_sequence, v1::Job job) {
  auto shown = std::make_shared<const v1::Job>(std::move(job));
  const bool known = Find(shown->name()) != nullptr;
  auto text =
      known ? nullptr : std::make_shared<const std::string>(SearchText(*shown));
  const auto spec_bytes =
      known ? 0 : static_cast<int64_t>(shown->spec().ByteSizeLong());
  std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = entries_[shown->name()];
  if (known) {
    Count(*entry.job, entry.spec_bytes, -1);
    DropAliases(*entry.job);
  } else {
    entry.text = std::move(text);
    entry.spec_bytes = spec_bytes;
  }
  by_serial_[serial] = &entry;
  Count(*shown, entry.spec_bytes, 1);
  AddAliases(*shown);
  entry.serial = serial;
  entry.last_sequence = last_sequence;
  // What was shown before is freed without the lock.
  entry.job.swap(shown);
}

void JobDirectory::Remove(const std::string& name) {
  auto it = entries_.find(name);
  if (it == entries_.end()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  Count(*it->second.job, it->second.spec_bytes, -1);
  DropAliases(*it->second.job);
  by_serial_.erase(it->second.serial);
  entries_.erase(it);
}

void JobDirectory::Refresh(v1::Job job) {
  auto it = entries_.find(job.name());
  if (it == entries_.end()) return;
  auto shown = std::make_shared<const v1::Job>(std::move(job));
  std::lock_guard<std::mutex> lock(mutex_);
  Count(*it->second.job, it->second.spec_bytes, -1);
  Count(*shown, it->second.spec_bytes, 1);
  it->second.job.swap(shown);
}

void JobDirectory::AddAliases(const v1::Job& job) {
  for (const v1::Artifact& model : job.models()) {
    for (const std::string& alias : model.aliases()) {
      aliases_[alias] = job.name();
    }
  }
}

void JobDirectory::DropAliases(const v1::Job& job) {
  for (const v1::Artifact& model : job.models()) {
    for (const std::string& alias : model.aliases()) {
      const auto it = aliases_.find(alias);
      // It may stand for another job's model by now.
      if (it != aliases_.end() && it->second == job.name()) aliases_.erase(it);
    }
  }
}

const JobDirectory::Entry* JobDirectory::FindAlias(
    const std::string& alias) const {
  const auto it = aliases_.find(alias);
  return it == aliases_.end() ? nullptr : Find(it->second);
}

void JobDirectory::Count(const v1::Job& job, int64_t spec_bytes, int by) {
  const int64_t model_bytes = ModelBytes(job);
  model_bytes_ += by * model_bytes;
  Use& use = use_[job.user()];
  use.jobs += by;
  use.queued += job.state() == v1::QUEUED ? by : 0;
  use.spec_bytes += by * spec_bytes;
  use.model_bytes += by * model_bytes;
  if (use.jobs == 0) use_.erase(job.user());
  const auto count =
      counts_.try_emplace({job.spec().queue(), job.state()}).first;
  count->second += by;
  if (count->second == 0) counts_.erase(count);
}

JobDirectory::Counts JobDirectory::counts() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

JobDirectory::Use JobDirectory::UseOf(const std::string& user) const {
  const auto it = use_.find(user);
  return it == use_.end() ? Use() : it->second;
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
  // No serial follows it.
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  int64_t next = serial == kLast ? kLast : serial + 1;
  std::vector<Entry> entries;
  do {
    entries.clear();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto it = by_serial_.lower_bound(next);
      for (int i = 0; i < kScan && it != by_serial_.begin(); ++i) {
        --it;
        entries.push_back(*it->second);
      }
      if (!entries.empty()) next = it->first;
    }
    for (const Entry& entry : entries) {
      if (!visit(entry)) return;
    }
  } while (!entries.empty());
}

absl::StatusOr<v1::ListJobsResponse> JobDirectory::List(
    const v1::ListJobsRequest& request, const QueueFilter& visible) const {
  ASSIGN_OR_RETURN(const JobOrder order, JobOrder::Parse(request.order_by()));
  ASSIGN_OR_RETURN(JobFilter filter, JobFilter::Create(request, visible));
  ASSIGN_OR_RETURN(const int64_t place, filter.ParseToken());
  return order.is_newest_first() ? ListNewest(request, place, &filter)
                                 : ListOrdered(request, order, place, &filter);
}

v1::ListJobsResponse JobDirectory::ListNewest(
    const v1::ListJobsRequest& request, int64_t before,
    JobFilter* filter) const {
  std::vector<NumberedJob> page;
  bool more = false;
  int32_t total = 0;
  ForEachMatch(filter, [&](const Entry& entry) {
    ++total;
    if (entry.serial >= before) return;
    if (static_cast<int32_t>(page.size()) < filter->page_size()) {
      page.push_back({entry.serial, entry.job});
    } else {
      more = true;
    }
  });
  v1::ListJobsResponse response;
  response.set_total_size(total);
  const size_t shown = ShowJobs(request, page, &response);
  if (shown < page.size() || more) {
    response.set_next_page_token(filter->Token(page[shown - 1].serial));
  }
  return response;
}

v1::ListJobsResponse JobDirectory::ListOrdered(
    const v1::ListJobsRequest& request, const JobOrder& order, int64_t place,
    JobFilter* filter) const {
  std::vector<NumberedJob> jobs;
  ForEachMatch(filter, [&](const Entry& entry) {
    jobs.push_back({entry.serial, entry.job});
  });
  v1::ListJobsResponse response;
  response.set_total_size(static_cast<int32_t>(jobs.size()));
  order.Sort(&jobs);
  // Without a token the list begins at its first job.
  const size_t begin = request.page_token().empty()
                           ? 0
                           : std::min(static_cast<size_t>(place), jobs.size());
  const size_t end = std::min(begin + filter->page_size(), jobs.size());
  const std::vector<NumberedJob> page(jobs.begin() + begin, jobs.begin() + end);
  const size_t next = begin + ShowJobs(request, page, &response);
  if (next < jobs.size()) {
    response.set_next_page_token(filter->Token(static_cast<int64_t>(next)));
  }
  return response;
}

void JobDirectory::ForEachMatch(
    JobFilter* filter, const std::function<void(const Entry&)>& visit) const {
  int64_t next = std::numeric_limits<int64_t>::max();
  while (next > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = by_serial_.lower_bound(next);
    next = 0;
    for (int i = 0; i < kScan && it != by_serial_.begin(); ++i) {
      --it;
      next = it->first;
      const Entry& entry = *it->second;
      if (filter->Matches(*entry.job, *entry.text)) visit(entry);
    }
  }
}

}  // namespace comera::server
