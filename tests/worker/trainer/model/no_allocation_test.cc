// A training step asks for no memory once the model is planned and warm.
#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/objective/create_objective.h"
#include "worker/trainer/optimizer/adamw.h"
#include "worker/trainer/planning/model_plan.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> counted{0};
thread_local bool looking = false;
constexpr int kFrames = 40;

// Counts the allocation unless a library asked for it that manages memory as
// it likes: oneDNN, and the threads' run time.
void Count() {
  if (!counting || looking) return;
  looking = true;
  void *frames[kFrames];
  const int depth = backtrace(frames, kFrames);
  bool library = false;
  for (int i = 0; i < depth; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) == 0 || info.dli_fname == nullptr) continue;
    library |= std::strstr(info.dli_fname, "libdnnl") != nullptr ||
               std::strstr(info.dli_fname, "libgomp") != nullptr;
    // Work that oneDNN's threads run for us is called by the run time.
    if (std::strstr(info.dli_fname, "libgomp") != nullptr) break;
  }
  if (!library && counted++ == 0) backtrace_symbols_fd(frames, depth, 2);
  looking = false;
}

void *Get(size_t size, size_t alignment) {
  Count();
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  void *memory =
      std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void *operator new(size_t size) { return Get(size, 16); }
void *operator new[](size_t size) { return Get(size, 16); }
void *operator new(size_t size, std::align_val_t alignment) {
  return Get(size, static_cast<size_t>(alignment));
}
void *operator new[](size_t size, std::align_val_t alignment) {
  return Get(size, static_cast<size_t>(alignment));
}
// The sanitizers' own would not go with the deletes below.
void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return Get(size, 16);
}
void *operator new[](size_t size, const std::nothrow_t &) noexcept {
  return Get(size, 16);
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void *memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void *memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace comera::trainer {
namespace {

constexpr int64_t kBatch = 6;

// A model with everything around it that a step needs.
class Training {
 public:
  Training(const ModelConfig &config, int threads)
      : backend_(kernels::CreateCpuBackend({threads, 0})) {
    plan_ =
        ModelPlan::Create(config, kBatch, CreateModel, backend_.get()).value();
    std::vector<float> initial(plan_->size());
    plan_->model().Initialise(1, initial.data());
    EXPECT_OK(plan_->Upload(initial, plan_->parameters()));
    const Model &model = plan_->model();
    ObjectiveOptions options;
    options.initial_size = static_cast<double>(plan_->size());
    objective_ = CreateObjective(v1::ObjectiveSpec::PARETO, options,
                                 model.tensorised_layers(), model.layout(),
                                 backend_.get())
                     .value();
    optimizer_ = AdamW::Create({}, model.layout(), backend_.get()).value();
  }

  absl::Status Step(const Batch &batch) {
    ++step_;
    state_.step = step_;
    Model &model = plan_->model();
    absl::Status status = backend_->Fill(plan_->reduced(), 0);
    status.Update(
        model.Forward(batch, plan_->parameters().data, true, &state_));
    status.Update(
        model.Backward(plan_->parameters().data, plan_->gradients().data));
    status.Update(model.ReadLoss().status());
    status.Update(objective_
                      ->Apply({1, 1}, v1::EARLY, 0.1, plan_->parameters(),
                              plan_->gradients())
                      .status());
    status.Update(optimizer_
                      ->Step(step_, 1, plan_->parameters(), plan_->gradients(),
                             plan_->optimizer_state())
                      .status());
    return status;
  }

  kernels::Backend &backend() { return *backend_; }

 private:
  const std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<ModelPlan> plan_;
  std::unique_ptr<Objective> objective_;
  std::unique_ptr<AdamW> optimizer_;
  kernels::StepState state_;
  int64_t step_ = 0;
};

struct Case {
  ModelConfig config;
  std::optional<kernels::TtPath> path;
};

class NoAllocationTest : public ::testing::TestWithParam<Case> {};

TEST_P(NoAllocationTest, StepsAfterTheFirstUseWhatIsThere) {
  void *prime[4];
  backtrace(prime, 4);  // loads what it needs
  for (int threads : {1, 2}) {
    ModelConfig config = GetParam().config;
    config.dropout = 0.1f;
    config.forced_path = GetParam().path;
    Training training(config, threads);
    const bool classifier = config.family == v1::ModelSpec::ENCODER_CLASSIFIER;
    std::vector<Batch> batches;
    // The first is as large as any; the others are smaller or differ.
    for (int i = 0; i < 6; ++i) {
      const int64_t size = i == 0 ? kBatch : kBatch - i % 3;
      batches.push_back(RandomBatch(
          config, size, classifier ? size : size * config.length / 2, i % 2,
          10 + i));
    }
    ASSERT_OK(training.Step(batches[0]));
    training.backend().Seal();
    counted = 0;
    counting = true;
    absl::Status status;
    for (const Batch &batch : batches) status.Update(training.Step(batch));
    counting = false;
    ASSERT_OK(status);
    EXPECT_OK(training.backend().Unseal());
    EXPECT_EQ(counted.load(), 0) << "the first came from the stack above";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, NoAllocationTest,
    ::testing::Values(
        Case{SmallConfig(v1::ModelSpec::MASKED_LM),
             kernels::TtPath::kPrefixSuffix},
        Case{SmallConfig(v1::ModelSpec::ENCODER_CLASSIFIER),
             kernels::TtPath::kPrefixSuffix},
        Case{SmallConfig(v1::ModelSpec::MASKED_LM),
             kernels::TtPath::kCoreByCore},
        Case{SmallConfig(v1::ModelSpec::MASKED_LM), kernels::TtPath::kDense},
        Case{SmallConfig(v1::ModelSpec::MASKED_LM, true), std::nullopt},
        Case{SmallConfig(v1::ModelSpec::ENCODER_CLASSIFIER, true),
             std::nullopt},
        Case{SmallDecoder(v1::ModelSpec::LLAMA),
             kernels::TtPath::kPrefixSuffix},
        Case{SmallDecoder(v1::ModelSpec::LLAMA, true), std::nullopt},
        Case{SmallDecoder(v1::ModelSpec::GPT2), kernels::TtPath::kCoreByCore},
        Case{SmallDecoder(v1::ModelSpec::GPT2, true), std::nullopt}));

TEST(CountTest, SeesWhatOurCodeAsksFor) {
  counted = 0;
  counting = true;
  void *memory = ::operator new(8);
  counting = false;
  ::operator delete(memory);
  EXPECT_EQ(counted.load(), 1);
}

TEST(SealTest, MemoryIsRefusedAndGrowthIsTold) {
  const auto backend = kernels::CreateCpuBackend({1, 0});
  backend->Seal();
  EXPECT_THAT(backend->Allocate(64),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(backend->Unseal());
  const auto memory = backend->Allocate(1 << 20);
  ASSERT_OK(memory);
  float *floats = static_cast<float *>(*memory);
  const kernels::ConstMatrix y(floats, 512, 128);
  const kernels::Vector bias(floats + 512 * 128, 128);
  backend->Seal();
  ASSERT_OK(backend->BiasGradient(y, bias));
  EXPECT_THAT(backend->Unseal(), StatusIs(absl::StatusCode::kInternal));
  backend->Seal();
  ASSERT_OK(backend->BiasGradient(y, bias));
  EXPECT_OK(backend->Unseal());
  backend->Free(*memory);
}

}  // namespace
}  // namespace comera::trainer
