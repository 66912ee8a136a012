// Each objective against its formula in double: values, both branches, and the
// gradient against central differences.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "worker/trainer/objective/create_objective.h"

namespace comera::trainer {
namespace {

constexpr float kThreshold = 1e-2f;
constexpr double kScale = 0.25;  // 1 / labels

// Two tensorised layers (order 4 and 3) and a dense weight between them.
struct Fixture {
  ParameterLayout layout;
  std::vector<TensorisedLayer> layers;
  std::vector<float> parameters;
  std::vector<float> loss_gradient;

  void AddLayer(const std::string& name, std::vector<int64_t> modes,
                std::vector<int64_t> ranks, bool in_head) {
    TensorisedLayer layer;
    layer.name = name;
    layer.modes = modes;
    layer.ranks = ranks;
    for (size_t i = 0; i < modes.size(); ++i) {
      layer.cores.push_back(layout.Add(name + ".core." + std::to_string(i),
                                       {ranks[i], modes[i], ranks[i + 1]},
                                       ParameterKind::kCore, in_head));
    }
    for (size_t i = 1; i < modes.size(); ++i) {
      layer.bonds.push_back(layout.Add(name + ".rank." + std::to_string(i),
                                       {ranks[i]}, ParameterKind::kRank,
                                       in_head));
    }
    layers.push_back(layer);
  }

  Fixture() {
    AddLayer("a", {3, 2, 2, 4}, {1, 3, 5, 2, 1}, false);
    layout.Add("dense", {4, 3}, ParameterKind::kDense, false);
    AddLayer("b", {6, 4, 5}, {1, 4, 3, 1}, true);
    // Any numbers without a pattern; rank entries around 1.
    for (int64_t i = 0; i < layout.size(); ++i) {
      parameters.push_back(std::sin(0.7f * i + 0.3f));
      loss_gradient.push_back(std::cos(1.3f * i));
    }
    for (const Parameter& p : layout.parameters()) {
      if (p.kind != ParameterKind::kRank) continue;
      for (int64_t i = 0; i < p.size; ++i) {
        parameters[p.offset + i] = 0.4f + 0.3f * i;
      }
    }
  }

  float* Bond(int layer, int bond) {
    return parameters.data() + layout[layers[layer].bonds[bond]].offset;
  }
};

// Sum over cores of n_i f(d_{i-1}) f(d_i), written from the formula.
double Size(const Fixture& f, const std::vector<double>& p, bool relaxed) {
  double total = 0;
  for (const TensorisedLayer& layer : f.layers) {
    std::vector<double> norms = {1};
    bool pruned = false;
    for (int bond : layer.bonds) {
      double norm = 0;
      bool alive = false;
      for (int64_t i = 0; i < f.layout[bond].size; ++i) {
        const double d = p[f.layout[bond].offset + i];
        if (d <= kThreshold) continue;
        alive = true;
        norm += relaxed ? d : 1;
      }
      pruned |= !alive;
      norms.push_back(norm);
    }
    norms.push_back(1);
    if (pruned) continue;
    for (size_t i = 0; i < layer.modes.size(); ++i) {
      total += layer.modes[i] * norms[i] * norms[i + 1];
    }
  }
  return total;
}

double CoreSquares(const Fixture& f, const std::vector<double>& p) {
  double sum = 0;
  for (const TensorisedLayer& layer : f.layers) {
    for (int core : layer.cores) {
      for (int64_t i = 0; i < f.layout[core].size; ++i) {
        const double g = p[f.layout[core].offset + i];
        sum += g * g;
      }
    }
  }
  return sum;
}

double MeanAlive(const Fixture& f, const std::vector<double>& p) {
  double sum = 0, count = 0;
  for (const TensorisedLayer& layer : f.layers) {
    for (int bond : layer.bonds) {
      for (int64_t i = 0; i < f.layout[bond].size; ++i) {
        const double d = p[f.layout[bond].offset + i];
        if (d > kThreshold) sum += d, count += 1;
      }
    }
  }
  return sum / count;
}

class ObjectiveTest : public ::testing::Test {
 protected:
  ObjectiveTest() : backend_(kernels::CreateCpuBackend({/*threads=*/1})) {}

  // Applies the objective; its gradient lands in gradients_.
  ObjectiveStep Apply(v1::ObjectiveSpec::Kind kind,
                      const ObjectiveOptions& options, const StepLoss& loss,
                      v1::Stage stage) {
    gradients_ = fixture_.loss_gradient;
    auto objective = CreateObjective(kind, options, fixture_.layers,
                                     fixture_.layout, backend_.get());
    EXPECT_OK(objective);
    const int64_t n = fixture_.layout.size();
    auto step =
        (*objective)
            ->Apply(loss, stage, kScale, {fixture_.parameters.data(), n},
                    {gradients_.data(), n});
    EXPECT_OK(step);
    return *step;
  }

  // gradients_ = loss_factor * kScale * loss gradient + d extra / d parameter.
  void ExpectGradient(
      double loss_factor,
      const std::function<double(const std::vector<double>&)>& extra) {
    const std::vector<double> p(fixture_.parameters.begin(),
                                fixture_.parameters.end());
    for (size_t i = 0; i < p.size(); ++i) {
      const double h = 1e-5;
      std::vector<double> up = p, down = p;
      up[i] += h;
      down[i] -= h;
      const double want = loss_factor * kScale * fixture_.loss_gradient[i] +
                          (extra(up) - extra(down)) / (2 * h);
      ASSERT_NEAR(gradients_[i], want, 2e-6 * std::max(1.0, std::abs(want)))
          << "parameter " << i;
    }
  }

  std::vector<double> Doubles() const {
    return {fixture_.parameters.begin(), fixture_.parameters.end()};
  }

  Fixture fixture_;
  std::unique_ptr<kernels::Backend> backend_;
  std::vector<float> gradients_;
};

ObjectiveOptions Options() {
  ObjectiveOptions options;
  options.gamma = 0.3;
  options.beta = 0.01;
  options.w_loss = 0.8;
  options.w_size = 1.5;
  options.target_loss = 1.0;
  options.target_size = 100;
  options.fixed_size = 12;
  options.initial_size = 250;
  options.rank_threshold = kThreshold;
  return options;
}

TEST_F(ObjectiveTest, SizesFollowTheFormula) {
  fixture_.Bond(0, 1)[0] = 0.005f;      // below the threshold
  fixture_.Bond(1, 0)[2] = kThreshold;  // at it: acts as 0 too
  const ObjectiveStep step =
      Apply(v1::ObjectiveSpec::PARETO, Options(), {1, 1}, v1::EARLY);
  EXPECT_DOUBLE_EQ(step.size, 12 + Size(fixture_, Doubles(), false));
  EXPECT_NEAR(step.relaxed_size, 12 + Size(fixture_, Doubles(), true), 1e-3);
  EXPECT_EQ(step.alive_entries, 17 - 2);
  EXPECT_NEAR(step.mean_alive_entry, MeanAlive(fixture_, Doubles()), 1e-6);
}

TEST_F(ObjectiveTest, ParetoEarly) {
  fixture_.Bond(0, 1)[0] = 0.002f;
  const ObjectiveOptions o = Options();
  const ObjectiveStep step =
      Apply(v1::ObjectiveSpec::PARETO, o, {9, 9}, v1::EARLY);
  EXPECT_FALSE(step.on_size);
  EXPECT_EQ(step.loss_factor, 1);
  ExpectGradient(1, [&](const std::vector<double>& p) {
    return o.gamma * Size(fixture_, p, true) / o.initial_size +
           o.beta * CoreSquares(fixture_, p);
  });
}

// The late stage's test tells which target is further away; its gradient is
// the loss's either way.
TEST_F(ObjectiveTest, ParetoLateOnLoss) {
  const ObjectiveOptions o = Options();
  const ObjectiveStep step =
      Apply(v1::ObjectiveSpec::PARETO, o, {0.1, 2.5}, v1::LATE);
  EXPECT_FALSE(step.on_size) << "size " << step.size;
  EXPECT_EQ(step.loss_factor, 1);
  ExpectGradient(1, [&](const std::vector<double>& p) {
    return o.beta * CoreSquares(fixture_, p);
  });
}

TEST_F(ObjectiveTest, ParetoLateOnSize) {
  const ObjectiveOptions o = Options();
  const ObjectiveStep step =
      Apply(v1::ObjectiveSpec::PARETO, o, {9, 1.01}, v1::LATE);
  EXPECT_TRUE(step.on_size) << "size " << step.size;
  EXPECT_EQ(step.loss_factor, 1);
  ExpectGradient(1, [&](const std::vector<double>& p) {
    return o.beta * CoreSquares(fixture_, p);
  });
}

TEST_F(ObjectiveTest, ParetoAchievementWeighsTheLossByRhoInStepsOnSize) {
  ObjectiveOptions o = Options();
  o.achievement = true;
  o.rho = 0.25 * o.w_loss;
  EXPECT_EQ(Apply(v1::ObjectiveSpec::PARETO, o, {0.1, 2.5}, v1::LATE)
                .loss_factor,
            1);
  const ObjectiveStep step =
      Apply(v1::ObjectiveSpec::PARETO, o, {9, 1.01}, v1::LATE);
  EXPECT_TRUE(step.on_size);
  EXPECT_DOUBLE_EQ(step.loss_factor, 0.2);
}

TEST_F(ObjectiveTest, ParetoEqualExcessStepsOnLoss) {
  ObjectiveOptions o = Options();
  o.target_size = 12 + Size(fixture_, Doubles(), false);
  EXPECT_FALSE(Apply(v1::ObjectiveSpec::PARETO, o, {1, o.target_loss}, v1::LATE)
                   .on_size);
}

TEST_F(ObjectiveTest, ParetoAtTargetSizeStepsOnLoss) {
  ObjectiveOptions o = Options();
  o.target_size = 12 + Size(fixture_, Doubles(), false);
  EXPECT_FALSE(
      Apply(v1::ObjectiveSpec::PARETO, o, {9, o.target_loss + 1e-9}, v1::LATE)
          .on_size);
}

TEST_F(ObjectiveTest, PrunedLayerHasNoSizeAndNoPenalty) {
  for (int i = 0; i < 5; ++i) fixture_.Bond(0, 1)[i] = 0;
  ObjectiveOptions o = Options();
  o.beta = 0;
  const ObjectiveStep step =
      Apply(v1::ObjectiveSpec::PARETO, o, {9, 9}, v1::EARLY);
  EXPECT_DOUBLE_EQ(step.size, 12 + Size(fixture_, Doubles(), false));
  ExpectGradient(1, [&](const std::vector<double>& p) {
    return o.gamma * Size(fixture_, p, true) / o.initial_size;
  });
}

TEST_F(ObjectiveTest, ReferenceEarly) {
  fixture_.Bond(1, 1)[0] = 0.001f;
  const ObjectiveStep step =
      Apply(v1::ObjectiveSpec::REFERENCE, Options(), {9, 9}, v1::EARLY);
  EXPECT_EQ(step.loss_factor, 1);
  ExpectGradient(1, [&](const std::vector<double>& p) {
    return 0.01 * MeanAlive(fixture_, p);
  });
}

TEST_F(ObjectiveTest, ReferenceLateBothBranches) {
  // (L - L0) / L < (S - S0) / S takes the size; the smoothed loss has no say.
  const ObjectiveOptions o = Options();
  const double size = 12 + Size(fixture_, Doubles(), false);
  const double excess = (size - o.target_size) / size;
  const double even = o.target_loss / (1 - excess);

  ObjectiveStep step =
      Apply(v1::ObjectiveSpec::REFERENCE, o, {even * 0.99, 99}, v1::LATE);
  EXPECT_TRUE(step.on_size);
  ExpectGradient(0.1, [&](const std::vector<double>& p) {
    return 1.01 * MeanAlive(fixture_, p);
  });

  step = Apply(v1::ObjectiveSpec::REFERENCE, o, {even * 1.01, 0}, v1::LATE);
  EXPECT_FALSE(step.on_size);
  ExpectGradient(1.1, [&](const std::vector<double>& p) {
    return 0.01 * MeanAlive(fixture_, p);
  });
}

TEST_F(ObjectiveTest, WithoutTensorisedLayersOnlyTheLossCounts) {
  Fixture dense;
  dense.layers.clear();
  dense.layout = ParameterLayout();
  dense.layout.Add("w", {2, 2}, ParameterKind::kDense, false);
  dense.parameters = {1, 2, 3, 4};
  dense.loss_gradient = {4, 8, -4, 0};
  fixture_ = dense;
  for (auto kind : {v1::ObjectiveSpec::PARETO, v1::ObjectiveSpec::REFERENCE}) {
    const ObjectiveStep step = Apply(kind, Options(), {1, 1}, v1::EARLY);
    EXPECT_EQ(step.size, 12);
    EXPECT_THAT(gradients_, ::testing::ElementsAre(1, 2, -1, 0));
  }
}

TEST_F(ObjectiveTest, UnknownKindAndBrokenLayersAreRefused) {
  EXPECT_THAT(CreateObjective(v1::ObjectiveSpec::KIND_UNSPECIFIED, Options(),
                              fixture_.layers, fixture_.layout, backend_.get()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  fixture_.layers[0].bonds.pop_back();
  EXPECT_THAT(CreateObjective(v1::ObjectiveSpec::PARETO, Options(),
                              fixture_.layers, fixture_.layout, backend_.get()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::trainer
