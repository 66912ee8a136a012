#ifndef COMERA_SERVER_VIEW_JOB_DIRECTORY_H_
#define COMERA_SERVER_VIEW_JOB_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/training_service.pb.h"

namespace comera::server {

// The jobs as the store has them: all that clients are shown. Never ahead of
// the disk. The event loop owns it and alone changes it; Get(), GetEntry() and
// List() may be called from any thread, so that those who ask for jobs wait for
// nobody.
class JobDirectory {
 public:
  struct Entry {
    int64_t serial = 0;
    // The number of the newest event that is stored.
    int64_t last_sequence = 0;
    std::shared_ptr<const v1::Job> job;
    // What a search looks through, in lower case; of the job's fields that
    // never change.
    std::shared_ptr<const std::string> text;
  };

  void Put(int64_t serial, int64_t last_sequence, v1::Job job);
  void Remove(const std::string& name);
  // Replaces what is shown of a known job.
  void Refresh(v1::Job job);

  // How many there are, by queue and state. On any thread.
  using Counts = std::map<std::pair<std::string, v1::JobState>, int64_t>;
  Counts counts() const;

  // Jobs of the user that wait. On the loop.
  int64_t queued(const std::string& user) const;

  // Null if unknown. On the loop.
  const Entry* Find(const std::string& name) const;
  // Null if unknown. On any thread.
  std::shared_ptr<const v1::Job> Get(const std::string& name) const;
  // Nothing if unknown. On any thread.
  std::optional<Entry> GetEntry(const std::string& name) const;

  void ForEach(const std::function<void(const v1::Job&)>& visit) const;
  // Newest first, from the job of this serial on, until `visit` says false.
  void ForEachNewest(int64_t serial,
                     const std::function<bool(const Entry&)>& visit) const;

  // Whether the asker may see the job; the jobs of this queue.
  using Filter = std::function<bool(const v1::Job&)>;
  using QueueFilter = std::function<bool(const std::string& queue)>;

  // Newest first, without those that are not `visible`; a page may hold fewer
  // jobs than asked for when they are large. InvalidArgument: a field of the
  // request; a token belongs to the filter that it was made with. On any
  // thread; jobs that change meanwhile may be counted as they were.
  absl::StatusOr<v1::ListJobsResponse> List(const v1::ListJobsRequest& request,
                                            const QueueFilter& visible) const;

 private:
  // `by`: 1 for a job that is now shown, -1 for one that no longer is. With
  // mutex_ held.
  void Count(const v1::Job& job, int by);

  // Held by who changes entries_ or by_serial_, and by who reads them on
  // another thread than the loop.
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, int64_t> queued_;
  Counts counts_;  // guarded by mutex_
  // Into entries_.
  std::map<int64_t, const Entry*> by_serial_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_VIEW_JOB_DIRECTORY_H_
