// Tests the paths that an encoder takes on a device, where memory is apart from
// the host's, against those on a host.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/fakes/forwarding_backend.h"
#include "tests/worker/trainer/model/gradient_check.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/create_model.h"

namespace comera::trainer {
namespace {

constexpr int64_t kBatch = 3;

// The processor in the role of a device. Counts calls, and refuses one.
class Device : public kernels::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bool in_host_memory() const override { return false; }

  std::map<std::string, int> calls;
  std::string refused;  // the operation of which a call fails
  int allowed = 0;      // calls of it before that one

 protected:
  absl::Status Call(const std::string& name, Operation operation) override {
    if (name == refused && allowed-- == 0) {
      refused.clear();
      return absl::UnavailableError("refused");
    }
    ++calls[name];
    return operation();
  }
};

// All branches in rank space.
ModelConfig Config() {
  ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM);
  config.dropout = 0.1f;
  for (auto& [key, f] : config.layers_by_name) {
    if (f.dense() || key == "embedding") continue;
    f.ranks[f.input_modes.size() - 1] = 2;
  }
  return config;
}

class DeviceEncoderTest : public ::testing::Test {
 protected:
  DeviceEncoderTest() {
    auto model = CreateModel(Config(), kBatch, &device_);
    EXPECT_OK(model.status());
    on_device_.model = *std::move(model);
    EnlargeWeights(on_device_);
    EnlargeWeights(on_host_);
  }
  ~DeviceEncoderTest() override { on_device_.model.reset(); }

  void ExpectTheHostsGradients() {
    ExpectNear(on_device_.gradients, on_host_.gradients, 1e-5);
  }

  TestModel on_host_{Config(), kBatch}, on_device_{Config(), kBatch};
  Device device_{on_device_.backend.get()};
  const Batch batch_ = RandomBatch(Config(), kBatch, 6, 1, 5);
};

TEST_F(DeviceEncoderTest, GradientsAreTheHosts) {
  // Twice: the second adds to the gradients of the first.
  for (int i = 0; i < 2; ++i) {
    on_device_.Gradient(batch_);
    on_host_.Gradient(batch_);
    ExpectTheHostsGradients();
  }
  EXPECT_EQ(device_.calls["RankSpaceAttention"], 4);
  EXPECT_EQ(device_.calls["RankSpaceFfn"], 4);
  // Query, key and value have one product with the stream.
  EXPECT_EQ(device_.calls["ProjectBackward"], 8);
}

TEST_F(DeviceEncoderTest, AStepThatWasBrokenOffLeavesNothingInTheNext) {
  // The second layer fails first, then the first in its middle.
  for (const auto& [operation, allowed] :
       {std::pair{"RankSpaceAttentionBackward", 0},
        {"RankSpaceAttentionBackward", 1},
        {"RankSpaceFfnBackward", 1},
        {"ExpandLayerNormBackward", 3},
        {"ProjectBackward", 2},
        {"ProjectBackward", 3}}) {
    SCOPED_TRACE(absl::StrCat(operation, " after ", allowed));
    ASSERT_OK(on_device_.model->Forward(batch_, on_device_.parameters.data(),
                                        /*train=*/true, &on_device_.state));
    device_.refused = operation;
    device_.allowed = allowed;
    EXPECT_THAT(on_device_.model->Backward(on_device_.parameters.data(),
                                           on_device_.gradients.data()),
                StatusIs(absl::StatusCode::kUnavailable));
    on_device_.gradients.assign(on_device_.gradients.size(), 0);
    on_host_.gradients.assign(on_host_.gradients.size(), 0);
    on_device_.Gradient(batch_);
    on_host_.Gradient(batch_);
    ExpectTheHostsGradients();
  }
}

}  // namespace
}  // namespace comera::trainer
