// The size controller reaches its target in time, and stops there.
#include "worker/trainer/late/size_controller.h"

#include <cmath>
#include <memory>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"

namespace comera::trainer {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr float kThreshold = 1e-2f;
constexpr double kFixed = 30;

// Two layers, and gradients that make the last entries of a bond matter most.
class SizeControllerTest : public ::testing::Test {
 protected:
  SizeControllerTest() : backend_(kernels::CreateCpuBackend({1})) {
    AddLayer("a", {4, 5, 6}, {1, 20, 24, 1});
    AddLayer("b", {7, 7}, {1, 30, 1});
    parameters_.assign(layout_.size(), 1.0f);
    gradients_.assign(layout_.size(), 100.0f);
    for (const TensorisedLayer& layer : layers_) {
      for (int bond : layer.bonds) {
        for (int64_t k = 0; k < layout_[bond].size; ++k) {
          gradients_[layout_[bond].offset + k] = 0.5f + k;
        }
      }
    }
    approach_.max_steps = 200;
    approach_.rate = 0.02;
    approach_.size = Size();
    approach_.target_size = 0.5 * Size();
    SizeControl control;
    control.start_size = Size();
    Bind(control);
  }

  void AddLayer(const std::string& name, std::vector<int64_t> modes,
                std::vector<int64_t> ranks) {
    TensorisedLayer layer;
    layer.modes = modes;
    layer.ranks = ranks;
    for (size_t i = 0; i < modes.size(); ++i) {
      layer.cores.push_back(layout_.Add(name + ".core." + std::to_string(i),
                                        {ranks[i], modes[i], ranks[i + 1]},
                                        ParameterKind::kCore, false));
    }
    for (size_t i = 1; i < modes.size(); ++i) {
      layer.bonds.push_back(layout_.Add(name + ".rank." + std::to_string(i),
                                        {ranks[i]}, ParameterKind::kRank,
                                        false));
    }
    layers_.push_back(layer);
  }

  void Bind(SizeControl control) {
    SizeController::Options options;
    options.rank_threshold = kThreshold;
    options.fixed_size = kFixed;
    options.scheduled = scheduled_;
    options.relaxed_weight = relaxed_weight_;
    auto controller = SizeController::Create(
        options, layers_, layout_, std::move(control), backend_.get());
    ASSERT_OK(controller);
    controller_ = *std::move(controller);
  }

  std::vector<int> Alive(const TensorisedLayer& layer) const {
    std::vector<int> alive;
    for (int bond : layer.bonds) {
      int n = 0;
      for (int64_t k = 0; k < layout_[bond].size; ++k) {
        n += parameters_[layout_[bond].offset + k] > kThreshold;
      }
      alive.push_back(n);
    }
    return alive;
  }

  double Size() const {
    double size = kFixed;
    for (const TensorisedLayer& layer : layers_) {
      const std::vector<int> alive = Alive(layer);
      for (size_t i = 0; i < layer.modes.size(); ++i) {
        size += static_cast<double>(layer.modes[i]) *
                (i == 0 ? 1 : alive[i - 1]) *
                (i + 1 == layer.modes.size() ? 1 : alive[i]);
      }
    }
    return size;
  }

  kernels::Vector Parameters() {
    return {parameters_.data(), static_cast<int64_t>(parameters_.size())};
  }
  kernels::ConstVector Gradients() const {
    return {gradients_.data(), static_cast<int64_t>(gradients_.size())};
  }

  // One training step without an optimiser; true: a size step.
  bool Step(bool wanted) {
    EXPECT_OK(controller_->Observe(Parameters(), Gradients(), 0.1));
    approach_.size = Size();
    const bool on_size = wanted || controller_->Due(approach_);
    EXPECT_OK(controller_->Step(on_size, approach_, Parameters()));
    ++approach_.step;
    return on_size;
  }

  std::unique_ptr<kernels::Backend> backend_;
  ParameterLayout layout_;
  std::vector<TensorisedLayer> layers_;
  std::vector<float> parameters_, gradients_;
  Approach approach_;
  bool scheduled_ = true;
  double relaxed_weight_ = 0;
  std::unique_ptr<SizeController> controller_;
};

TEST_F(SizeControllerTest, ReachesTheTargetAndStaysThere) {
  while (approach_.step < 199) Step(true);
  EXPECT_LE(Size(), approach_.target_size);
  EXPECT_GE(Size(), 0.97 * approach_.target_size);
}

TEST_F(SizeControllerTest, ReachesItByTheDeadlineWhateverTheLossAsksFor) {
  int steps_on_size = 0;
  while (approach_.step < 110) steps_on_size += Step(false) ? 1 : 0;
  EXPECT_GT(steps_on_size, 10);
  EXPECT_LE(Size(), approach_.target_size);
  EXPECT_GE(Size(), 0.97 * approach_.target_size);
  const double size = Size();
  while (approach_.step < 150) EXPECT_FALSE(Step(false));
  EXPECT_EQ(Size(), size);
}

TEST_F(SizeControllerTest, WithoutAScheduleTheCallerAloneDecides) {
  scheduled_ = false;
  SizeControl control;
  control.start_size = Size();
  Bind(control);
  const double full = Size();
  while (approach_.step < 150) EXPECT_FALSE(Step(false));
  EXPECT_EQ(Size(), full);
  // Nor does a deadline that has passed make a wave of everything.
  while (approach_.step < 199) {
    const double before = Size();
    Step(true);
    EXPECT_GE(Size(), 0.85 * before);
  }
  EXPECT_LT(Size(), 0.7 * full);
}

// Every alive entry falls by rate x weight x n_b |d_(b-1)| + n_(b+1) |d_(b+1)|.
TEST_F(SizeControllerTest, TheRelaxedSizeLowersAllEntriesByItsSlope) {
  relaxed_weight_ = 1e-4;
  Bind({});
  const int64_t dead = layout_[layers_[0].bonds[0]].offset;
  parameters_[dead] = 0;
  EXPECT_OK(controller_->Observe(Parameters(), Gradients(), 0.1));
  ASSERT_OK(controller_->Step(false, approach_, Parameters()));
  const double step = approach_.rate * relaxed_weight_;
  EXPECT_EQ(parameters_[dead], 0);
  EXPECT_NEAR(parameters_[dead + 1], 1 - step * (4 + 5 * 24), 1e-6);
  EXPECT_NEAR(parameters_[layout_[layers_[0].bonds[1]].offset],
              1 - step * (5 * 19 + 6), 1e-6);
  EXPECT_NEAR(parameters_[layout_[layers_[1].bonds[0]].offset],
              1 - step * (7 + 7), 1e-6);
}

TEST_F(SizeControllerTest, TheRelaxedSizeMayWearAnEntryOut) {
  relaxed_weight_ = 1;
  Bind({});
  const double full = Size();
  for (int i = 0; i < 2; ++i) Step(false);
  EXPECT_LT(Size(), full);
}

TEST_F(SizeControllerTest, EveryRatioWithinThreePerCent) {
  const double full = Size();
  const std::vector<float> start = parameters_;
  for (const double ratio : {0.95, 0.8, 0.65, 0.5, 0.35, 0.25}) {
    for (const int64_t max_steps : {1, 2, 9, 40, 500}) {
      parameters_ = start;
      SizeControl control;
      control.start_size = full;
      Bind(control);
      approach_ = {full, ratio * full, 0, max_steps, 0.02};
      while (approach_.step < max_steps) Step(false);
      EXPECT_LE(Size(), ratio * full) << ratio << " in " << max_steps;
      EXPECT_GE(Size(), 0.97 * ratio * full) << ratio << " in " << max_steps;
    }
  }
}

TEST_F(SizeControllerTest, TheLeastSalientFadeAndTheOthersAreLeftAlone) {
  while (approach_.step < 25) Step(true);
  for (const TensorisedLayer& layer : layers_) {
    for (int bond : layer.bonds) {
      const float* entry = parameters_.data() + layout_[bond].offset;
      // Saliency rises within a bond.
      for (int64_t k = 1; k < layout_[bond].size; ++k) {
        EXPECT_LE(entry[k - 1], entry[k]);
      }
      EXPECT_EQ(entry[layout_[bond].size - 1], 1);
    }
  }
  EXPECT_LT(Size(), approach_.size + 1);
}

TEST_F(SizeControllerTest, NothingFadesBeforeItHasSeenEnough) {
  while (approach_.step < 19) Step(true);
  EXPECT_THAT(parameters_, Each(1.0f));
  for (int i = 0; i < 10; ++i) Step(true);
  EXPECT_THAT(parameters_, ::testing::Not(Each(1.0f)));
}

TEST_F(SizeControllerTest, AWaveFallsByAtMostATenth) {
  double before = Size();
  while (approach_.step < 90) {
    Step(true);
    // Its last step takes all that is left of it at once.
    EXPECT_GE(Size(), 0.85 * before);
    before = Size();
  }
}

TEST_F(SizeControllerTest, OnlyTheControllerPrunes) {
  const double size = Size();
  const int64_t first = layout_[layers_[0].bonds[0]].offset;
  parameters_[first + 7] = 0.001f;  // as the optimiser may leave it
  parameters_[first + 6] = -3;
  ASSERT_OK(controller_->Step(false, approach_, Parameters()));
  EXPECT_GT(parameters_[first + 7], kThreshold);
  EXPECT_GT(parameters_[first + 6], kThreshold);
  EXPECT_EQ(Size(), size);
}

TEST_F(SizeControllerTest, EntriesThatTheOptimiserPushedBelowZeroCanLeave) {
  // The optimiser makes the least salient entries negative in every step.
  for (; approach_.step < approach_.max_steps; ++approach_.step) {
    approach_.size = Size();
    ASSERT_OK(controller_->Observe(Parameters(), Gradients(), 0.1));
    for (const TensorisedLayer& layer : layers_) {
      for (int bond : layer.bonds) {
        for (int64_t k = 0; k < layout_[bond].size / 2; ++k) {
          float& entry = parameters_[layout_[bond].offset + k];
          if (entry > 0) entry = -0.005f;
        }
      }
    }
    ASSERT_OK(controller_->Step(true, approach_, Parameters()));
  }
  EXPECT_LE(Size(), approach_.target_size);
}

TEST_F(SizeControllerTest, TheDeadStayDead) {
  while (Size() > approach_.target_size) Step(true);
  const double size = Size();
  // Momentum may lift any entry.
  for (float& p : parameters_) p += 0.3f;
  Step(false);
  EXPECT_EQ(Size(), size);
}

TEST_F(SizeControllerTest, EntriesDeadFromTheStartAreNoCandidates) {
  const int64_t first = layout_[layers_[1].bonds[0]].offset;
  parameters_[first] = kThreshold;
  approach_.target_size = Size() - 1;
  while (approach_.step < 120) Step(true);
  EXPECT_EQ(parameters_[first], 0);
  EXPECT_LE(Size(), approach_.target_size);
  EXPECT_GE(Size(), 0.97 * approach_.target_size);
}

TEST_F(SizeControllerTest, TheStateCarriesOnAfterCompaction) {
  while (approach_.step < 60) Step(true);
  ASSERT_OK_AND_ASSIGN(const SizeControl control,
                       controller_->Compacted(Parameters()));
  std::vector<float> alive;
  size_t i = 0;
  for (const TensorisedLayer& layer : layers_) {
    for (int bond : layer.bonds) {
      for (int64_t k = 0; k < layout_[bond].size; ++k, ++i) {
        if (parameters_[layout_[bond].offset + k] > kThreshold) {
          alive.push_back(controller_->control().saliency[i]);
        }
      }
    }
  }
  ASSERT_LT(alive.size(), 74u);
  EXPECT_EQ(control.saliency, alive);
  EXPECT_THAT(control.fade, SizeIs(alive.size()));
  EXPECT_EQ(control.wave_steps_left, controller_->control().wave_steps_left);
  EXPECT_EQ(control.observations, 60);
}

TEST_F(SizeControllerTest, CompactedForgetsALayerThatIsGone) {
  const int64_t first = layout_[layers_[0].bonds[1]].offset;
  for (int64_t k = 0; k < 24; ++k) parameters_[first + k] = 0;
  ASSERT_OK_AND_ASSIGN(const SizeControl control,
                       controller_->Compacted(Parameters()));
  EXPECT_THAT(control.saliency, SizeIs(30));
}

TEST_F(SizeControllerTest, AStateOfAnotherLayoutIsRefused) {
  SizeControl control;
  control.saliency.resize(73);
  control.fade.resize(74);
  EXPECT_THAT(
      SizeController::Create({}, layers_, layout_, control, backend_.get()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("for 74 entries")));
}

}  // namespace
}  // namespace comera::trainer
