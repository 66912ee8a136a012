// Tests the DLRM against its definition.
#include "worker/trainer/model/dlrm/dlrm_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/model/config/config_json.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/plan/compaction.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

Batch PartOf(const Batch& batch, int64_t first, int64_t count) {
  Batch part;
  part.size = count;
  part.length = 1;
  part.first_sample = first;
  const auto copy = [](const auto& from, int64_t begin, int64_t size,
                       auto* to) {
    to->insert(to->end(), from.begin() + begin, from.begin() + begin + size);
  };
  const int64_t features =
      static_cast<int64_t>(batch.dense.size()) / batch.size;
  copy(batch.labels, first, count, &part.labels);
  copy(batch.dense, first * features, count * features, &part.dense);
  const int64_t ids = static_cast<int64_t>(batch.categories.size());
  for (int64_t t = 0; t < ids / batch.size; ++t) {
    copy(batch.categories, t * batch.size + first, count, &part.categories);
  }
  return part;
}

// Larger weights than at the start of training, so that interactions count;
// hidden units mostly on, away from where a ReLU has no derivative.
void Enlarge(TestModel* m) {
  m->SpreadRanks();
  for (const Parameter& p : m->model->layout().parameters()) {
    const bool table = p.name.find("tables") != std::string::npos;
    const bool core = p.kind == ParameterKind::kCore;
    const float factor = table ? (core ? 4.0f : 12.0f) : (core ? 1.7f : 1.0f);
    if (p.kind == ParameterKind::kRank) continue;
    for (int64_t i = 0; i < p.size; ++i) {
      float& value = m->parameters[p.offset + i];
      value *= factor;
      if (p.name.find(".bias") != std::string::npos) {
        value = 0.5f + std::fabs(value);
      }
    }
  }
}

// In double from the logits, as float's sums would hide small differences.
double PreciseLoss(TestModel* m, const Batch& batch) {
  const std::vector<float> logits = m->Logits(batch);
  double loss = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double x = logits[i];
    loss += std::log1p(std::exp(batch.labels[i] == 1 ? -x : x));
  }
  return loss;
}

class DlrmModelTest : public ::testing::TestWithParam<bool> {
 protected:
  ModelConfig Config() const { return SmallDlrm(/*dense=*/GetParam()); }
};

TEST_P(DlrmModelTest, GradientsAgreeWithFiniteDifferences) {
  TestModel m(Config(), 16);
  Enlarge(&m);
  const Batch batch = RandomClicks(m.config, 16, 1);
  EXPECT_NEAR(m.Gradient(batch), PreciseLoss(&m, batch), 1e-4);
  const std::vector<float> parameters = m.parameters;
  int compared = 0;
  for (const Parameter& p : m.model->layout().parameters()) {
    double norm = 0;
    for (int64_t i = 0; i < p.size; ++i) {
      norm += std::pow(double{m.gradients[p.offset + i]}, 2);
    }
    norm = std::sqrt(norm);
    ASSERT_GT(norm, 1e-4) << p.name;
    double best = 1;
    for (double h : {3e-4, 1e-3, 4e-3, 1.5e-2}) {
      const auto at = [&](double sign) {
        for (int64_t i = 0; i < p.size; ++i) {
          const int64_t e = p.offset + i;
          m.parameters[e] = static_cast<float>(
              parameters[e] + sign * h * m.gradients[e] / norm);
        }
        return PreciseLoss(&m, batch);
      };
      const double difference = (at(1) - at(-1)) / (2 * h);
      best = std::min(best, std::fabs(difference - norm) / norm);
    }
    m.parameters = parameters;
    EXPECT_LT(best, 2e-2) << p.name << ", norm " << norm;
    ++compared;
  }
  EXPECT_GE(compared, 16);
}

TEST_P(DlrmModelTest, HalvesAddUpToTheWhole) {
  TestModel whole(Config(), 8), halves(Config(), 4);
  const Batch batch = RandomClicks(whole.config, 8, 2);
  const double loss = whole.Gradient(batch);
  const double sum = halves.Gradient(PartOf(batch, 0, 4)) +
                     halves.Gradient(PartOf(batch, 4, 4));
  EXPECT_NEAR(sum, loss, 1e-5 * loss);
  for (size_t i = 0; i < whole.gradients.size(); ++i) {
    ASSERT_NEAR(halves.gradients[i], whole.gradients[i], 1e-5) << i;
  }
}

TEST_P(DlrmModelTest, SmallerBatchesThanPlannedRun) {
  TestModel large(Config(), 9), exact(Config(), 3);
  const Batch batch = RandomClicks(exact.config, 3, 4);
  large.Loss(RandomClicks(exact.config, 9, 5), true);
  EXPECT_EQ(large.Gradient(batch), exact.Gradient(batch));
  for (size_t i = 0; i < large.gradients.size(); ++i) {
    ASSERT_NEAR(large.gradients[i], exact.gradients[i], 1e-6) << i;
  }
}

// By hand from the dense parameters, in double.
TEST(DlrmTest, LogitIsTheFormulas) {
  TestModel m(SmallDlrm(/*dense=*/true), 2);
  Enlarge(&m);
  const Batch batch = RandomClicks(m.config, 2, 6);
  const auto at = [&](const std::string& name) {
    const ParameterLayout& layout = m.model->layout();
    return m.parameters.data() + layout[layout.Find("dlrm." + name)].offset;
  };
  const auto mlp = [&](const std::string& part, std::vector<double> x,
                       const std::vector<int64_t>& widths, bool relu_last) {
    for (size_t l = 0; l < widths.size(); ++l) {
      const std::string name = part + "." + std::to_string(l);
      std::vector<double> y(widths[l]);
      for (int64_t o = 0; o < widths[l]; ++o) {
        y[o] = at(name + ".bias")[o];
        for (size_t i = 0; i < x.size(); ++i) {
          y[o] += x[i] * at(name + ".weight")[i * widths[l] + o];
        }
        if (relu_last || l + 1 < widths.size()) y[o] = std::max(y[o], 0.0);
      }
      x = y;
    }
    return x;
  };
  const std::vector<float> logits = m.Logits(batch);
  ASSERT_EQ(logits.size(), 2u);
  for (int64_t s = 0; s < 2; ++s) {
    std::vector<std::vector<double>> vectors = {
        mlp("bottom",
            {batch.dense.begin() + 3 * s, batch.dense.begin() + 3 * s + 3},
            m.config.bottom_mlp, true)};
    for (int64_t t = 0; t < 4; ++t) {
      const float* row = at("tables." + std::to_string(t) + ".weight") +
                         4 * batch.categories[2 * t + s];
      vectors.emplace_back(row, row + 4);
    }
    std::vector<double> x = vectors[0];
    for (size_t i = 0; i < vectors.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        double product = 0;
        for (int k = 0; k < 4; ++k) product += vectors[i][k] * vectors[j][k];
        x.push_back(product);
      }
    }
    EXPECT_NEAR(logits[s], mlp("top", x, m.config.top_mlp, false)[0], 1e-4);
  }
}

TEST(DlrmTest, CompressesTheLargestTablesAndWideLayers) {
  const ModelConfig config = SmallDlrm();
  for (const auto& [key, want_dense] :
       std::vector<std::pair<std::string, bool>>{{"bottom.0", true},
                                                 {"bottom.1", false},
                                                 {"bottom.2", true},
                                                 {"tables.0", false},
                                                 {"tables.1", true},
                                                 {"tables.2", false},
                                                 {"tables.3", true},
                                                 {"top.0", false},
                                                 {"top.1", false},
                                                 {"top.2", true}}) {
    ASSERT_EQ(config.layers_by_name.count(key), 1u) << key;
    EXPECT_EQ(config.layers_by_name.at(key).dense(), want_dense) << key;
  }
  EXPECT_EQ(config.layers_by_name.size(), 10u);
  // 4 outputs, 5 vectors: 4 + 10 inputs of the top MLP.
  EXPECT_EQ(config.layers_by_name.at("top.0").input_modes,
            AutoModes(14, 3, false));
  const int64_t mlps = (3 * 12 + 12) + (12 * 6 + 6) + (6 * 4 + 4) +
                       (14 * 8 + 8) + (8 * 9 + 9) + (9 + 1);
  EXPECT_EQ(DenseParameterCount(config), 4 * (30 + 5 + 41 + 30) + mlps);
}

TEST(DlrmTest, NamesWhatIsImpossible) {
  const auto refused = [](ClickShape shape, v1::JobSpec spec,
                          const char* what) {
    EXPECT_THAT(MakeModelConfig(spec, shape),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  refused({0, {4}}, SmallDlrmSpec(false), "dense features");
  refused({3, {}}, SmallDlrmSpec(false), "tables");
  refused({3, {4, 0}}, SmallDlrmSpec(false), "table rows");
  v1::JobSpec spec = SmallDlrmSpec(false);
  spec.mutable_model()->mutable_dlrm()->set_top_mlp(2, 2);
  refused(SmallClickShape(), spec, "top_mlp");
  spec = SmallDlrmSpec(false);
  spec.mutable_model()->mutable_dlrm()->clear_bottom_mlp();
  refused(SmallClickShape(), spec, "bottom_mlp");
  spec = SmallDlrmSpec(false);
  spec.mutable_compression()->mutable_table()->set_output_modes(0, 3);
  refused(SmallClickShape(), spec, "tables.0");
}

TEST(DlrmTest, MalformedBatchesAreRefused) {
  TestModel m(SmallDlrm(), 3);
  const Batch good = RandomClicks(m.config, 3, 7);
  const auto refused = [&](auto damage) {
    Batch batch = good;
    damage(&batch);
    EXPECT_THAT(m.model->Forward(batch, m.parameters.data(), true, &m.state),
                StatusIs(absl::StatusCode::kInvalidArgument));
    // And there is nothing to go back from.
    EXPECT_THAT(m.model->Backward(m.parameters.data(), m.gradients.data()),
                StatusIs(absl::StatusCode::kFailedPrecondition));
  };
  refused([](Batch* b) { b->size = 0; });
  refused([](Batch* b) { b->size = 4; });
  refused([](Batch* b) { b->length = 2; });
  refused([](Batch* b) { b->labels[1] = 2; });
  refused([](Batch* b) { b->labels.pop_back(); });
  refused([](Batch* b) { b->dense.pop_back(); });
  refused([](Batch* b) { b->categories.push_back(0); });
  refused([](Batch* b) { b->categories[0] = 30; });
  refused([](Batch* b) { b->categories[4] = -1; });
  EXPECT_OK(m.model->Forward(good, m.parameters.data(), true, &m.state));
  EXPECT_THAT(CreateModel(m.config, 0, m.backend.get()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// Pruned entries and a pruned table: compaction and export change
// nothing that the model computes.
TEST(DlrmTest, CompactionAndExportKeepTheFunction) {
  TestModel m(SmallDlrm(), 4);
  Enlarge(&m);
  for (const Parameter& p : m.model->layout().parameters()) {
    if (p.kind != ParameterKind::kRank) continue;
    const bool pruned = p.name == "dlrm.tables.2.rank.0";
    std::fill_n(m.parameters.begin() + p.offset, pruned ? p.size : 1, 0.0f);
  }
  const Batch batch = RandomClicks(m.config, 4, 8);
  const std::vector<float> want = m.Logits(batch);

  const CompactionPlan plan = PlanCompaction(m.config, m.parameters.data());
  EXPECT_TRUE(plan.changed);
  EXPECT_EQ(plan.config.layers_by_name.at("tables.2").ranks,
            std::vector<int64_t>({0}));
  TestModel compact(plan.config, 4);
  CompactBuffer(plan, m.parameters.data(), compact.parameters.data());
  const std::vector<float> got = compact.Logits(batch);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4);

  const std::string folder = testing::TempDir() + "/dlrm_export";
  std::filesystem::remove_all(folder);
  ASSERT_OK(ExportModel(m.config, m.parameters.data(), {}, folder));
  ASSERT_OK_AND_ASSIGN(const ImportedModel imported, ImportModel(folder));
  EXPECT_EQ(imported.config.clicks.table_rows, m.config.clicks.table_rows);
  TestModel after(imported.config, 4);
  after.parameters = imported.parameters;
  const std::vector<float> again = after.Logits(batch);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(again[i], want[i], 1e-4);
  EXPECT_LT(CountedModelSize(m.model->layout(), m.model->tensorised_layers(),
                             m.parameters.data(), 1e-2f),
            DenseParameterCount(m.config));
}

TEST(DlrmTest, HostileConfigurationsAreRefused) {
  const auto refused = [](auto damage, const char* what) {
    nlohmann::json json = ModelConfigToJson(SmallDlrm());
    damage(json);
    EXPECT_THAT(ModelConfigFromJson(json),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(what)));
  };
  using Json = nlohmann::json;
  EXPECT_OK(ModelConfigFromJson(ModelConfigToJson(SmallDlrm())));
  refused([](Json& j) { j.erase("table_rows"); }, "table_rows");
  refused([](Json& j) { j["table_rows"] = Json::array(); }, "tables");
  refused([](Json& j) { j["table_rows"][0] = 1e9; }, "table_rows");
  refused([](Json& j) { j["table_rows"][0] = 1000000000; }, "table rows");
  refused([](Json& j) { j["table_rows"] = std::vector<int>(2000, 3); },
          "table_rows");
  refused([](Json& j) { j["bottom_mlp"][0] = 0; }, "bottom_mlp");
  refused([](Json& j) { j["top_mlp"] = {4, 2}; }, "top_mlp");
  refused([](Json& j) { j["dense_features"] = "3"; }, "dense_features");
  refused([](Json& j) { j["factorisation"].erase("tables.0"); }, "tables.0");
}

INSTANTIATE_TEST_SUITE_P(Forms, DlrmModelTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Dense" : "Compressed";
                         });

}  // namespace
}  // namespace comera::trainer
