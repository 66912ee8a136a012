// Captures the operations of a step in a graph, and replays it.
#include "worker/trainer/loop/step_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {

StepRunner::StepRunner(kernels::Backend* backend, bool graphs,
                       std::function<void(const std::string&)> log,
                       int64_t parts)
    : backend_(backend),
      graphs_(graphs && backend->has_graphs()),
      log_(std::move(log)),
      parts_(static_cast<size_t>(parts)) {}

StepRunner::~StepRunner() { Forget(); }

void StepRunner::Forget() {
  // Graphs must outlive their replays. An error of the device comes again at
  // the next call.
  if (kept_ > 0) backend_->Synchronize().IgnoreError();
  entries_.clear();
  kept_ = 0;
}

absl::StatusOr<bool> StepRunner::RunEager(
    absl::FunctionRef<absl::Status()> enqueue) {
  ++counters_.eager;
  RETURN_IF_ERROR(enqueue());
  return false;
}

absl::StatusOr<bool> StepRunner::Replay(const Entry& entry) {
  RETURN_IF_ERROR(backend_->Replay(*entry.graph));
  return true;
}

absl::StatusOr<std::unique_ptr<kernels::StepGraph>> StepRunner::Capture(
    absl::FunctionRef<absl::Status()> enqueue) {
  RETURN_IF_ERROR(backend_->BeginCapture());
  const absl::Status enqueued = enqueue();
  auto graph = backend_->EndCapture();
  // The first error says more.
  RETURN_IF_ERROR(enqueued);
  return graph;
}

absl::Status StepRunner::DropOldest() {
  RETURN_IF_ERROR(backend_->Synchronize());
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->graph == nullptr) continue;
    entry->graph.reset();
    --kept_;
    break;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> StepRunner::Run(
    const Shape& shape, absl::FunctionRef<absl::Status()> enqueue) {
  if (!graphs_) return RunEager(enqueue);
  const auto found =
      std::find_if(entries_.begin(), entries_.end(),
                   [&](const Entry& entry) { return entry.shape == shape; });
  if (found == entries_.end()) {
    if (entries_.size() == kShapes * parts_) {
      if (entries_.back().graph != nullptr) RETURN_IF_ERROR(DropOldest());
      entries_.pop_back();
    }
    entries_.push_front({shape, nullptr, false});
    return RunEager(enqueue);
  }
  entries_.splice(entries_.begin(), entries_, found);
  Entry& entry = *found;
  if (entry.graph != nullptr) {
    ++counters_.replayed;
    return Replay(entry);
  }
  if (entry.refused) {
    ++counters_.refused;
    return RunEager(enqueue);
  }
  if (kept_ == kGraphs * parts_) RETURN_IF_ERROR(DropOldest());
  auto graph = Capture(enqueue);
  if (!graph.ok()) {
    entry.refused = true;
    log_(absl::StrCat("a step runs without a graph: ",
                      graph.status().ToString()));
    ++counters_.refused;
    return RunEager(enqueue);
  }
  ++counters_.captured;
  entry.graph = *std::move(graph);
  ++kept_;
  return Replay(entry);
}

}  // namespace comera::trainer
