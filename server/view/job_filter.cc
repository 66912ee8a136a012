// Matches jobs against a list's filter, and makes its page tokens.
#include "server/view/job_filter.h"

#include <limits>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/sha256.h"
#include "proto/resource_names.h"

namespace comera::server {
namespace {

constexpr int32_t kDefaultPage = 50;
constexpr int32_t kMaxPage = 1000;
constexpr size_t kMaxText = 256;
constexpr int kMaxLabels = 64;
constexpr size_t kMaxTokenBytes = 200;
// The length of the filter's digest in a token.
constexpr size_t kDigestLength = 16;
constexpr char kTokenVersion[] = "2";

absl::Status TooLong(const char* field) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": at most ", kMaxText, " bytes"));
}

absl::Status CheckText(const v1::ListJobsRequest& request) {
  if (request.text().size() > kMaxText) return TooLong("text");
  if (request.queue().size() > kMaxText) return TooLong("queue");
  if (request.user().size() > kMaxText) return TooLong("user");
  if (!request.sweep().empty() && !ParseSweepName(request.sweep())) {
    return absl::InvalidArgumentError("sweep: must be sweeps/{sweep}");
  }
  if (static_cast<int>(request.labels().size()) > kMaxLabels) {
    return absl::InvalidArgumentError(
        absl::StrCat("labels: at most ", kMaxLabels));
  }
  for (const auto& [key, value] : request.labels()) {
    if (key.size() > kMaxText || value.size() > kMaxText) {
      return TooLong("labels");
    }
  }
  if (!v1::JobView_IsValid(request.view())) {
    return absl::InvalidArgumentError(
        absl::StrCat("view: unknown view ", request.view()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string SearchText(const v1::Job& job) {
  std::string text = absl::StrCat(job.name(), "\n", job.spec().display_name());
  const std::map<std::string, std::string> labels(job.spec().labels().begin(),
                                                  job.spec().labels().end());
  for (const auto& [key, value] : labels) {
    absl::StrAppend(&text, "\n", key, "=", value);
  }
  absl::AsciiStrToLower(&text);
  return text;
}

absl::StatusOr<JobFilter> JobFilter::Create(
    const v1::ListJobsRequest& request,
    std::function<bool(const std::string& queue)> visible) {
  if (request.page_size() < 0 || request.page_size() > kMaxPage) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: must be 0 to ", kMaxPage));
  }
  if (absl::Status status = CheckText(request); !status.ok()) return status;
  JobFilter filter(request);
  for (int state : request.states()) {
    if (!v1::JobState_IsValid(state) || state == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("states: unknown state ", state));
    }
    filter.states_ |= uint64_t{1} << state;
  }
  filter.visible_ = std::move(visible);
  filter.page_size_ =
      request.page_size() == 0 ? kDefaultPage : request.page_size();
  filter.text_ = absl::AsciiStrToLower(request.text());
  return filter;
}

bool JobFilter::Sees(const std::string& queue) {
  const auto known = queues_.find(queue);
  if (known != queues_.end()) return known->second;
  return queues_[queue] = visible_(queue);
}

bool JobFilter::Matches(const v1::Job& job, const std::string& text) {
  if (states_ != 0 && (states_ >> job.state() & 1) == 0) return false;
  const std::string& queue = job.spec().queue();
  if (!request_.queue().empty() && queue != request_.queue()) return false;
  if (!request_.user().empty() && job.user() != request_.user()) return false;
  if (!request_.sweep().empty() && job.sweep() != request_.sweep()) {
    return false;
  }
  for (const auto& [key, value] : request_.labels()) {
    const auto label = job.spec().labels().find(key);
    if (label == job.spec().labels().end() || label->second != value) {
      return false;
    }
  }
  if (!text_.empty() && text.find(text_) == std::string::npos) return false;
  return Sees(queue);
}

std::string JobFilter::Digest() const {
  Sha256Stream stream;
  // Each with its length, so that no two filters read the same.
  const auto add = [&stream](const std::string& part) {
    stream.Add(absl::StrCat(part.size(), ":", part));
  };
  add(absl::StrCat(states_));
  add(request_.queue());
  add(request_.user());
  add(request_.sweep());
  add(text_);
  add(request_.order_by());
  const std::map<std::string, std::string> labels(request_.labels().begin(),
                                                  request_.labels().end());
  for (const auto& [key, value] : labels) {
    add(key);
    add(value);
  }
  return stream.Finish().substr(0, kDigestLength);
}

std::string JobFilter::Token(int64_t place) const {
  return absl::WebSafeBase64Escape(
      absl::StrCat(kTokenVersion, ":", place, ":", Digest()));
}

absl::StatusOr<int64_t> JobFilter::ParseToken() const {
  const std::string& token = request_.page_token();
  if (token.empty()) return std::numeric_limits<int64_t>::max();
  std::string text;
  int64_t serial = 0;
  const bool decoded = token.size() < kMaxTokenBytes &&
                       absl::WebSafeBase64Unescape(token, &text);
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (!decoded || parts.size() != 3 || parts[0] != kTokenVersion ||
      !absl::SimpleAtoi(parts[1], &serial) || serial < 1) {
    return absl::InvalidArgumentError("page_token: not one of this server's");
  }
  if (parts[2] != Digest()) {
    return absl::InvalidArgumentError(
        "page_token: belongs to a list with another filter");
  }
  return serial;
}

}  // namespace comera::server
