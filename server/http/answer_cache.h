#ifndef COMERA_SERVER_HTTP_ANSWER_CACHE_H_
#define COMERA_SERVER_HTTP_ANSWER_CACHE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/steady_time.h"
#include "server/http/answer.h"

namespace comera::server {

// Answers of the last moment, for the many who ask the same: an entry serves as
// long as nothing that anybody did or that happened to a job has changed what
// is seen, and only for a short time, since progress and the time itself are
// not counted. Thread-safe.
//
// Who may see an answer is in its key.
class AnswerCache {
 public:
  struct Options {
    absl::Duration life = absl::Milliseconds(500);
    size_t max_bytes = 64 << 20;
    size_t max_answer_bytes = 4 << 20;
  };

  explicit AnswerCache(const Options& options) : options_(options) {}

  // `changes`: how much has changed until now. Null: there is none.
  std::shared_ptr<const Body> Find(const std::string& key, int64_t changes,
                                   absl::Time now = SteadyNow());
  // `changes`: how much had changed before the answer was asked for.
  void Put(const std::string& key, int64_t changes,
           std::shared_ptr<const Body> body, absl::Time now = SteadyNow());

  size_t bytes() const;

 private:
  struct Entry {
    int64_t changes = 0;
    absl::Time time;
    std::shared_ptr<const Body> body;
    size_t bytes = 0;
  };

  // Makes room.
  void Trim(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // Keys as they were put, oldest first.
  std::deque<std::pair<absl::Time, std::string>> order_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_ANSWER_CACHE_H_
