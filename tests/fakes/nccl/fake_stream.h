// Streams and events of a device that is a thread.
#ifndef COMERA_TESTS_FAKES_NCCL_FAKE_STREAM_H_
#define COMERA_TESTS_FAKES_NCCL_FAKE_STREAM_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace comera::collective {

// What a capture recorded, in order.
struct FakeGraph {
  ~FakeGraph() { destroyed.set_value(); }

  bool ended = false;
  std::vector<std::function<void()>> work;
  std::promise<void> destroyed;
  const std::shared_future<void> gone = destroyed.get_future().share();
};

// Runs what is enqueued, in order, on its thread. Thread-safe, but for Enqueue,
// BeginCapture and EndCapture, which one thread calls.
class FakeStream {
 public:
  FakeStream();
  // Finishes what is enqueued first.
  ~FakeStream();

  // While a graph is recorded it goes there.
  void Enqueue(std::function<void()> work);
  void BeginCapture(std::shared_ptr<FakeGraph> graph) {
    Join(graph);
    recording_ = std::move(graph);
  }
  // The capture of another stream.
  void Join(const std::shared_ptr<FakeGraph>& graph) { graph_ = graph; }
  // Waits until all is done.
  void Synchronize();
  // Also for the streams that joined.
  void EndCapture() {
    recording_->ended = true;
    recording_.reset();
  }
  // What is being recorded, or null.
  std::shared_ptr<FakeGraph> graph() const {
    std::shared_ptr<FakeGraph> graph = graph_.lock();
    return graph != nullptr && !graph->ended ? graph : nullptr;
  }

 private:
  void Loop();

  std::shared_ptr<FakeGraph> recording_;  // of BeginCapture, until EndCapture
  std::weak_ptr<FakeGraph> graph_;        // what is over is its owner's alone
  std::mutex mutex_;                      // guards what follows, but the thread
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

// As cudaEvent_t: stands for what its stream held at the last Record.
class FakeEvent {
 public:
  void Record(FakeStream& stream);
  // What `stream` gets next waits for the event. A stream that waits for an
  // event of a capture joins the capture.
  void Delay(FakeStream& stream);
  // Of an event of a capture it must not be asked: false, and a test failure.
  bool Done() const;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int recorded = 0, reached = 0;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  bool captured_ = false;
  std::weak_ptr<FakeGraph> graph_;
};

}  // namespace comera::collective

#endif  // COMERA_TESTS_FAKES_NCCL_FAKE_STREAM_H_
