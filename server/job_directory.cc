#include "server/job_directory.h"

#include <limits>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace comera::server {
namespace {

constexpr int32_t kDefaultPage = 50;
constexpr int32_t kMaxPage = 1000;
// Pages stay below the 4 MiB that gRPC clients take by default.
constexpr size_t kMaxPageBytes = 2 << 20;

std::string Token(int64_t before_serial, uint64_t states) {
  return absl::WebSafeBase64Escape(
      absl::StrCat("1:", before_serial, ":", states));
}

absl::StatusOr<int64_t> ParseToken(const std::string& token, uint64_t states) {
  std::string text;
  int64_t serial = 0;
  uint64_t token_states = 0;
  const bool decoded =
      token.size() < 200 && absl::WebSafeBase64Unescape(token, &text);
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (!decoded || parts.size() != 3 || parts[0] != "1" ||
      !absl::SimpleAtoi(parts[1], &serial) || serial < 1 ||
      !absl::SimpleAtoi(parts[2], &token_states)) {
    return absl::InvalidArgumentError("page_token: not one of this server's");
  }
  if (token_states != states) {
    return absl::InvalidArgumentError(
        "page_token: belongs to a list with other states");
  }
  return serial;
}

}  // namespace

void JobDirectory::Put(int64_t serial, int64_t last_sequence, v1::Job job) {
  by_serial_[serial] = job.name();
  auto shown = std::make_shared<const v1::Job>(std::move(job));
  std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = entries_[shown->name()];
  if (entry.job != nullptr) Count(*entry.job, -1);
  Count(*shown, 1);
  entry.serial = serial;
  entry.last_sequence = last_sequence;
  // What was shown before is freed without the lock.
  entry.job.swap(shown);
}

void JobDirectory::Remove(const std::string& name) {
  auto it = entries_.find(name);
  if (it == entries_.end()) return;
  by_serial_.erase(it->second.serial);
  std::lock_guard<std::mutex> lock(mutex_);
  entries_.erase(it);
}

void JobDirectory::Refresh(v1::Job job) {
  auto it = entries_.find(job.name());
  if (it == entries_.end()) return;
  auto shown = std::make_shared<const v1::Job>(std::move(job));
  Count(*it->second.job, -1);
  Count(*shown, 1);
  std::lock_guard<std::mutex> lock(mutex_);
  it->second.job.swap(shown);
}

void JobDirectory::Count(const v1::Job& job, int by) {
  if (job.state() == v1::QUEUED) queued_[job.user()] += by;
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

void JobDirectory::ForEachNewest(
    int64_t serial, const std::function<bool(const Entry&)>& visit) const {
  auto it = by_serial_.upper_bound(serial);
  while (it != by_serial_.begin()) {
    if (!visit(*Find((--it)->second))) return;
  }
}

absl::StatusOr<v1::ListJobsResponse> JobDirectory::List(
    const v1::ListJobsRequest& request, const Filter& visible) const {
  if (request.page_size() < 0 || request.page_size() > kMaxPage) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: must be 0 to ", kMaxPage));
  }
  const int32_t size =
      request.page_size() == 0 ? kDefaultPage : request.page_size();
  uint64_t states = 0;
  for (int state : request.states()) {
    if (!v1::JobState_IsValid(state) || state == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("states: unknown state ", state));
    }
    states |= uint64_t{1} << state;
  }
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!request.page_token().empty()) {
    absl::StatusOr<int64_t> serial = ParseToken(request.page_token(), states);
    if (!serial.ok()) return serial.status();
    before = *serial;
  }
  v1::ListJobsResponse response;
  auto it = by_serial_.lower_bound(before);
  int64_t last = 0;
  size_t bytes = 0;
  while (it != by_serial_.begin()) {
    --it;
    const v1::Job& job = *Find(it->second)->job;
    if (states != 0 && (states >> job.state() & 1) == 0) continue;
    if (!visible(job)) continue;
    if (response.jobs_size() == size || bytes > kMaxPageBytes) {
      response.set_next_page_token(Token(last, states));
      break;
    }
    last = it->first;
    bytes += job.ByteSizeLong();
    *response.add_jobs() = job;
  }
  return response;
}

}  // namespace comera::server
