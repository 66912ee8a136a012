// Rank entries that pruning chooses by saliency cost the model less than others
// of the same size do: a trained model, cut to several sizes at once.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_parts.h"
#include "worker/trainer/late/pruning_choice.h"
#include "worker/trainer/late/size_controller.h"
#include "worker/trainer/model/plan/model_size.h"

namespace comera::trainer {
namespace {

constexpr int kTrainingSteps = 150, kObservations = 30;

// The tiny job with ranks to spare, trained on the loss alone.
v1::JobSpec WideSpec() {
  v1::JobSpec spec = TinySpec();
  v1::CompressionSpec& compression = *spec.mutable_compression();
  for (auto* layer :
       {compression.mutable_embedding(), compression.mutable_attention(),
        compression.mutable_ffn_up(), compression.mutable_ffn_down(),
        compression.mutable_head()}) {
    layer->set_ranks(0, 12);
  }
  compression.clear_output();
  compression.mutable_output()->add_ranks(12);
  v1::EarlyStage& early = *spec.mutable_objective()->mutable_early();
  early.set_gamma(0);
  early.set_steps(kTrainingSteps);
  // At the full rates the last loss depends on how sums are rounded.
  spec.mutable_optimizer()->set_decay(v1::OptimizerSpec::LINEAR);
  return WithDefaults(spec);
}

using Score = std::function<double(double saliency)>;

class PruningQualityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    parts_ = std::make_unique<TrainerParts>(WideSpec());
    parts_->Make();
    parts_->Load();
    parts_->Steps(kTrainingSteps);
    // The late stage begins with this.
    ASSERT_OK(parts_->model->Canonicalise());
    parameters_ = parts_->Parameters();
    Observe();
  }

  ModelPlan& plan() { return *parts_->model->plan(); }

  // Learns the saliency of every entry, as the late stage does.
  void Observe() {
    Model& model = plan().model();
    const auto controller = SizeController::Create(
        {}, model.tensorised_layers(), model.layout(), {},
        parts_->backend.get());
    ASSERT_OK(controller);
    for (int i = 0; i < kObservations; ++i) {
      Batch batch;
      ASSERT_OK(parts_->data.TrainBatch(1000 + i, 8, 0, 1, &batch));
      ASSERT_OK(parts_->backend->Fill(plan().gradients(), 0));
      ASSERT_OK(model.Forward(batch, plan().parameters().data, /*train=*/true,
                              parts_->engine->device_state()));
      ASSERT_OK(model.Backward(plan().parameters().data,
                               plan().gradients().data));
      ASSERT_OK((*controller)
                    ->Observe(plan().trained_parameters(), plan().gradients(),
                              1.0 / static_cast<double>(batch.labels.size())));
    }
    saliency_ = (*controller)->control().saliency;
  }

  // The layers with a score of each entry's saliency in its place.
  std::vector<PrunableLayer> Layers(const Score& score) {
    std::vector<PrunableLayer> layers;
    size_t next = 0;
    for (const TensorisedLayer& from : plan().model().tensorised_layers()) {
      PrunableLayer layer;
      layer.modes = from.modes;
      for (size_t b = 0; b < from.bonds.size(); ++b) {
        std::vector<double> scores;
        for (int64_t k = 0; k < from.ranks[b + 1]; ++k) {
          scores.push_back(score(saliency_[next++]));
        }
        layer.saliency.push_back(std::move(scores));
      }
      layers.push_back(std::move(layer));
    }
    return layers;
  }

  // The validation loss without the entries of least score, at this share of
  // the size.
  double LossAt(double share, const Score& score) {
    const ParameterLayout& layout = plan().model().layout();
    const double fixed = static_cast<double>(FixedSize(layout));
    const std::vector<PrunableLayer> layers = Layers(score);
    const double goal = fixed + share * (SizeOf(layers, fixed) - fixed);
    const PruningChoice choice = ChooseEntries(layers, fixed, goal, 0);
    // Equal sizes, but for less than the smallest entry.
    EXPECT_NEAR(choice.size, goal, 60);
    std::vector<float> pruned = parameters_;
    for (const RankEntry& e : choice.entries) {
      const TensorisedLayer& layer =
          plan().model().tensorised_layers()[e.layer];
      pruned[layout[layer.bonds[e.bond]].offset + e.entry] = 0;
    }
    return Loss(pruned);
  }

  double Loss(const std::vector<float>& parameters) {
    EXPECT_OK(plan().Upload(parameters, plan().parameters()));
    double sum = 0, labels = 0;
    for (int64_t first = 0; first < 24; first += 8) {
      Batch batch;
      EXPECT_OK(parts_->data.ValidationBatch(first, 8, &batch));
      EXPECT_OK(plan().model().Forward(batch, plan().parameters().data,
                                       /*train=*/false,
                                       parts_->engine->device_state()));
      const auto totals = plan().model().ReadLoss();
      EXPECT_OK(totals);
      sum += totals->loss_sum;
      labels += totals->labels;
    }
    EXPECT_OK(plan().Upload(parameters_, plan().parameters()));
    return sum / labels;
  }

  std::unique_ptr<TrainerParts> parts_;
  std::vector<float> parameters_, saliency_;
};

TEST_F(PruningQualityTest, SaliencyBeatsChanceAndItsInverse) {
  const double whole = Loss(parameters_);
  ASSERT_LT(whole, 0.5 * parts_->data.baseline_loss()) << "it has not learnt";
  for (const double share : {0.8, 0.6, 0.4}) {
    SCOPED_TRACE(share);
    const double best = LossAt(share, [](double s) { return s; });
    const double inverted = LossAt(share, [](double s) {
      return 1 / (s + 1e-30);
    });
    double chance = 0;
    constexpr int kDraws = 5;
    for (int seed = 1; seed <= kDraws; ++seed) {
      std::mt19937 random(seed);
      std::uniform_real_distribution<double> uniform(0.1, 1);
      const double loss =
          LossAt(share, [&](double) { return uniform(random); });
      EXPECT_LT(best, loss) << "seed " << seed;
      chance += loss / kDraws;
    }
    RecordProperty("losses", std::to_string(best) + " " +
                                 std::to_string(chance) + " " +
                                 std::to_string(inverted));
    EXPECT_LT(best, inverted);
    // What pruning costs is at most half of what chance costs.
    EXPECT_LT(best - whole, 0.5 * (chance - whole))
        << best << " by saliency, " << chance << " by chance, " << inverted
        << " inverted, " << whole << " unpruned";
  }
}

}  // namespace
}  // namespace comera::trainer
