// Tests sums over bags against the dense table.
#include "worker/trainer/model/embedding/embedding_bag.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/lookup.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

using kernels::reference::DoubleMatrix;
using Floats = std::vector<float>;
using Ids = std::vector<int32_t>;

constexpr int64_t kVocabulary = 55;
constexpr int64_t kWidth = 12;

// One table with its memory. Parameters are random, rank entries 1.
class Table {
 public:
  Table(const Factorisation& f, int threads, int64_t max_ids, int64_t max_bags)
      : f_(f),
        backend_(kernels::CreateCpuBackend({threads, 0})),
        memory_(backend_.get(), /*stages=*/1) {
    config_.vocabulary = kVocabulary;
    config_.hidden = kWidth;
    config_.layers_by_name["embedding"] = f;
    AddLayer(FactorisableLayers(config_)[0], f, &layout_);
    plan_.backend = backend_.get();
    plan_.memory = &memory_;
    plan_ = plan_.AtStage(0);
    plan_.config = &config_;
    plan_.layout = &layout_;
    bag_ =
        std::make_unique<EmbeddingBag>(plan_, "embedding", max_ids, max_bags);
    committed_ = memory_.Commit();
    std::mt19937 random(3);
    parameters_.resize(layout_.parameters.size());
    gradients_.resize(parameters_.size());
    for (const Parameter& p : layout_.parameters.parameters()) {
      for (int64_t i = 0; i < p.size; ++i) {
        parameters_[p.offset + i] =
            p.kind == ParameterKind::kRank ? 1.0f : random() * 0x1p-31f - 1;
      }
    }
  }

  EmbeddingBag& bag() { return *bag_; }
  Floats& gradients() { return gradients_; }
  const ModelLayout& layout() const { return layout_; }
  const absl::Status& committed() const { return committed_; }
  Step step() {
    Step step;
    step.parameters = parameters_.data();
    step.gradients = gradients_.data();
    step.train = true;
    return step;
  }

  // Cores, or the table itself, in double.
  std::vector<DoubleMatrix> Exact() const {
    std::vector<DoubleMatrix> exact;
    for (const Parameter& p : layout_.parameters.parameters()) {
      if (p.kind == ParameterKind::kRank) continue;
      exact.emplace_back(1, p.size);
      std::copy_n(parameters_.begin() + p.offset, p.size,
                  exact.back().values.begin());
    }
    return exact;
  }
  DoubleMatrix Dense(const std::vector<DoubleMatrix>& exact) const {
    if (!f_.dense()) {
      return kernels::reference::DenseMatrix(
          kernels::TtmShape{f_.input_modes, f_.output_modes, f_.ranks}, exact);
    }
    DoubleMatrix table(kVocabulary, kWidth);
    table.values = exact[0].values;
    return table;
  }

  absl::Status Run(const Ids& ids, const Ids& offsets, const Floats& grad,
                   Floats* out) {
    RETURN_IF_ERROR(bag_->SetBatch(ids, offsets));
    const int64_t bags = bag_->bags();
    out->assign(bags * kWidth, std::nanf(""));
    std::fill(gradients_.begin(), gradients_.end(), 0.0f);
    RETURN_IF_ERROR(bag_->Forward(step(), {out->data(), bags, kWidth}));
    return bag_->Backward(step(), {grad.data(), bags, kWidth});
  }

 private:
  const Factorisation f_;
  const std::unique_ptr<kernels::Backend> backend_;
  ModelConfig config_;
  ModelLayout layout_;
  StepMemory memory_;
  Plan plan_;
  std::unique_ptr<EmbeddingBag> bag_;
  absl::Status committed_;
  Floats parameters_, gradients_;
};

DoubleMatrix Sums(const DoubleMatrix& table, const Ids& ids,
                  const Ids& offsets) {
  DoubleMatrix out(static_cast<int64_t>(offsets.size()) - 1, table.cols);
  for (int64_t b = 0; b < out.rows; ++b) {
    for (int32_t i = offsets[b]; i < offsets[b + 1]; ++i) {
      for (int64_t c = 0; c < table.cols; ++c) {
        out.at(b, c) += table.at(ids[i], c);
      }
    }
  }
  return out;
}

Floats RandomFloats(int64_t count) {
  std::mt19937 random(5);
  Floats values(count);
  for (float& value : values) value = random() * 0x1p-31f - 1;
  return values;
}

class EmbeddingBagTest : public ::testing::TestWithParam<Factorisation> {
 protected:
  // Sums and gradients against the explicit table; the loss is linear in every
  // single entry, so that central differences are exact but for rounding.
  void Check(const Ids& ids, const Ids& offsets) {
    Table table(GetParam(), 2, 64, 16);
    ASSERT_OK(table.committed());
    const int64_t bags = static_cast<int64_t>(offsets.size()) - 1;
    const Floats grad = RandomFloats(bags * kWidth);
    Floats out;
    ASSERT_OK(table.Run(ids, offsets, grad, &out));
    std::vector<DoubleMatrix> exact = table.Exact();
    const DoubleMatrix sums = Sums(table.Dense(exact), ids, offsets);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], sums[i], 1e-4) << i;
    }
    const auto loss = [&] {
      const DoubleMatrix now = Sums(table.Dense(exact), ids, offsets);
      double sum = 0;
      for (size_t i = 0; i < grad.size(); ++i) sum += grad[i] * now[i];
      return sum;
    };
    size_t k = 0;
    for (const Parameter& p : table.layout().parameters.parameters()) {
      if (p.kind == ParameterKind::kRank) continue;
      for (int64_t i = 0; i < p.size; ++i) {
        double& value = exact[k][i];
        value += 0.5;
        const double above = loss();
        value -= 1;
        const double expected = above - loss();
        value += 0.5;
        ASSERT_NEAR(table.gradients()[p.offset + i], expected,
                    1e-4 * (1 + std::fabs(expected)))
            << p.name << "[" << i << "]";
      }
      ++k;
    }
  }
};

TEST_P(EmbeddingBagTest, SumsAndGradients) {
  Check({3, 54, 3, 0, 17, 3, 54, 20}, {0, 2, 3, 7, 8});
}
TEST_P(EmbeddingBagTest, EmptyBags) { Check({9, 9, 1}, {0, 0, 2, 2, 2, 3, 3}); }
TEST_P(EmbeddingBagTest, OneRow) { Check({54}, {0, 1}); }
TEST_P(EmbeddingBagTest, NothingButEmptyBags) { Check({}, {0, 0, 0}); }
TEST_P(EmbeddingBagTest, NoBags) { Check({}, {0}); }

TEST_P(EmbeddingBagTest, OneIdPerBagNeedsNoOffsets) {
  Table table(GetParam(), 1, 4, 4);
  ASSERT_OK(table.committed());
  const Ids ids = {5, 2, 5, 54};
  const Floats grad = RandomFloats(4 * kWidth);
  Floats with, without(4 * kWidth);
  ASSERT_OK(table.Run(ids, {0, 1, 2, 3, 4}, grad, &with));
  ASSERT_OK(table.bag().SetBatch(ids));
  ASSERT_OK(table.bag().Forward(table.step(), {without.data(), 4, kWidth}));
  EXPECT_EQ(with, without);
}

TEST_P(EmbeddingBagTest, BitsDoNotDependOnThreads) {
  std::mt19937 random(8);
  Ids ids(4000), offsets = {0};
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % kVocabulary);
  while (offsets.back() < 4000) {
    offsets.push_back(std::min<int32_t>(4000, offsets.back() + random() % 5));
  }
  const int64_t bags = static_cast<int64_t>(offsets.size()) - 1;
  const Floats grad = RandomFloats(bags * kWidth);
  Floats first_out, first_gradients;
  for (int threads : {1, 2, 3}) {
    Table table(GetParam(), threads, 4000, bags);
    ASSERT_OK(table.committed());
    Floats out;
    ASSERT_OK(table.Run(ids, offsets, grad, &out));
    if (threads == 1) {
      first_out = out;
      first_gradients = table.gradients();
    }
    EXPECT_EQ(out, first_out) << threads;
    EXPECT_EQ(table.gradients(), first_gradients) << threads;
  }
}

TEST_P(EmbeddingBagTest, RefusesWhatWasNotPlannedOrDoesNotFit) {
  Table table(GetParam(), 1, 4, 2);
  ASSERT_OK(table.committed());
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument);
  EmbeddingBag& bag = table.bag();
  EXPECT_THAT(bag.SetBatch(Ids{kVocabulary}, Ids{0, 1}), refused);
  EXPECT_THAT(bag.SetBatch(Ids{-1}, Ids{0, 1}), refused);
  EXPECT_THAT(bag.SetBatch(Ids{1, 2, 3, 4, 5}, Ids{0, 5}), refused);
  EXPECT_THAT(bag.SetBatch(Ids{1, 2, 3}), refused);
  EXPECT_THAT(bag.SetBatch(Ids{1, 2, 3, 4, 5}), refused);
  EXPECT_THAT(bag.SetBatch(Ids{1, 2, 3}, Ids{0, 1, 2, 3}), refused);
  EXPECT_THAT(bag.SetBatch(Ids{1}, Ids{}), refused);
  EXPECT_THAT(bag.SetBatch(Ids{1, 2}, Ids{0, 1}), refused);
  EXPECT_THAT(bag.SetBatch(Ids{1, 2}, Ids{1, 2}), refused);
  EXPECT_THAT(bag.SetBatch(Ids{1, 2}, Ids{0, 3, 2}), refused);
  EXPECT_OK(bag.SetBatch(Ids{1, 2}, Ids{0, 2, 2}));
}

INSTANTIATE_TEST_SUITE_P(
    Forms, EmbeddingBagTest,
    ::testing::Values(Factorisation{}, Factorisation{{8, 7}, {3, 4}, {5}},
                      Factorisation{{4, 3, 5}, {2, 3, 2}, {4, 3}},
                      Factorisation{{3, 2, 5, 2}, {2, 1, 3, 2}, {3, 4, 2}}));

TEST(PrunedEmbeddingBagTest, EverySumIsZero) {
  Table table({{8, 7}, {3, 4}, {0}}, 1, 4, 4);
  ASSERT_OK(table.committed());
  Floats out;
  ASSERT_OK(table.Run({1, 5}, {0, 1, 2}, RandomFloats(2 * kWidth), &out));
  EXPECT_EQ(out, Floats(2 * kWidth, 0));
}

}  // namespace
}  // namespace comera::trainer
