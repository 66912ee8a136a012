// Collects small operations and finds out which of them can run together.
#include "kernels/cuda/small_tasks.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/cuda_status.h"

namespace comera::kernels {
namespace {

// Elements of one task.
constexpr int64_t kMostSize = int64_t{1} << 30;

ConstMatrix AsRow(const float* data, int64_t size) {
  return ConstMatrix(data, 1, size);
}

int32_t Narrow(int64_t size) { return static_cast<int32_t>(size); }

}  // namespace

bool SmallTasks::Takes(int64_t m, int64_t n, int64_t k) {
  return PathOf(m, n, k) != ProductPath::kAlone;
}

void SmallTasks::Add(Entry entry) {
  entry.level = levels_.Add(entry.reads, entry.writes);
  entries_.push_back(std::move(entry));
}

SmallTask ProductTask(bool transpose_a, bool transpose_b, float alpha,
                      ConstMatrix a, ConstMatrix b, float beta, Matrix c) {
  SmallTask task;
  task.kind = SmallTask::kGemm;
  task.transpose_a = transpose_a;
  task.transpose_b = transpose_b;
  task.alpha = alpha;
  task.beta = beta;
  task.a = a.data;
  task.b = b.data;
  task.c = c.data;
  task.rows = Narrow(c.rows);
  task.cols = Narrow(c.cols);
  // With alpha 0 neither factor is read.
  task.inner = alpha == 0 ? 0 : Narrow(transpose_a ? a.rows : a.cols);
  if (PathOf(task.rows, task.cols, task.inner) == ProductPath::kTensorCores) {
    task.kind = SmallTask::kTensorGemm;
  }
  task.a_stride = Narrow(a.stride);
  task.b_stride = Narrow(b.stride);
  task.c_stride = Narrow(c.stride);
  return task;
}

void SmallTasks::AddGemm(bool transpose_a, bool transpose_b, float alpha,
                         ConstMatrix a, ConstMatrix b, float beta, Matrix c) {
  Entry entry;
  entry.task = ProductTask(transpose_a, transpose_b, alpha, a, b, beta, c);
  entry.reads = {a, b};
  entry.writes = {c};
  Add(std::move(entry));
}

void SmallTasks::AddFold(ConstMatrix g, ConstVector d, float threshold,
                         Matrix h) {
  if (h.rows == 0 || h.cols == 0) return;
  Entry entry;
  SmallTask& task = entry.task;
  task.kind = SmallTask::kFold;
  task.alpha = threshold;
  task.a = g.data;
  task.b = d.data;
  task.c = h.data;
  task.rows = Narrow(h.rows);
  task.cols = Narrow(h.cols);
  task.a_stride = Narrow(g.stride);
  task.c_stride = Narrow(h.stride);
  entry.reads = {g, AsRow(d.data, d.size)};
  entry.writes = {h};
  Add(std::move(entry));
}

void SmallTasks::AddUnfold(ConstMatrix g, ConstVector d, float threshold,
                           ConstMatrix grad_h, Matrix grad_g, Vector grad_d) {
  if (g.rows == 0 || g.cols == 0) return;
  Entry entry;
  SmallTask& task = entry.task;
  task.kind = SmallTask::kUnfold;
  task.alpha = threshold;
  task.a = g.data;
  task.b = d.data;
  task.x = grad_h.data;
  task.c = grad_g.data;
  task.y = grad_d.data;
  task.rows = Narrow(g.rows);
  task.cols = Narrow(g.cols);
  task.a_stride = Narrow(g.stride);
  task.b_stride = Narrow(grad_h.stride);
  task.c_stride = Narrow(grad_g.stride);
  entry.reads = {g, AsRow(d.data, d.size), grad_h};
  // Two tasks: sums must wait for nothing that is written.
  Entry sums = entry;
  sums.task.inner = 1;
  sums.writes = {AsRow(grad_d.data, grad_d.size)};
  Add(std::move(sums));
  entry.writes = {grad_g};
  Add(std::move(entry));
}

void SmallTasks::AddCopy(void* to, const void* from, int64_t bytes,
                         cudaStream_t stream) {
  const int64_t floats = (bytes + 3) / 4;
  Entry entry;
  entry.reads = {AsRow(static_cast<const float*>(from), floats)};
  entry.writes = {AsRow(static_cast<const float*>(to), floats)};
  if (bytes % 4 != 0 || floats > kMostSize ||
      (reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) %
              4 !=
          0) {
    entry.call = [=] {
      return CudaStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                                        cudaMemcpyDeviceToDevice, stream),
                        "cudaMemcpyAsync");
    };
  } else {
    entry.task.kind = SmallTask::kCopy;
    entry.task.a = static_cast<const float*>(from);
    entry.task.c = static_cast<float*>(to);
    entry.task.rows = Narrow(floats);
  }
  Add(std::move(entry));
}

void SmallTasks::AddCopyRows(ConstMatrix from, Matrix to) {
  if (to.rows == 0 || to.cols == 0) return;
  Entry entry;
  SmallTask& task = entry.task;
  task.kind = SmallTask::kCopyRows;
  task.a = from.data;
  task.c = to.data;
  task.rows = Narrow(to.rows);
  task.cols = Narrow(to.cols);
  task.a_stride = Narrow(from.stride);
  task.c_stride = Narrow(to.stride);
  entry.reads = {from};
  entry.writes = {to};
  Add(std::move(entry));
}

void SmallTasks::AddRound(ConstMatrix x, Bf16Matrix y) {
  if (y.rows == 0 || y.cols == 0) return;
  Entry entry;
  SmallTask& task = entry.task;
  task.kind = SmallTask::kRound;
  task.a = x.data;
  task.c = reinterpret_cast<float*>(y.data);
  task.rows = Narrow(y.rows);
  task.cols = Narrow(y.cols);
  task.a_stride = Narrow(x.stride);
  task.c_stride = Narrow(y.stride);
  entry.reads = {x};
  entry.writes = {MemoryOf(y)};
  Add(std::move(entry));
}

void SmallTasks::AddFill(Vector x, float value) {
  for (int64_t at = 0; at < x.size; at += kMostSize) {
    const Vector part(x.data + at, std::min(kMostSize, x.size - at));
    Entry entry;
    entry.task.kind = SmallTask::kFill;
    entry.task.alpha = value;
    entry.task.c = part.data;
    entry.task.rows = Narrow(part.size);
    entry.writes = {AsRow(part.data, part.size)};
    Add(std::move(entry));
  }
}

void SmallTasks::AddAxpy(float alpha, ConstVector x, Vector y) {
  for (int64_t at = 0; at < y.size; at += kMostSize) {
    const int64_t size = std::min(kMostSize, y.size - at);
    Entry entry;
    entry.task.kind = SmallTask::kAxpy;
    entry.task.alpha = alpha;
    entry.task.a = x.data + at;
    entry.task.c = y.data + at;
    entry.task.rows = Narrow(size);
    entry.reads = {AsRow(x.data + at, size)};
    entry.writes = {AsRow(y.data + at, size)};
    Add(std::move(entry));
  }
}

void SmallTasks::AddCall(std::initializer_list<ConstMatrix> reads,
                         std::initializer_list<ConstMatrix> writes,
                         std::function<absl::Status()> call) {
  Entry entry;
  entry.reads = reads;
  entry.writes = writes;
  entry.call = std::move(call);
  Add(std::move(entry));
}

absl::Status SmallTasks::Run(KernelStream stream, CudaPrecision precision,
                             const SplitMemory& memory) {
  std::vector<Entry> entries;
  entries.swap(entries_);
  levels_.Clear();
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const Entry& a, const Entry& b) { return a.level < b.level; });
  std::vector<SmallTask> tasks;
  for (size_t first = 0; first < entries.size();) {
    const int level = entries[first].level;
    tasks.clear();
    for (; first < entries.size() && entries[first].level == level; ++first) {
      if (entries[first].call) {
        RETURN_IF_ERROR(entries[first].call());
      } else {
        tasks.push_back(entries[first].task);
      }
    }
    RETURN_IF_ERROR(LaunchSmallTasks(stream, precision, memory, tasks));
  }
  return absl::OkStatus();
}

absl::Status CudaBackend::BeginTogether() {
  ++together_depth_;
  return absl::OkStatus();
}

absl::Status CudaBackend::EndTogether() {
  if (together_depth_ == 0) {
    return absl::FailedPreconditionError("EndTogether without BeginTogether");
  }
  // What is enqueued below is for the device at once.
  if (--together_depth_ > 0) return absl::OkStatus();
  return together_.Run(stream_, options_.precision, MemoryOfParts());
}

SplitMemory CudaBackend::MemoryOfParts() {
  return [this](int64_t floats) -> absl::StatusOr<SplitScratch> {
    SplitScratch scratch;
    scratch.arrived = arrived_;
    if (floats > 0) {
      ASSIGN_OR_RETURN(scratch.sums, Scratch<float>(floats));
    }
    return scratch;
  };
}

}  // namespace comera::kernels
