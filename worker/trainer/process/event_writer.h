#ifndef COMERA_WORKER_TRAINER_PROCESS_EVENT_WRITER_H_
#define COMERA_WORKER_TRAINER_PROCESS_EVENT_WRITER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"

namespace comera::trainer {

// Receives events; called from any thread and must not block for long.
using EventSink = std::function<void(const v1::TrainerEvent& event)>;

// Writes events as JSON lines, without making the training step wait for a
// slow reader.
//
// Life cycle: a thread writes from construction on; Flush, or destruction,
// waits for all that is queued. Thread-safe.
//
// Guarantees: order is kept. When the queue is full the oldest metrics and
// heartbeats are dropped first; results, failures, checkpoints, rank snapshots
// and Pareto points are never dropped.
class EventWriter {
 public:
  // Writes one line with its newline; may block. False: the reader is gone,
  // nothing more is written.
  using WriteLine = std::function<bool(const std::string& line)>;

  explicit EventWriter(WriteLine write_line, size_t capacity = 1000);
  ~EventWriter();

  // Sets the event's time if it has none.
  void Write(v1::TrainerEvent event);
  void Flush();

  // The number of events that were dropped so far.
  int64_t dropped() const;

  // One line of JSON with its newline.
  static std::string ToLine(const v1::TrainerEvent& event);
  // Writes whole lines to a file descriptor. While the disk below it is full,
  // it tries again after each `pause`: a result must not get lost.
  static WriteLine ToDescriptor(int descriptor,
                                absl::Duration pause = absl::Seconds(1));

 private:
  void Loop();

  const WriteLine write_line_;
  const size_t capacity_;
  // A std::mutex, since the system's Abseil is not built for ThreadSanitizer.
  mutable std::mutex mutex_;
  std::condition_variable work_;     // queue_ is not empty, or stop_
  std::condition_variable drained_;  // queue_ is empty and nothing is written
  std::deque<v1::TrainerEvent> queue_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROCESS_EVENT_WRITER_H_
