#ifndef COMERA_SERVER_VIEW_PROGRESS_HUB_H_
#define COMERA_SERVER_VIEW_PROGRESS_HUB_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comera/v1/training_service.pb.h"

namespace comera::server {

class ProgressHub;

// One reader of a job's events: first the job, then stored events up to the
// moment of subscription, then live ones. Not thread-safe; lives on the event
// loop.
//
// At most `max_samples` live samples (event_retention.h) wait for a slow
// reader; when more come the oldest are dropped and a DroppedEvents with their
// number takes their place. Other events are never dropped.
class Subscription {
 public:
  ~Subscription();

  // What to send next; nothing while the reader must wait.
  std::optional<v1::WatchJobResponse> Pop();

  // Nothing more will come.
  bool Finished() const;
  // Nothing is left but to wait for live events.
  bool Idle() const;

  // The stored events still to be read are those in (backfill_after,
  // backfill_last]; the owner reads a page of them and hands it over. An empty
  // page: there are no more.
  bool NeedsBackfill() const;
  int64_t backfill_after() const { return backfill_after_; }
  int64_t backfill_last() const { return backfill_last_; }
  void AddBackfill(std::vector<v1::JobEvent> events);

 private:
  friend class ProgressHub;
  struct Waiting {
    // Shared by all readers of the job.
    std::shared_ptr<const v1::JobEvent> event;
    bool sample = false;
  };

  Subscription() = default;
  void Push(std::shared_ptr<const v1::JobEvent> event);
  void DropOldestSample();
  // Whether everything but `again_` has been sent.
  bool Caught() const;

  // Null once the hub is gone.
  ProgressHub* hub_ = nullptr;
  std::string job_;
  std::function<void()> on_ready_;
  size_t max_samples_ = 0;
  std::optional<v1::Job> first_;
  // The job as it is shown, which is to be sent when no event waits.
  std::optional<v1::Job> again_;
  std::deque<v1::JobEvent> backfill_;
  int64_t backfill_after_ = 0;
  int64_t backfill_last_ = 0;
  std::deque<Waiting> live_;
  size_t samples_ = 0;
  // The final state's event is in live_, or was stored before.
  bool complete_ = false;
  // Where it is among the job's readers_.
  std::list<Subscription*>::iterator reader_;
  // Where it waits in the hub's ready_.
  std::optional<std::list<Subscription*>::iterator> ready_;
};

// Hands each durable event to the job's readers. Not thread-safe; lives on the
// event loop and outlives or releases its subscriptions.
//
// With thousands of readers an event takes the loop for a long time; with
// Defer() they are woken in bursts, between which other work gets its turn.
class ProgressHub {
 public:
  struct Options {
    // Live samples that wait for one reader.
    size_t max_samples = 1000;
    // Readers woken in one go: some milliseconds of writing.
    size_t burst = 256;
  };

  explicit ProgressHub(const Options& options) : options_(options) {}
  ~ProgressHub();

  // From now on readers are woken by a closure given to `post`, which is to run
  // it on the event loop, soon and while the hub lives. Without it Publish()
  // wakes them.
  void Defer(std::function<void(std::function<void()>)> post);

  // `last_sequence`: of the newest event published of the job. `on_ready` is
  // called whenever a live event came.
  std::unique_ptr<Subscription> Subscribe(const v1::Job& job,
                                          int64_t last_sequence,
                                          int64_t after_sequence,
                                          std::function<void()> on_ready);

  void Publish(v1::JobEvent event);
  // Shows readers a job of which something has changed that is no event: why it
  // waits.
  void Show(const v1::Job& job);
  // Samples that slow readers missed. On any thread.
  int64_t dropped_samples() const { return dropped_samples_; }
  bool HasReaders(const std::string& job) const {
    return readers_.count(job) > 0;
  }

 private:
  friend class Subscription;

  void MakeReady(Subscription* reader);
  // Wakes readers that are ready, now or soon.
  void Wake();
  // Wakes a burst of readers; sees to it that the others' turn comes.
  void WakeBurst();

  const Options options_;
  std::atomic<int64_t> dropped_samples_{0};
  std::function<void(std::function<void()>)> post_;
  // In the order in which their events came, each once.
  std::list<Subscription*> ready_;
  bool posted_ = false;
  // In the order in which they came.
  std::map<std::string, std::list<Subscription*>> readers_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_VIEW_PROGRESS_HUB_H_
