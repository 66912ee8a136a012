// Streams and events of a device that is played by a thread.
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

// The work that a capture recorded, in order.
struct FakeGraph {
  ~FakeGraph() { destroyed.set_value(); }

  bool ended = false;
  std::vector<std::function<void()>> work;
  std::promise<void> destroyed;
  const std::shared_future<void> gone = destroyed.get_future().share();
};

// Runs enqueued work, in order, on its own thread. Thread-safe, except that one
// thread must make all calls of Enqueue, BeginCapture and EndCapture.
class FakeStream {
 public:
  FakeStream();
  // Finishes the enqueued work first.
  ~FakeStream();

  // Enqueues work, or records it while a graph is captured.
  void Enqueue(std::function<void()> work);
  void BeginCapture(std::shared_ptr<FakeGraph> graph) {
    Join(graph);
    recording_ = std::move(graph);
  }
  // Takes part in the capture that another stream began.
  void Join(const std::shared_ptr<FakeGraph>& graph) { graph_ = graph; }
  // Waits until all work is done.
  void Synchronize();
  // Ends the capture for this stream and for those that joined it.
  void EndCapture() {
    recording_->ended = true;
    recording_.reset();
  }
  // The graph being captured, or null.
  std::shared_ptr<FakeGraph> graph() const {
    std::shared_ptr<FakeGraph> graph = graph_.lock();
    return graph != nullptr && !graph->ended ? graph : nullptr;
  }

 private:
  void Loop();

  // The graph between BeginCapture and EndCapture.
  std::shared_ptr<FakeGraph> recording_;
  // A weak reference, because after the capture only its owner keeps the graph.
  std::weak_ptr<FakeGraph> graph_;
  // Guards the following members, except the thread.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

// Like cudaEvent_t, it stands for the work in its stream at the last Record.
class FakeEvent {
 public:
  void Record(FakeStream& stream);
  // Makes later work of `stream` wait for the event. A stream that waits for an
  // event of a capture joins the capture.
  void Delay(FakeStream& stream);
  // Whether the event has happened. For an event of a capture it returns false
  // and fails the test.
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
