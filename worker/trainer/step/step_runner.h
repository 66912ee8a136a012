#ifndef COMERA_WORKER_TRAINER_STEP_STEP_RUNNER_H_
#define COMERA_WORKER_TRAINER_STEP_STEP_RUNNER_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace comera::trainer {

// Runs the operations of training steps, from graphs where the backend can. The
// first time that a shape comes its operations are enqueued one by one, so that
// whatever they set up is there; the second time they are captured; from then
// on the graph is replayed, and the host has next to nothing to do.
//
// A shape that cannot be captured is logged once and runs without a graph from
// then on. The graphs of the last kGraphs shapes are kept, or so many for each
// of the parts that a step has: the shape of a part can hold its place among
// them.
//
// A gang sums the gradients of a step piece by piece. Its operations are then
// enqueued in as many pieces, each with a graph of its own. Either all pieces of
// a step are replayed or the host's part of all is run, because what it does in
// one piece may be needed in the next.
//
// Not thread-safe. The backend outlives it.
class StepRunner {
 public:
  using Shape = std::vector<int64_t>;

  static constexpr size_t kGraphs = 16;
  // The number of shapes that are remembered, likewise.
  static constexpr size_t kShapes = 128;

  // How often operations were enqueued in which way. Captured ones were
  // replayed at once; refused ones ran eagerly after a capture that failed.
  struct Counters {
    int64_t eager = 0;
    int64_t captured = 0;
    int64_t replayed = 0;
    int64_t refused = 0;
  };

  // `graphs` false: all is enqueued one by one. `log` receives what could not
  // be captured, and why.
  StepRunner(kernels::Backend* backend, bool graphs,
             std::function<void(const std::string&)> log, int64_t parts = 1);
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // Enqueues what `enqueue` does, which depends on `shape` alone: the same
  // operations on the same memory whenever the shape is equal. True: they were
  // replayed from a graph. Errors are those of `enqueue` and Backend::Replay.
  absl::StatusOr<bool> Run(const Shape& shape,
                           absl::FunctionRef<absl::Status()> enqueue);

  // Enqueues what `enqueue` does for each of the pieces 0, 1, ..., likewise; the
  // number of pieces depends on `shape` alone, too. After each of them `done` is
  // called, which is captured in no graph and may return an error.
  absl::StatusOr<bool> RunPieces(
      const Shape& shape, int pieces,
      absl::FunctionRef<absl::Status(int piece)> enqueue,
      absl::FunctionRef<absl::Status(int piece)> done);

  // Gives up all graphs: their memory or their operations will change.
  void Forget();

  const Counters& counters() const { return counters_; }

 private:
  struct Entry {
    Shape shape;
    std::vector<std::unique_ptr<kernels::StepGraph>> graphs;  // one a piece
    bool refused = false;
  };
  struct Pieces {
    int count;
    absl::FunctionRef<absl::Status(int piece)> enqueue, done;
  };

  // The graph of the operations of a piece, which are not run.
  absl::StatusOr<std::unique_ptr<kernels::StepGraph>> Capture(
      const Pieces& pieces, int piece);
  // Captures the pieces and replays each at once. Those from the first that
  // cannot be captured on run eagerly, and the shape is refused.
  absl::Status CaptureAndReplay(const Pieces& pieces, Entry* entry);
  absl::Status RunEager(const Pieces& pieces, int first);
  absl::Status Replay(const Pieces& pieces, const Entry& entry);
  // Gives up the graphs of the shape that was not used for longest.
  absl::Status DropOldest();

  kernels::Backend* const backend_;
  const bool graphs_;
  const std::function<void(const std::string&)> log_;
  const size_t parts_;
  std::list<Entry> entries_;  // the last used first
  size_t kept_ = 0;           // entries with graphs
  Counters counters_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STEP_STEP_RUNNER_H_
