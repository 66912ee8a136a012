#ifndef COMERA_SERVER_WEBHOOK_WEBHOOK_H_
#define COMERA_SERVER_WEBHOOK_WEBHOOK_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "common/clock.h"
#include "common/http/web_fetch.h"
#include "server/coordinator/operation/effects.h"
#include "server/host/job_outbox.h"
#include "server/store/job_store.h"
#include "server/webhook/state_note.h"

namespace comera::server {

// Tells a URL of each change of a job's state, in the order of their times, and
// tries again until the receiver has taken it.
//
// A note becomes durable together with the change that it tells of, as a
// document of kKind, and is deleted when it was delivered. So none is lost with
// the coordinator; but one that was being delivered then is delivered again,
// under the same id. Thread-safe, but for the functions of JobOutbox.
class Webhook : public JobOutbox {
 public:
  static constexpr char kKind[] = "webhook";

  struct Options {
    // Empty: nobody is told.
    std::string url;
    // Signs the notes.
    std::string key;
    // Changes to other states are not told; empty: all are.
    std::set<v1::JobState> states;
    // Between two tries.
    absl::Duration min_backoff = absl::Seconds(1);
    absl::Duration max_backoff = absl::Minutes(5);
    // A note that nobody took for so long, since it was written or since the
    // start, is given up.
    absl::Duration keep = absl::Hours(24);
    // While the messages that wait have so many bytes, no more are kept.
    size_t max_bytes = size_t{64} << 20;
    // The same for the messages on one user's jobs, so that nobody can silence
    // the webhook for the others.
    size_t max_user_bytes = size_t{16} << 20;
  };
  using Post = std::function<absl::StatusOr<WebAnswer>(const WebRequest&)>;
  struct Figures {
    int64_t waiting = 0, delivered = 0, given_up = 0;
  };

  // `clock` tells receivers the time, so it must be the wall clock.
  explicit Webhook(Options options, Clock* clock, Post post = FetchWeb);
  // Stops it.
  ~Webhook() override;

  // Begins to deliver, first what an earlier coordinator has left.
  // `forget` is called on the webhook's thread with the id of each note that is
  // to be deleted from the store.
  void Start(const std::vector<Document>& left,
             std::function<void(const std::string& id)> forget);
  // Ends the thread, within a second. What was not delivered stays in the
  // store.
  void Stop();

  Figures figures() const;

  // JobOutbox.
  void AddTo(const Effects& effects, StoreBatch* batch) override;
  void OnCommitted(const Effects& effects) override;

 private:
  struct Waiting {
    StateNote note;
    // By the monotonic clock.
    absl::Time since;
  };
  enum class Result { kDelivered, kRefused, kTryAgain };

  bool IsTold(const v1::JobEvent& event) const;
  Result Deliver(const StateNote& note);
  // Counts the note's bytes; false: there is no room for it.
  bool Reserve(const StateNote& note);
  void AddBytes(const StateNote& note) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();
  // Ends the wait of the first note, and returns its id.
  std::string Finish(Result result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives up the first notes that have waited for too long.
  std::vector<std::string> GiveUpOld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  Clock* const clock_;
  const Post post_;
  std::function<void(const std::string& id)> forget_;
  std::atomic<bool> stop_{false};
  // Loop only: notes that are being written, by id.
  std::map<std::string, StateNote> written_;
  // Loop only: the users whose newest change was not told for want of room.
  std::set<std::string> full_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  // The size of the bodies of all notes that wait or are being written.
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // The same by user.
  std::map<std::string, size_t> user_bytes_ ABSL_GUARDED_BY(mutex_);
  Figures figures_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Returns a key from the text of its file: what follows "whsec_", in base64, or
// else the text itself. InvalidArgument: it has less than 24 bytes.
absl::StatusOr<std::string> ParseWebhookKey(absl::string_view text);

// InvalidArgument: the URL is neither one of https, nor one of http on this
// machine, or holds a user.
absl::Status CheckWebhookUrl(const std::string& url);

}  // namespace comera::server

#endif  // COMERA_SERVER_WEBHOOK_WEBHOOK_H_
