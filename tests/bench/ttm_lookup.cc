// Compares forward and backward of a TTM embedding, ours (EmbeddingBag:
// distinct ids, shared prefixes and suffixes) against the unoptimised chain
// (TtmRowChain), in turn on one thread, by processor time:
//   bazel run -c opt //tests/bench:ttm_lookup
// Counters: best milliseconds of both and their ratio; bytes of everything that
// each works in and their ratio, without and with what the caller owns (the
// rows and their gradients).
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/bench/ttm_row_chain.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/embedding/embedding_bag.h"

namespace {
// The bytes of the host's heap in use, counted on the only thread.
int64_t heap_bytes = 0;
}  // namespace

void* operator new(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  heap_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  heap_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

namespace comera::trainer {
namespace {

double ProcessorSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

// One table with its parameters and the memory of its layer.
class Ours {
 public:
  Ours(kernels::Backend* backend, const kernels::TtmShape& shape,
       int64_t vocabulary, int64_t width, int64_t ids)
      : before_(heap_bytes), memory_(backend, /*stages=*/1) {
    const Factorisation f = {shape.row_modes, shape.col_modes, shape.ranks};
    config_.vocabulary = vocabulary;
    config_.hidden = width;
    config_.layers_by_name["embedding"] = f;
    AddLayer(FactorisableLayers(config_)[0], f, &layout_);
    Plan plan;
    plan.backend = backend;
    plan.memory = &memory_;
    plan = plan.AtStage(0);
    plan.config = &config_;
    plan.layout = &layout_;
    bag_ = std::make_unique<EmbeddingBag>(plan, "embedding", ids, ids);
    if (!memory_.Commit().ok()) std::abort();
    bytes_ = memory_.bytes() + heap_bytes - before_;

    std::mt19937 random(1);
    for (const Parameter& p : layout_.parameters.parameters()) {
      for (int64_t i = 0; i < p.size; ++i) {
        parameters_.push_back(
            p.kind == ParameterKind::kRank ? 1 : random() * 0x1p-32f - 0.5f);
      }
    }
    gradients_.resize(parameters_.size());
  }

  int64_t bytes() const { return bytes_; }
  // Rank entries are 1, so that these are the folded cores too.
  std::vector<const float*> cores() const {
    std::vector<const float*> cores;
    for (int index : layout_.layers[0].cores) {
      cores.push_back(parameters_.data() + layout_.parameters[index].offset);
    }
    return cores;
  }
  const float* GradientOf(int core) const {
    const int index = layout_.layers[0].cores[core];
    return gradients_.data() + layout_.parameters[index].offset;
  }

  absl::Status Run(const std::vector<int32_t>& ids, kernels::Matrix out,
                   kernels::ConstMatrix grad) {
    std::fill(gradients_.begin(), gradients_.end(), 0.0f);
    Step step;
    step.parameters = parameters_.data();
    step.gradients = gradients_.data();
    step.train = true;
    absl::Status status = bag_->SetBatch(ids);
    status.Update(bag_->Forward(step, out));
    status.Update(bag_->Backward(step, grad));
    return status;
  }

 private:
  const int64_t before_;
  ModelConfig config_;
  ModelLayout layout_;
  StepMemory memory_;
  std::unique_ptr<EmbeddingBag> bag_;
  int64_t bytes_;
  std::vector<float> parameters_, gradients_;
};

// Returns ids that are uniform, or distributed as words in a text: the k-th
// most frequent with probability proportional to 1/k, anywhere in the table.
std::vector<int32_t> Ids(int64_t count, int64_t vocabulary, bool zipf) {
  std::mt19937 random(2);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) {
    const double uniform = (random() + 0.5) * 0x1p-32;
    const double rank = zipf ? std::pow(vocabulary, uniform) - 1
                             : static_cast<double>(vocabulary) * uniform;
    id = static_cast<int32_t>(static_cast<int64_t>(rank) * 7919 % vocabulary);
  }
  return ids;
}

double LargestDifference(const float* a, const float* b, int64_t count,
                         double* largest) {
  double difference = 0;
  for (int64_t i = 0; i < count; ++i) {
    difference = std::max(difference, std::fabs(double{a[i]} - b[i]));
    *largest = std::max(*largest, std::fabs(double{b[i]}));
  }
  return difference;
}

struct Table {
  kernels::TtmShape shape;
  int64_t vocabulary;
};
const Table kTables[] = {
    // The six-encoder's words.
    {{{16, 20, 10, 10}, {4, 4, 8, 6}, {32, 32, 32}}, 30522},
    // Criteo's largest column at the width of the stock DLRM.
    {{{200, 220, 250}, {2, 2, 4}, {32, 32}}, 10131227}};

void BM_TtmLookup(benchmark::State& state) {
  const Table& table = kTables[state.range(0)];
  const int64_t count = state.range(1);
  int64_t width = 1;
  for (int64_t mode : table.shape.col_modes) width *= mode;
  const auto ids = Ids(count, table.vocabulary, state.range(2) != 0);
  const std::unique_ptr<kernels::Backend> backend =
      kernels::CreateCpuBackend({1, 0});
  Ours ours(backend.get(), table.shape, table.vocabulary, width, count);
  kernels::TtmRowChain chain(backend.get(), table.shape, count);

  std::vector<float> out(count * width), chain_out(out), grad(out);
  std::mt19937 random(3);
  for (float& value : grad) value = random() * 0x1p-32f - 0.5f;
  std::vector<std::vector<float>> chain_grads;
  std::vector<float*> grad_cores;
  for (int k = 0; k < table.shape.order(); ++k) {
    chain_grads.emplace_back(table.shape.CoreSize(k));
    grad_cores.push_back(chain_grads.back().data());
  }
  double best = std::numeric_limits<double>::infinity(), chain_best = best;
  for (auto _ : state) {
    const double start = ProcessorSeconds();
    absl::Status status =
        ours.Run(ids, {out.data(), count, width}, {grad.data(), count, width});
    const double middle = ProcessorSeconds();
    for (auto& each : chain_grads) std::fill(each.begin(), each.end(), 0.0f);
    status.Update(
        chain.Forward(ours.cores(), ids, {chain_out.data(), count, width}));
    status.Update(chain.Backward(ours.cores(), ids, {grad.data(), count, width},
                                 grad_cores));
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
    best = std::min(best, middle - start);
    chain_best = std::min(chain_best, ProcessorSeconds() - middle);
    state.SetIterationTime(middle - start);
  }
  double largest = 0;
  double difference =
      LargestDifference(out.data(), chain_out.data(), count * width, &largest);
  if (difference > 1e-5 * largest) state.SkipWithError("other rows");
  for (int k = 0; k < table.shape.order(); ++k) {
    largest = 0;
    difference = LargestDifference(ours.GradientOf(k), grad_cores[k],
                                   table.shape.CoreSize(k), &largest);
    if (difference > 1e-4 * largest) state.SkipWithError("other gradients");
  }
  const double callers = 2.0 * 4 * static_cast<double>(count * width);
  const double bytes = static_cast<double>(ours.bytes());
  // Both need the folded cores and their gradients.
  double chain_bytes = static_cast<double>(chain.bytes());
  for (const auto& core : chain_grads) chain_bytes += 8.0 * core.size();
  state.counters["ours_ms"] = 1e3 * best;
  state.counters["chain_ms"] = 1e3 * chain_best;
  state.counters["faster"] = chain_best / best;
  state.counters["ours_MiB"] = bytes / (1 << 20);
  state.counters["chain_MiB"] = chain_bytes / (1 << 20);
  state.counters["less"] = chain_bytes / bytes;
  state.counters["less_with_rows"] =
      (chain_bytes + callers) / (bytes + callers);
}
BENCHMARK(BM_TtmLookup)
    ->ArgNames({"clicks", "ids", "zipf"})
    ->ArgsProduct({{0, 1}, {10000, 40000}, {0, 1}})
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace comera::trainer
