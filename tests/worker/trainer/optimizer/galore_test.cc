// GaLore against its formulas, in double and plain loops.
#include "worker/trainer/optimizer/galore.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/optimizer/double_adam.h"
#include "tests/worker/trainer/optimizer/double_eigen.h"

namespace comera::trainer {
namespace {

// An epsilon large enough for its place to matter.
constexpr double kRate = 0.05, kDecay = 0.1, kScale = 0.25, kEpsilon = 1e-2;
constexpr int kRefresh = 3;

// Projected ones (wide, tall, and longer than a block) among whole ones.
ParameterLayout Layout() {
  ParameterLayout layout;
  const auto dense = ParameterKind::kDense;
  layout.Add("table", {3, 2}, dense, false);
  layout.Add("wide", {4, 7}, dense, false, /*projection_rank=*/2);
  layout.Add("bias", {7}, dense, false);
  layout.Add("other_bias", {3}, dense, false);
  layout.Add("tall", {6, 5}, dense, false, /*projection_rank=*/3);
  layout.Add("long", {2, 1500}, dense, false, /*projection_rank=*/1);
  layout.Add("square", {4, 4}, dense, false, /*projection_rank=*/2);
  layout.Add("last", {2, 2}, dense, true);
  return layout;
}

GaloreOptions Options() {
  GaloreOptions options;
  options.adamw.learning_rate_other = kRate;
  options.adamw.weight_decay = kDecay;
  options.adamw.epsilon = kEpsilon;
  options.adamw.clip_norm = 0;
  options.refresh_every_steps = kRefresh;
  options.scale = kScale;
  return options;
}

using Values = std::vector<double>;

// One step of one projected W (m, n), from the definition.
struct ProjectedReference {
  DoubleAdam adam{0.9, 0.999, kEpsilon, {}, {}, /*epsilon_is_raw=*/true};
  std::vector<Values> p;  // vectors

  void Step(int t, double rate, int64_t m, int64_t n, int64_t r,
            const Values& g, double* w) {
    if ((t - 1) % kRefresh == 0) {
      p = DoubleSingularVectors(g, m, n);
      p.resize(r);
    }
    const bool wide = m <= n;
    const int64_t length = std::max(m, n);
    // R = P^T G (r, n), or G P (m, r) kept as its transpose.
    Values projected(r * length);
    for (int64_t k = 0; k < r; ++k) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          projected[k * length + (wide ? j : i)] +=
              p[k][wide ? i : j] * g[i * n + j];
        }
      }
    }
    const Values direction = adam.Direction(projected, t);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double update = 0;
        for (int64_t k = 0; k < r; ++k) {
          update += p[k][wide ? i : j] * direction[k * length + (wide ? j : i)];
        }
        w[i * n + j] -= rate * kScale * update;
        w[i * n + j] -= rate * kDecay * w[i * n + j];
      }
    }
  }
};

class GaloreTest : public ::testing::Test {
 protected:
  GaloreTest() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    parameters_.resize(layout_.size());
    for (float& v : parameters_) v = normal(random);
    first_.resize(layout_.moments_size());
    second_.resize(layout_.moments_size());
    projectors_.resize(layout_.projectors_size());
  }

  std::vector<float> Gradient(uint32_t seed) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> gradient(layout_.size());
    for (float& v : gradient) v = normal(random);
    return gradient;
  }

  OptimizerState State() {
    const auto view = [](std::vector<float>& v) {
      return kernels::Vector(v.data(), static_cast<int64_t>(v.size()));
    };
    return {view(first_), view(second_), view(projectors_)};
  }

  absl::StatusOr<double> Step(Optimizer& optimizer, int t, double scale,
                              const std::vector<float>& gradient) {
    return optimizer.Step(
        t, scale, {parameters_.data(), layout_.size()},
        {gradient.data(), static_cast<int64_t>(gradient.size())}, State());
  }

  const ParameterLayout layout_ = Layout();
  const std::unique_ptr<kernels::Backend> backend_ =
      kernels::CreateCpuBackend({/*threads=*/1});
  std::vector<float> parameters_, first_, second_, projectors_;
};

TEST_F(GaloreTest, StateIsAsSmallAsThePaperSays) {
  // Two moments of (long side, r) and a projector (short side, r) each.
  const int64_t whole = 3 * 2 + 7 + 3 + 2 * 2;
  EXPECT_EQ(layout_.moments_size(), whole + 7 * 2 + 6 * 3 + 1500 + 4 * 2);
  EXPECT_EQ(layout_.projectors_size(), 4 * 2 + 5 * 3 + 2 + 4 * 2);
  EXPECT_EQ(OptimizerStateBytes(layout_),
            4 * (2 * layout_.moments_size() + layout_.projectors_size()));
}

TEST_F(GaloreTest, FollowsTheFormulasOverRefreshes) {
  ASSERT_OK_AND_ASSIGN(auto galore,
                       Galore::Create(Options(), layout_, backend_.get()));
  std::vector<double> want(parameters_.begin(), parameters_.end());
  std::map<std::string, ProjectedReference> projected;
  std::map<std::string, DoubleAdam> whole;
  for (int t = 1; t <= 8; ++t) {
    const double scale = t < 4 ? 1 : 0.5;
    const std::vector<float> gradient = Gradient(100 + t);
    ASSERT_OK(Step(*galore, t, scale, gradient));
    for (const Parameter& p : layout_.parameters()) {
      const Values g(gradient.begin() + p.offset,
                     gradient.begin() + p.offset + p.size);
      double* w = want.data() + p.offset;
      if (p.projection_rank > 0) {
        projected[p.name].Step(t, scale * kRate, p.shape[0], p.shape[1],
                               p.projection_rank, g, w);
      } else {
        whole[p.name].epsilon = kEpsilon;
        whole[p.name].epsilon_is_raw = true;
        const Values direction = whole[p.name].Direction(g, t);
        const double decay = p.shape.size() == 2 ? kDecay : 0;
        for (int64_t i = 0; i < p.size; ++i) {
          w[i] -= scale * kRate * direction[i];
          w[i] -= scale * kRate * decay * w[i];
        }
      }
      for (int64_t i = 0; i < p.size; ++i) {
        ASSERT_NEAR(parameters_[p.offset + i], w[i], 2e-5)
            << "step " << t << ", " << p.name << "[" << i << "]";
      }
    }
  }
}

TEST_F(GaloreTest, ClipsTheGradientAsAWhole) {
  const std::vector<float> gradient = Gradient(1);
  double squares = 0;
  for (float g : gradient) squares += double{g} * g;
  GaloreOptions options = Options();
  options.adamw.clip_norm = std::sqrt(squares) / 4;
  ASSERT_OK_AND_ASSIGN(auto clipped,
                       Galore::Create(options, layout_, backend_.get()));
  ASSERT_OK_AND_ASSIGN(const double norm, Step(*clipped, 1, 1, gradient));
  EXPECT_NEAR(norm, std::sqrt(squares), 1e-3);
  const std::vector<float> small = first_;
  std::fill(first_.begin(), first_.end(), 0.0f);
  ASSERT_OK_AND_ASSIGN(auto whole,
                       Galore::Create(Options(), layout_, backend_.get()));
  ASSERT_OK(Step(*whole, 1, 1, gradient));
  for (size_t i = 0; i < first_.size(); ++i) {
    ASSERT_NEAR(4 * small[i], first_[i], 1e-5) << i;
  }
}

TEST_F(GaloreTest, BlocksMakeTheStepOfAll) {
  ASSERT_OK_AND_ASSIGN(auto whole,
                       Galore::Create(Options(), layout_, backend_.get()));
  ASSERT_OK_AND_ASSIGN(auto blocks,
                       Galore::Create(Options(), layout_, backend_.get()));
  const std::vector<float> start = parameters_;
  for (int t = 1; t <= 5; ++t) ASSERT_OK(Step(*whole, t, 0.5, Gradient(t)));
  const std::vector<std::vector<float>> want = {parameters_, first_, second_,
                                                projectors_};
  parameters_ = start;
  for (auto* state : {&first_, &second_, &projectors_}) {
    std::fill(state->begin(), state->end(), 0.0f);
  }
  for (int t = 1; t <= 5; ++t) {
    const std::vector<float> gradient = Gradient(t);
    double squares = 0;
    // The last parameters first; "bias" and "other_bias", which are updated
    // together in a whole step, lie in two blocks.
    for (const auto& [first, last] :
         {std::pair(5, 7), std::pair(3, 4), std::pair(0, 2)}) {
      ParameterRange block;
      block.first = layout_[first].offset;
      block.size = layout_[last].offset + layout_[last].size - block.first;
      const std::vector<float> own(gradient.begin() + block.first,
                                   gradient.begin() + block.first + block.size);
      ASSERT_OK_AND_ASSIGN(
          const double norm,
          blocks->StepBlock(t, 0.5, block, {parameters_.data(), layout_.size()},
                            {own.data(), block.size}, State()));
      squares += norm * norm;
    }
    double expected = 0;
    for (float g : gradient) expected += double{g} * g;
    EXPECT_NEAR(squares, expected, 1e-4 * expected);
  }
  const std::vector<std::vector<float>> got = {parameters_, first_, second_,
                                               projectors_};
  for (size_t part = 0; part < want.size(); ++part) {
    for (size_t i = 0; i < want[part].size(); ++i) {
      ASSERT_NEAR(got[part][i], want[part][i], 1e-6) << part << ", " << i;
    }
  }
}

TEST_F(GaloreTest, RefusesBlocksThatCannotStepAlone) {
  const std::vector<float> gradient = Gradient(1);
  const auto step = [&](const GaloreOptions& options, ParameterRange block,
                        int64_t size) {
    auto galore = Galore::Create(options, layout_, backend_.get());
    return (*galore)
        ->StepBlock(1, 1, block, {parameters_.data(), layout_.size()},
                    {gradient.data(), size}, State())
        .status();
  };
  const std::vector<float> before = parameters_;
  const ParameterRange wide{layout_[1].offset, layout_[1].size};
  GaloreOptions clipped = Options();
  clipped.adamw.clip_norm = 1;
  EXPECT_THAT(step(clipped, wide, wide.size),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(step(Options(), wide, wide.size - 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const ParameterRange cut{wide.first, wide.size + 1};
  EXPECT_THAT(step(Options(), cut, cut.size),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(parameters_, before);
}

TEST_F(GaloreTest, GradientThatIsNotFiniteChangesNothing) {
  ASSERT_OK_AND_ASSIGN(auto galore,
                       Galore::Create(Options(), layout_, backend_.get()));
  std::vector<float> gradient = Gradient(1);
  gradient[20] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> before = parameters_;
  ASSERT_OK_AND_ASSIGN(const double norm, Step(*galore, 1, 1, gradient));
  EXPECT_FALSE(std::isfinite(norm));
  EXPECT_EQ(parameters_, before);
}

TEST_F(GaloreTest, Refusals) {
  ASSERT_OK_AND_ASSIGN(auto galore,
                       Galore::Create(Options(), layout_, backend_.get()));
  std::vector<float> gradient = Gradient(1);
  gradient.pop_back();
  EXPECT_THAT(Step(*galore, 1, 1, gradient),
              StatusIs(absl::StatusCode::kInvalidArgument));
  GaloreOptions options = Options();
  options.refresh_every_steps = 0;
  EXPECT_THAT(Galore::Create(options, layout_, backend_.get()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::trainer
