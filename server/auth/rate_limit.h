#ifndef COMERA_SERVER_AUTH_RATE_LIMIT_H_
#define COMERA_SERVER_AUTH_RATE_LIMIT_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "server/rpc/user_quota.h"

namespace comera::server {

// A token bucket: `burst` at once, `per_second` in the long run. Not
// thread-safe.
class TokenBucket {
 public:
  TokenBucket(double per_second, double burst)
      : per_second_(per_second), burst_(burst), tokens_(burst) {}

  // Takes one; else how long until there is one.
  absl::Duration Take(absl::Time now);

 private:
  const double per_second_;
  const double burst_;
  double tokens_;
  absl::Time last_ = absl::InfinitePast();
};

// What one authenticated user may do at once, so that nobody starves the
// others. Users are told apart by name; callers of a server without tokens have
// no limits, and workers only that of their downloads. Thread-safe; costs one
// short lock per call.
class UserLimits {
 public:
  struct Options {
    // Calls of any kind.
    double requests_per_second = 2000;
    double request_burst = 4000;
    // New jobs.
    double submissions_per_second = 500;
    double submission_burst = 5000;
    // Streams open at once: watches, followed logs, downloads, uploads, backups
    // and texts that are tried.
    int64_t max_streams = 1000;
    // Uploads of datasets' files open at once.
    int64_t max_uploads = 8;
    // Downloads open at once of a user, and of a worker. Each holds up to a
    // mebibyte while its reader is slow.
    int64_t max_downloads = 32;
    int64_t max_worker_downloads = 64;
    // What the server keeps of one user.
    UserQuota quota = DefaultQuota();
    // The largest request.
    int64_t max_request_bytes = 4 << 20;
    // The largest request that creates a dataset: 100,000 files need more than
    // others.
    int64_t max_dataset_request_bytes = 16 << 20;
    // Changes of datasets that wait, which are made one after the other, and
    // the bytes of their requests.
    int64_t max_dataset_changes = 16;
    int64_t max_dataset_change_bytes = 32 << 20;
  };

  static UserQuota DefaultQuota();

  // `clock` must outlive the object.
  UserLimits(const Options& options, Clock* clock)
      : options_(options), clock_(clock) {}

  // ResourceExhausted with RetryInfo: too many of late.
  absl::Status ChargeRequest(const std::string& user);
  absl::Status ChargeSubmission(const std::string& user);
  // ResourceExhausted: too many are open. To be closed if OK.
  absl::Status OpenStream(const std::string& user);
  void CloseStream(const std::string& user);
  // The same of uploads.
  absl::Status OpenUpload(const std::string& user);
  void CloseUpload(const std::string& user);
  // The same of downloads.
  absl::Status OpenDownload(const std::string& user);
  void CloseDownload(const std::string& user);
  absl::Status OpenWorkerDownload(const std::string& worker);
  void CloseWorkerDownload(const std::string& worker);
  // The same of changes of datasets that wait, with the size of their requests.
  absl::Status OpenDatasetChange(const std::string& user, int64_t bytes);
  void CloseDatasetChange(const std::string& user, int64_t bytes);

  const Options& options() const { return options_; }

  // How often each said no.
  struct Refusals {
    int64_t requests = 0;
    int64_t submissions = 0;
    int64_t streams = 0;
    int64_t uploads = 0;
    int64_t downloads = 0;
    int64_t dataset_changes = 0;
  };
  Refusals refusals();

 private:
  struct User {
    explicit User(const Options& options)
        : requests(options.requests_per_second, options.request_burst),
          submissions(options.submissions_per_second,
                      options.submission_burst) {}
    TokenBucket requests;
    TokenBucket submissions;
    int64_t streams = 0;
    int64_t uploads = 0;
    int64_t downloads = 0;
    int64_t dataset_changes = 0;
    int64_t dataset_change_bytes = 0;
  };

  User& Find(const std::string& user) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  Clock* const clock_;
  std::mutex mutex_;
  Refusals refusals_ ABSL_GUARDED_BY(mutex_);
  // There are at most as many as users with tokens; only admins, and who admits
  // users at the issuer of single sign-on, add to those.
  std::map<std::string, User> users_ ABSL_GUARDED_BY(mutex_);
  // The open downloads of each worker that has any.
  std::map<std::string, int64_t> worker_downloads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_RATE_LIMIT_H_
