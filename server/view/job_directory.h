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

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "comera/v1/training_service.pb.h"
#include "server/view/job_filter.h"
#include "server/view/job_order.h"

namespace comera::server {

// The jobs as the store has them: all that clients are shown. Never ahead of
// the disk. The event loop owns it and alone changes it; Get(), GetEntry(),
// ForEachNewest() and List() may be called from any thread, so that those who
// ask for jobs wait for nobody.
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
    // The size of the job's specification, which never changes.
    int64_t spec_bytes = 0;
  };

  void Put(int64_t serial, int64_t last_sequence, v1::Job job);
  void Remove(const std::string& name);
  // Replaces what is shown of a known job.
  void Refresh(v1::Job job);

  // How many there are, by queue and state. On any thread.
  using Counts = std::map<std::pair<std::string, v1::JobState>, int64_t>;
  Counts counts() const;

  // What there is of a user's jobs.
  struct Use {
    int64_t jobs = 0;
    // Jobs that wait.
    int64_t queued = 0;
    // The bytes of their specifications, and of their models and checkpoints in
    // the server's files.
    int64_t spec_bytes = 0;
    int64_t model_bytes = 0;
  };
  // On the loop.
  Use UseOf(const std::string& user) const;
  // The bytes of all models and checkpoints. On the loop.
  int64_t model_bytes() const { return model_bytes_; }

  // Null if unknown. On the loop.
  const Entry* Find(const std::string& name) const;
  // The job of the model that the alias stands for; null if unknown. On the
  // loop.
  const Entry* FindAlias(const std::string& alias) const;
  // Null if unknown. On any thread.
  std::shared_ptr<const v1::Job> Get(const std::string& name) const;
  // Nothing if unknown. On any thread.
  std::optional<Entry> GetEntry(const std::string& name) const;

  void ForEach(const std::function<void(const v1::Job&)>& visit) const;
  // Newest first, from the job of this serial on, until `visit` says false. On
  // any thread; jobs that change meanwhile may be seen as they were.
  void ForEachNewest(int64_t serial,
                     const std::function<bool(const Entry&)>& visit) const;

  // Whether the asker may see the job; the jobs of this queue.
  using Filter = std::function<bool(const v1::Job&)>;
  using QueueFilter = std::function<bool(const std::string& queue)>;

  // In the order asked for, without those that are not `visible`; a page may
  // hold fewer jobs than asked for when they are large. InvalidArgument: a
  // field of the request; a token belongs to the filter and order that it was
  // made with. On any thread; jobs that change meanwhile may be counted as they
  // were, and in an order other than that of creation they may change their
  // page.
  absl::StatusOr<v1::ListJobsResponse> List(const v1::ListJobsRequest& request,
                                            const QueueFilter& visible) const;

 private:
  // `before`: the serial that all jobs of the page are below.
  v1::ListJobsResponse ListNewest(const v1::ListJobsRequest& request,
                                  int64_t before, JobFilter* filter) const;
  // `place`: that of the page's first job, where the request has a token.
  v1::ListJobsResponse ListOrdered(const v1::ListJobsRequest& request,
                                   const JobOrder& order, int64_t place,
                                   JobFilter* filter) const;
  // All that match, newest first. The mutex is held while `visit` runs.
  void ForEachMatch(JobFilter* filter,
                    const std::function<void(const Entry&)>& visit) const;
  // `by`: 1 for a job that is now shown, -1 for one that no longer is.
  void Count(const v1::Job& job, int64_t spec_bytes, int by)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job's aliases stand for its models, or no longer.
  void AddAliases(const v1::Job& job);
  void DropAliases(const v1::Job& job);

  // Held by who changes entries_ or by_serial_, and by who reads them on
  // another thread than the loop; Clang has no word for a loop that reads
  // without it.
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  // By user; those without jobs have no entry.
  std::map<std::string, Use> use_;
  int64_t model_bytes_ = 0;
  // Names of jobs.
  std::map<std::string, std::string> aliases_;
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  // Into entries_.
  std::map<int64_t, const Entry*> by_serial_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_VIEW_JOB_DIRECTORY_H_
