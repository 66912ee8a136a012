#ifndef COMERA_SERVER_VIEW_JOB_FILTER_H_
#define COMERA_SERVER_VIEW_JOB_FILTER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/statusor.h"
#include "comera/v1/training_service.pb.h"

namespace comera::server {

// What JobFilter searches for ListJobsRequest.text: name, display name and
// labels in lower case. ASCII letters alone have a case here.
std::string SearchText(const v1::Job& job);

// The jobs that a ListJobsRequest asks for, and the page tokens of the list.
class JobFilter {
 public:
  // `visible`: whether the asker may see a queue's jobs; asked once a queue.
  // InvalidArgument: a field of the request.
  static absl::StatusOr<JobFilter> Create(
      const v1::ListJobsRequest& request,
      std::function<bool(const std::string& queue)> visible);

  // `text`: the job's SearchText().
  bool Matches(const v1::Job& job, const std::string& text);

  int32_t page_size() const { return page_size_; }
  // What Token() was given, above 0; without a token more than any that it
  // could have been. InvalidArgument: no token of this list.
  absl::StatusOr<int64_t> ParseToken() const;
  // The token of the page after this place in the list: the serial of its last
  // job, or in a list in another order the number of jobs before.
  std::string Token(int64_t place) const;

 private:
  explicit JobFilter(const v1::ListJobsRequest& request) : request_(request) {}

  bool Sees(const std::string& queue);
  // A digest of the filter's fields; the same in every process.
  std::string Digest() const;

  v1::ListJobsRequest request_;
  std::function<bool(const std::string&)> visible_;
  std::unordered_map<std::string, bool> queues_;
  int32_t page_size_ = 0;
  uint64_t states_ = 0;
  std::string text_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_VIEW_JOB_FILTER_H_
