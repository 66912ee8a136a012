// Tests embeddings against the dense table.
#include "worker/trainer/model/embedding/ttm_embedding.h"

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/layer_harness.h"

namespace comera::trainer {
namespace {

constexpr float kThreshold = 0.01f;

// Entry (row, column) of the table by the definition, in double.
double Entry(const ModelLayout& layout, const std::vector<double>& p,
             const Factorisation& f, int64_t row, int64_t column) {
  const TensorisedLayer& layer = layout.layers[0];
  const int order = static_cast<int>(f.input_modes.size());
  std::vector<int64_t> i(order), j(order);
  for (int k = order - 1; k >= 0; --k) {
    i[k] = row % f.input_modes[k];
    row /= f.input_modes[k];
    j[k] = column % f.output_modes[k];
    column /= f.output_modes[k];
  }
  std::vector<double> state = {1};
  for (int k = 0; k < order; ++k) {
    const int64_t left = layer.ranks[k], right = layer.ranks[k + 1];
    const double* core = p.data() + layout.parameters[layer.cores[k]].offset;
    std::vector<double> next(right);
    for (int64_t r = 0; r < right; ++r) {
      for (int64_t l = 0; l < left; ++l) {
        const int64_t slice =
            (l * f.input_modes[k] + i[k]) * f.output_modes[k] + j[k];
        next[r] += state[l] * core[slice * right + r];
      }
      if (k + 1 == order) continue;
      const double d = p[layout.parameters[layer.bonds[k]].offset + r];
      next[r] *= d > kThreshold ? d : 0;
    }
    state = next;
  }
  return state[0];
}

class TtmEmbeddingTest : public ::testing::TestWithParam<Factorisation> {};

TEST_P(TtmEmbeddingTest, RowsAndGradientsFollowTheDefinition) {
  const Factorisation& f = GetParam();
  int64_t rows = 1, width = 1;
  for (int64_t mode : f.input_modes) rows *= mode;
  for (int64_t mode : f.output_modes) width *= mode;
  const auto layer = LayerHarness::ForEmbedding(rows, width, f, kThreshold, 4);
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  for (float& v : layer->parameters()) v = normal(random);
  for (int bond : layer->layout().layers[0].bonds) {
    const Parameter& d = layer->layout().parameters[bond];
    for (int64_t i = 0; i < d.size; ++i) {
      layer->parameters()[d.offset + i] =
          i % 3 == 1 ? 0.005f : 0.75f + 0.25f * i;
    }
  }
  const std::vector<int32_t> ids = {0, 1, 3, static_cast<int32_t>(rows) - 1};
  std::vector<float> out(ids.size() * width), grad(out.size());
  for (float& v : grad) v = normal(random);
  const Step step = layer->step();
  ASSERT_OK(layer->embedding().SetIds(ids));
  ASSERT_OK(layer->embedding().Forward(step, {out.data(), 4, width}));
  ASSERT_OK(layer->embedding().Backward(step, {grad.data(), 4, width}));

  std::vector<double> p(layer->parameters().begin(), layer->parameters().end());
  const auto loss = [&] {
    double sum = 0;
    for (size_t r = 0; r < ids.size(); ++r) {
      for (int64_t c = 0; c < width; ++c) {
        sum += grad[r * width + c] * Entry(layer->layout(), p, f, ids[r], c);
      }
    }
    return sum;
  };
  for (size_t r = 0; r < ids.size(); ++r) {
    for (int64_t c = 0; c < width; ++c) {
      ASSERT_NEAR(out[r * width + c], Entry(layer->layout(), p, f, ids[r], c),
                  1e-4);
    }
  }
  for (const Parameter& parameter : layer->layout().parameters.parameters()) {
    const bool rank = parameter.kind == ParameterKind::kRank;
    const double h = rank ? 1e-4 : 1;
    for (int64_t i = 0; i < parameter.size; ++i) {
      double& value = p[parameter.offset + i];
      const double before = value;
      double expected = 0;
      if (!rank || before > kThreshold) {
        value = before + h;
        const double up = loss();
        value = before - h;
        expected = (up - loss()) / (2 * h);
        value = before;
      }
      ASSERT_NEAR(layer->gradients()[parameter.offset + i], expected,
                  1e-4 * (1 + std::fabs(expected)))
          << parameter.name << "[" << i << "]";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, TtmEmbeddingTest,
    ::testing::Values(Factorisation{{2, 3}, {3, 2}, {4}},
                      Factorisation{{3, 2, 2}, {2, 1, 3}, {3, 4}},
                      Factorisation{{2, 2, 3, 2}, {2, 2, 1, 2}, {2, 5, 3}}));

TEST(PrunedTtmEmbeddingTest, EveryRowIsZero) {
  const auto layer =
      LayerHarness::ForEmbedding(6, 4, {{2, 3}, {2, 2}, {0}}, kThreshold, 2);
  const std::vector<int32_t> ids = {0, 5};
  std::vector<float> out(8, 3);
  const Step step = layer->step();
  ASSERT_OK(layer->embedding().SetIds(ids));
  ASSERT_OK(layer->embedding().Forward(step, {out.data(), 2, 4}));
  EXPECT_EQ(out, std::vector<float>(8, 0));
  EXPECT_OK(layer->embedding().Backward(step, {out.data(), 2, 4}));
}

TEST(DenseEmbeddingTest, LooksRowsUp) {
  const auto layer = LayerHarness::ForEmbedding(3, 2, {}, kThreshold, 2);
  layer->parameters() = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> ids = {0, 2};
  std::vector<float> out(4);
  const Step step = layer->step();
  ASSERT_OK(layer->embedding().SetIds(ids));
  ASSERT_OK(layer->embedding().Forward(step, {out.data(), 2, 2}));
  EXPECT_EQ(out, (std::vector<float>{1, 2, 5, 6}));
  ASSERT_OK(layer->embedding().Backward(step, {out.data(), 2, 2}));
  EXPECT_EQ(layer->gradients(), (std::vector<float>{1, 2, 0, 0, 5, 6}));
}

TEST(EmbeddingIdsTest, RefusesWhatWasNotPlanned) {
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument);
  for (const Factorisation& f :
       {Factorisation{}, Factorisation{{2, 3}, {2, 2}, {3}}}) {
    const auto layer = LayerHarness::ForEmbedding(6, 4, f, kThreshold, 3);
    using Ids = std::vector<int32_t>;
    for (const Ids& ids :
         {Ids{6}, Ids{-1, 2}, Ids{2, 2}, Ids{3, 1}, Ids{0, 1, 2, 3}}) {
      EXPECT_THAT(layer->embedding().SetIds(ids), refused);
    }
    EXPECT_OK(layer->embedding().SetIds(Ids{1, 2, 5}));
    EXPECT_OK(layer->embedding().SetIds(Ids{}));
  }
}

}  // namespace
}  // namespace comera::trainer
