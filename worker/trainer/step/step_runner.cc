// Captures the operations of a step in a graph, and replays it.
#include "worker/trainer/step/step_runner.h"

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

absl::Status StepRunner::RunEager(const Pieces& pieces, int first) {
  ++counters_.eager;
  for (int piece = first; piece < pieces.count; ++piece) {
    RETURN_IF_ERROR(pieces.enqueue(piece));
    RETURN_IF_ERROR(pieces.done(piece));
  }
  return absl::OkStatus();
}

absl::Status StepRunner::Replay(const Pieces& pieces, const Entry& entry) {
  for (int piece = 0; piece < pieces.count; ++piece) {
    RETURN_IF_ERROR(backend_->Replay(*entry.graphs[piece]));
    RETURN_IF_ERROR(pieces.done(piece));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<kernels::StepGraph>> StepRunner::Capture(
    const Pieces& pieces, int piece) {
  RETURN_IF_ERROR(backend_->BeginCapture());
  const absl::Status enqueued = pieces.enqueue(piece);
  auto graph = backend_->EndCapture();
  // The first error says more.
  RETURN_IF_ERROR(enqueued);
  return graph;
}

absl::Status StepRunner::CaptureAndReplay(const Pieces& pieces, Entry* entry) {
  for (int piece = 0; piece < pieces.count; ++piece) {
    auto graph = Capture(pieces, piece);
    if (!graph.ok()) {
      entry->refused = true;
      log_(absl::StrCat("a step runs without a graph: ",
                        graph.status().ToString()));
      return RunEager(pieces, piece);
    }
    entry->graphs.push_back(*std::move(graph));
    RETURN_IF_ERROR(backend_->Replay(*entry->graphs.back()));
    RETURN_IF_ERROR(pieces.done(piece));
  }
  return absl::OkStatus();
}

absl::Status StepRunner::DropOldest() {
  RETURN_IF_ERROR(backend_->Synchronize());
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->graphs.empty()) continue;
    entry->graphs.clear();
    --kept_;
    break;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> StepRunner::Run(
    const Shape& shape, absl::FunctionRef<absl::Status()> enqueue) {
  return RunPieces(
      shape, 1, [&](int) { return enqueue(); },
      [](int) { return absl::OkStatus(); });
}

absl::StatusOr<bool> StepRunner::RunPieces(
    const Shape& shape, int count,
    absl::FunctionRef<absl::Status(int piece)> enqueue,
    absl::FunctionRef<absl::Status(int piece)> done) {
  const Pieces pieces{count, enqueue, done};
  if (!graphs_) {
    RETURN_IF_ERROR(RunEager(pieces, 0));
    return false;
  }
  const auto found =
      std::find_if(entries_.begin(), entries_.end(),
                   [&](const Entry& entry) { return entry.shape == shape; });
  if (found == entries_.end()) {
    if (entries_.size() == kShapes * parts_) {
      if (!entries_.back().graphs.empty()) RETURN_IF_ERROR(DropOldest());
      entries_.pop_back();
    }
    entries_.push_front({shape, {}, false});
    RETURN_IF_ERROR(RunEager(pieces, 0));
    return false;
  }
  entries_.splice(entries_.begin(), entries_, found);
  Entry& entry = *found;
  if (!entry.graphs.empty()) {
    ++counters_.replayed;
    RETURN_IF_ERROR(Replay(pieces, entry));
    return true;
  }
  if (entry.refused) {
    ++counters_.refused;
    RETURN_IF_ERROR(RunEager(pieces, 0));
    return false;
  }
  if (kept_ == kGraphs * parts_) RETURN_IF_ERROR(DropOldest());
  const absl::Status status = CaptureAndReplay(pieces, &entry);
  if (status.ok() && !entry.refused) {
    ++counters_.captured;
    ++kept_;
    return true;
  }
  if (!entry.graphs.empty()) {
    // Graphs must outlive their replays. An error of the device comes again at
    // the next call.
    backend_->Synchronize().IgnoreError();
    entry.graphs.clear();
  }
  RETURN_IF_ERROR(status);
  ++counters_.refused;
  return false;
}

}  // namespace comera::trainer
