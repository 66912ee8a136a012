// A model as it is exported: without its pruned entries.
#include "worker/trainer/loop/compacted_model.h"

#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_parts.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {
namespace {

TEST(CompactedModelTest, KeepsWhatIsAliveAndDropsTheRest) {
  TrainerParts parts;
  parts.Make();
  parts.Load();
  const ModelConfig& config = parts.model->initial_config();
  std::vector<float> parameters = parts.Parameters();
  const CompactedModel whole = CompactModel(config, parameters);
  EXPECT_EQ(whole.parameters, parameters);

  const ModelLayout layout = MakeModelLayout(config);
  const TensorisedLayer& layer = layout.layers.front();
  const Parameter& bond = layout.parameters[layer.bonds.front()];
  parameters[bond.offset] = 0;
  const CompactedModel pruned = CompactModel(config, parameters);
  EXPECT_LT(pruned.parameters.size(), parameters.size());
  const ModelLayout now = MakeModelLayout(pruned.config);
  EXPECT_EQ(now.parameters.size(),
            static_cast<int64_t>(pruned.parameters.size()));
  EXPECT_EQ(now.parameters[now.layers.front().bonds.front()].size,
            bond.size - 1);
}

}  // namespace
}  // namespace comera::trainer
