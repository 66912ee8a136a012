#ifndef COMERA_SERVER_JOB_DIRECTORY_H_
#define COMERA_SERVER_JOB_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/training_service.pb.h"

namespace comera::server {

// The jobs as the store has them: all that clients are shown. Never ahead of
// the disk. The event loop owns it and alone changes it; Get() may be called
// from any thread, so that those who ask for a job's state wait for nobody.
class JobDirectory {
 public:
  struct Entry {
    int64_t serial = 0;
    // Of the newest event that is stored.
    int64_t last_sequence = 0;
    std::shared_ptr<const v1::Job> job;
  };

  void Put(int64_t serial, int64_t last_sequence, v1::Job job);
  void Remove(const std::string& name);
  // Replaces what is shown of a known job.
  void Refresh(v1::Job job);

  // Jobs of the user that wait. On the loop.
  int64_t queued(const std::string& user) const;

  // Null if unknown. On the loop.
  const Entry* Find(const std::string& name) const;
  // Null if unknown. On any thread.
  std::shared_ptr<const v1::Job> Get(const std::string& name) const;

  void ForEach(const std::function<void(const v1::Job&)>& visit) const;
  // Newest first, from the job of this serial on, until `visit` says false.
  void ForEachNewest(int64_t serial,
                     const std::function<bool(const Entry&)>& visit) const;

  // Whether the asker may see the job.
  using Filter = std::function<bool(const v1::Job&)>;

  // Newest first, without those that are not `visible`; a page may hold fewer
  // jobs than asked for when they are large. InvalidArgument: page_size,
  // page_token or states; a token belongs to the states that it was made with.
  absl::StatusOr<v1::ListJobsResponse> List(const v1::ListJobsRequest& request,
                                            const Filter& visible) const;

 private:
  // `by`: 1 for a job that is now shown, -1 for one that no longer is.
  void Count(const v1::Job& job, int by);

  // Held by who changes entries_, and by Get().
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, int64_t> queued_;
  std::map<int64_t, std::string> by_serial_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_JOB_DIRECTORY_H_
