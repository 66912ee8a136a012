// Tests predictions of small exported models.
#include "worker/trainer/predict/predictor.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/data/clicks/category_tables.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/tokenizer/wordpiece_tokenizer.h"
#include "worker/trainer/generate/generator.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

constexpr auto kClassifier = v1::ModelSpec::ENCODER_CLASSIFIER;
constexpr auto kMaskedLm = v1::ModelSpec::MASKED_LM;

// Thirty tokens; words are a, b, c, ...
std::string Vocabulary() {
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                     "[MASK]"};
  for (int i = 0; i < 25; ++i) tokens.push_back(std::string(1, 'a' + i));
  return absl::StrJoin(tokens, "\n") + "\n";
}

class PredictorTest : public ::testing::Test {
 protected:
  // A folder as training leaves it.
  std::unique_ptr<TestModel> Export(v1::ModelSpec::Family family) {
    ModelConfig config = family == v1::ModelSpec::CAUSAL_LM
                             ? SmallDecoder(v1::ModelSpec::LLAMA)
                             : SmallConfig(family);
    config.max_positions = config.length = 10;
    auto m = std::make_unique<TestModel>(config, 4);
    m->SpreadRanks();
    EXPECT_OK(ExportModel(config, m->parameters.data(), {}, folder_.path()));
    auto tokenizer = WordpieceTokenizer::Parse(Vocabulary(), "vocab.txt", true);
    EXPECT_OK(tokenizer);
    EXPECT_OK((*tokenizer)->Save(folder_.path()));
    InputFormat format;
    if (family == kClassifier) {
      format.labels = {"no", "maybe", "yes"};
      format.fields = {"one", "two"};
    }
    EXPECT_OK(SaveInputFormat(format, folder_.path()));
    return m;
  }

  std::unique_ptr<Predictor> Open(int64_t batch_size = 4) {
    Predictor::Options options;
    options.backend.threads = 1;
    options.batch_size = batch_size;
    auto predictor = Predictor::Open(folder_.path(), options);
    EXPECT_OK(predictor);
    return predictor.ok() ? *std::move(predictor) : nullptr;
  }

  static v1::PredictRow* AddText(const std::string& text,
                                 v1::PredictRequest* request) {
    v1::PredictRow* row = request->add_rows();
    row->set_text(text);
    return row;
  }

  TempFolder folder_;
};

TEST_F(PredictorTest, DescribesWhatTheModelTakes) {
  Export(kClassifier);
  const v1::ServedModel served = Open()->served();
  EXPECT_EQ(served.family(), "encoder_classifier");
  EXPECT_EQ(served.classes(), 3);
  EXPECT_EQ(served.labels(2), "yes");
  EXPECT_EQ(served.fields(1), "two");
  EXPECT_EQ(served.max_length(), 10);
  EXPECT_EQ(served.mask_token(), "");
}

// The logits of a row are those of the model for its tokens, whatever travels
// with it and whatever the batch.
TEST_F(PredictorTest, ClassifierLogitsAreTheModels) {
  const auto m = Export(kClassifier);
  Batch batch;
  batch.size = 1;
  batch.length = 10;
  // [CLS] a b [SEP] c [SEP]
  batch.ids = {2, 5, 6, 3, 7, 3, 0, 0, 0, 0};
  batch.segments = {0, 0, 0, 0, 1, 1, 0, 0, 0, 0};
  batch.mask = {1, 1, 1, 1, 1, 1, 0, 0, 0, 0};
  batch.label_rows = {0};
  batch.labels = {0};
  const std::vector<float> expected = m->Logits(batch);

  v1::PredictRequest request;
  request.set_logits(true);
  for (int i = 0; i < 11; ++i) {
    AddText(i % 2 == 0 ? "A b" : "d e f", &request)->set_text_pair("c");
  }
  for (int64_t size : {1, 4, 32}) {
    ASSERT_OK_AND_ASSIGN(const v1::PredictResponse response,
                         Open(size)->Predict(request));
    ASSERT_EQ(response.predictions_size(), 11);
    for (int i = 0; i < 11; i += 2) {
      const v1::Prediction& prediction = response.predictions(i);
      ASSERT_EQ(prediction.logits_size(), 3);
      double sum = 0;
      for (int c = 0; c < 3; ++c) {
        EXPECT_NEAR(prediction.logits(c), expected[c], 1e-5);
        sum += prediction.probabilities(c);
      }
      EXPECT_NEAR(sum, 1, 1e-6);
      const auto best = std::max_element(expected.begin(), expected.end());
      EXPECT_EQ(prediction.class_index(), best - expected.begin());
    }
  }
}

TEST_F(PredictorTest, LabelsGiveLosses) {
  Export(kClassifier);
  v1::PredictRequest request;
  AddText("a b", &request)->set_label("maybe");
  AddText("a b", &request)->set_label("perhaps");
  AddText("a b", &request);
  ASSERT_OK_AND_ASSIGN(const v1::PredictResponse response,
                       Open()->Predict(request));
  EXPECT_NEAR(response.predictions(0).loss(),
              -std::log(response.predictions(0).probabilities(1)), 1e-5);
  EXPECT_THAT(response.predictions(1).error(), HasSubstr("perhaps"));
  EXPECT_FALSE(response.predictions(2).has_loss());
  EXPECT_EQ(response.predictions(2).label(), response.predictions(0).label());
}

TEST_F(PredictorTest, LongTextsAreCutAndMarked) {
  Export(kClassifier);
  v1::PredictRequest request;
  AddText("a b c d e f g h", &request);    // fits: 8 + 2
  AddText("a b c d e f g h i", &request);  // does not
  AddText("a b c d", &request)->set_text_pair("a b c");
  AddText("a b c d", &request)->set_text_pair("a b c d");
  ASSERT_OK_AND_ASSIGN(const v1::PredictResponse response,
                       Open()->Predict(request));
  EXPECT_FALSE(response.predictions(0).truncated());
  EXPECT_TRUE(response.predictions(1).truncated());
  EXPECT_EQ(response.predictions(0).probabilities(0),
            response.predictions(1).probabilities(0));
  EXPECT_FALSE(response.predictions(2).truncated());
  EXPECT_TRUE(response.predictions(3).truncated());
}

TEST_F(PredictorTest, FillsMasks) {
  const auto m = Export(kMaskedLm);
  const auto predictor = Open();
  EXPECT_EQ(predictor->served().mask_token(), "[MASK]");
  v1::PredictRequest request;
  request.set_top_k(30);
  request.set_logits(true);
  AddText("a [MASK] c[MASK]", &request);
  AddText("a b", &request);
  ASSERT_OK_AND_ASSIGN(const v1::PredictResponse response,
                       predictor->Predict(request));
  const v1::Prediction& filled = response.predictions(0);
  ASSERT_EQ(filled.masks_size(), 2);
  EXPECT_EQ(filled.masks(0).position(), 2);
  EXPECT_EQ(filled.masks(1).position(), 4);
  ASSERT_EQ(filled.masks(0).choices_size(), 30);
  double sum = 0;
  for (int i = 0; i < 30; ++i) {
    const v1::TokenChoice& choice = filled.masks(0).choices(i);
    sum += choice.probability();
    if (i > 0) {
      EXPECT_LE(choice.probability(),
                filled.masks(0).choices(i - 1).probability());
    }
  }
  EXPECT_NEAR(sum, 1, 1e-5);

  Batch batch;
  batch.size = 1;
  batch.length = 10;
  batch.ids = {2, 5, 4, 7, 4, 3, 0, 0, 0, 0};
  batch.segments.assign(10, 0);
  batch.mask = {1, 1, 1, 1, 1, 1, 0, 0, 0, 0};
  batch.label_rows = {2, 4};
  batch.labels = {0, 0};
  const std::vector<float> expected = m->Logits(batch);
  for (int i = 0; i < 30; ++i) {
    EXPECT_NEAR(filled.masks(1).logits(i), expected[30 + i], 1e-5);
  }
  EXPECT_THAT(response.predictions(1).error(), HasSubstr("[MASK]"));
}

// The pseudo-loss is the mean over the tokens of the loss of each, masked.
TEST_F(PredictorTest, PseudoLossMasksEachTokenInTurn) {
  Export(kMaskedLm);
  const auto predictor = Open();
  v1::PredictRequest request;
  request.set_pseudo_loss(true);
  AddText("a b c", &request);
  AddText("", &request);
  ASSERT_OK_AND_ASSIGN(const v1::PredictResponse response,
                       predictor->Predict(request));
  EXPECT_THAT(response.predictions(1).error(), HasSubstr("no token"));

  v1::PredictRequest masked;
  masked.set_top_k(30);
  for (const char* text : {"[MASK] b c", "a [MASK] c", "a b [MASK]"}) {
    AddText(text, &masked);
  }
  ASSERT_OK_AND_ASSIGN(const v1::PredictResponse filled,
                       predictor->Predict(masked));
  double sum = 0;
  for (int i = 0; i < 3; ++i) {
    for (const v1::TokenChoice& choice :
         filled.predictions(i).masks(0).choices()) {
      if (choice.id() == 5 + i) sum -= std::log(choice.probability());
    }
  }
  EXPECT_NEAR(response.predictions(0).loss(), sum / 3, 1e-4);
}

TEST_F(PredictorTest, BadRowsAndRequestsAreRefused) {
  Export(kClassifier);
  const auto predictor = Open();
  v1::PredictRequest request;
  request.add_rows()->add_numbers(1);
  AddText("\xff", &request);
  AddText("a", &request);
  ASSERT_OK_AND_ASSIGN(const v1::PredictResponse response,
                       predictor->Predict(request));
  EXPECT_THAT(response.predictions(0).error(), HasSubstr("text"));
  EXPECT_THAT(response.predictions(1).error(), HasSubstr("UTF-8"));
  EXPECT_EQ(response.predictions(2).error(), "");

  request.set_pseudo_loss(true);
  EXPECT_THAT(
      predictor->Predict(request),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pseudo_loss")));
  request.set_pseudo_loss(false);
  request.set_top_k(101);
  EXPECT_THAT(predictor->Predict(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("top_k")));
  request.set_top_k(0);
  for (int i = 0; i < kMaxPredictRows; ++i) AddText("a", &request);
  EXPECT_THAT(predictor->Predict(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rows")));
}

TEST_F(PredictorTest, FilesOfAnotherModelAreRefused) {
  Export(kClassifier);
  std::ofstream(folder_ / "vocab.txt", std::ios::app) << "another\n";
  EXPECT_THAT(Predictor::Open(folder_.path(), {}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("vocabulary")));
  Export(kClassifier);
  InputFormat format;
  format.labels = {"1", "2", "3", "4"};
  ASSERT_OK(SaveInputFormat(format, folder_.path()));
  EXPECT_THAT(Predictor::Open(folder_.path(), {}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("labels")));
  std::ofstream(folder_ / "inputs.json") << "[[[";
  EXPECT_THAT(Predictor::Open(folder_.path(), {}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("inputs.json")));
  std::filesystem::remove(folder_ / "inputs.json");
  EXPECT_OK(Predictor::Open(folder_.path(), {}));
}

TEST_F(PredictorTest, CausalModelsTellTheNextToken) {
  const auto m = Export(v1::ModelSpec::CAUSAL_LM);
  const auto predictor = Open();
  EXPECT_EQ(predictor->served().family(), "causal_lm");
  Batch batch;
  batch.size = 1;
  batch.length = 10;
  batch.ids = {5, 6, 9, 0, 0, 0, 0, 0, 0, 0};  // a b e
  batch.segments.assign(10, 0);
  batch.mask = {1, 1, 1, 0, 0, 0, 0, 0, 0, 0};
  batch.label_rows = {0, 1, 2};
  batch.labels = {0, 0, 0};
  const std::vector<float> logits = m->Logits(batch);
  const auto row = [&](int i) { return logits.begin() + 30 * i; };

  v1::PredictRequest request;
  request.set_top_k(30);
  request.set_logits(true);
  AddText("a b e", &request);
  AddText("", &request);
  // Fourteen tokens, of which the model takes the last ten.
  AddText("y y y y a b c d e f g h i j", &request);
  AddText("a b c d e f g h i j", &request);
  AddText("a", &request)->set_text_pair("b");
  ASSERT_OK_AND_ASSIGN(v1::PredictResponse response,
                       predictor->Predict(request));
  const v1::FilledMask& mask = response.predictions(0).masks(0);
  EXPECT_EQ(mask.position(), 3);
  ASSERT_EQ(mask.logits_size(), 30);
  for (int i = 0; i < 30; ++i) EXPECT_NEAR(mask.logits(i), row(2)[i], 1e-5);
  EXPECT_EQ(mask.choices(0).id(), std::max_element(row(2), row(3)) - row(2));
  double sum = 0;
  for (const v1::TokenChoice& each : mask.choices()) sum += each.probability();
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_THAT(response.predictions(1).error(), HasSubstr("no token"));
  EXPECT_TRUE(response.predictions(2).truncated());
  EXPECT_EQ(response.predictions(2).masks(0).logits(7),
            response.predictions(3).masks(0).logits(7));
  EXPECT_THAT(response.predictions(4).error(), HasSubstr("text_pair"));

  request.set_pseudo_loss(true);
  ASSERT_OK_AND_ASSIGN(response, predictor->Predict(request));
  double loss = 0;
  const int next[] = {6, 9};
  for (int i = 0; i < 2; ++i) {
    double exponentials = 0;
    for (int k = 0; k < 30; ++k) exponentials += std::exp(row(i)[k]);
    loss += (std::log(exponentials) - row(i)[next[i]]) / 2;
  }
  EXPECT_NEAR(response.predictions(0).loss(), loss, 1e-5);
  EXPECT_EQ(response.predictions(0).masks_size(), 0);
  EXPECT_NE(response.predictions(4).error(), "");
}

class ClickPredictorTest : public PredictorTest {
 protected:
  std::unique_ptr<TestModel> ExportClicks(bool criteo) {
    auto m = std::make_unique<TestModel>(SmallDlrm(), 4);
    m->SpreadRanks();
    EXPECT_OK(ExportModel(m->config, m->parameters.data(), {}, folder_.path()));
    InputFormat format;
    format.clicks = criteo ? "criteo" : "rows";
    EXPECT_OK(SaveInputFormat(format, folder_.path()));
    return m;
  }
  static v1::PredictRow Row(std::vector<double> numbers,
                            std::vector<std::string> categories) {
    v1::PredictRow row;
    for (double number : numbers) row.add_numbers(number);
    for (const std::string& category : categories) row.add_categories(category);
    return row;
  }
  static Batch One(std::vector<float> dense, std::vector<int32_t> categories) {
    Batch batch;
    batch.size = batch.length = 1;
    batch.label_rows = {0};
    batch.labels = {0};
    batch.dense = std::move(dense);
    batch.categories = std::move(categories);
    return batch;
  }
};

TEST_F(ClickPredictorTest, RowsOfTables) {
  const auto m = ExportClicks(false);
  v1::PredictRequest request;
  request.set_logits(true);
  *request.add_rows() = Row({0.5, 1, 2}, {"29", "4", "0", "7"});
  request.mutable_rows(0)->set_label("1");
  *request.add_rows() = Row({0.5, 1, 2}, {"29", "5", "0", "7"});
  *request.add_rows() = Row({0.5, 1}, {"29", "4", "0", "7"});
  *request.add_rows() = Row({0.5, 1, 1e300}, {"29", "4", "0", "7"});
  ASSERT_OK_AND_ASSIGN(const v1::PredictResponse response,
                       Open()->Predict(request));
  const v1::Prediction& first = response.predictions(0);
  EXPECT_NEAR(first.logits(0), m->Logits(One({0.5, 1, 2}, {29, 4, 0, 7}))[0],
              1e-5);
  EXPECT_NEAR(first.probabilities(1), 1 / (1 + std::exp(-first.logits(0))),
              1e-6);
  EXPECT_NEAR(first.probabilities(0), 1 - first.probabilities(1), 1e-6);
  EXPECT_NEAR(first.loss(), -std::log(first.probabilities(1)), 1e-5);
  EXPECT_THAT(response.predictions(1).error(), HasSubstr("categories[1]"));
  EXPECT_THAT(response.predictions(2).error(), HasSubstr("numbers"));
  EXPECT_THAT(response.predictions(3).error(), HasSubstr("finite"));
}

TEST_F(ClickPredictorTest, CriteosValuesGoThroughTheDictionaries) {
  const auto m = ExportClicks(true);
  EXPECT_THAT(Predictor::Open(folder_.path(), {}),
              StatusIs(absl::StatusCode::kNotFound));
  const auto value = [](uint64_t digits, uint64_t count) {
    return digits | count << 60;
  };
  std::vector<CategoryTables::Table> tables(4);
  const std::vector<int64_t> rows = {30, 5, 41, 30};
  for (int t = 0; t < 4; ++t) tables[t].rows = rows[t];
  tables[0].own = {value(0xab, 2), value(0xb, 1)};
  tables[1].own = {value(1, 1), value(2, 1), 0, value(3, 1), value(4, 1)};
  ASSERT_OK_AND_ASSIGN(const CategoryTables categories,
                       CategoryTables::Create(tables));
  ASSERT_OK(categories.Save(folder_.path()));

  v1::PredictRequest request;
  request.set_logits(true);
  // 9 was never seen: it has the empty value's row.
  *request.add_rows() = Row({1, -3, 0}, {"b", "9", "77", ""});
  *request.add_rows() = Row({1, -3, 0}, {"b", "x", "77", ""});
  ASSERT_OK_AND_ASSIGN(const v1::PredictResponse response,
                       Open()->Predict(request));
  const std::vector<float> expected = m->Logits(
      One({std::log(2.0f), 0, 0},
          {1, 2, categories.Row(2, value(0x77, 2)), categories.Row(3, 0)}));
  EXPECT_NEAR(response.predictions(0).logits(0), expected[0], 1e-5);
  EXPECT_THAT(response.predictions(1).error(), HasSubstr("categories[1]"));

  tables[0].rows = 31;
  ASSERT_OK_AND_ASSIGN(const CategoryTables others,
                       CategoryTables::Create(tables));
  ASSERT_OK(others.Save(folder_.path()));
  EXPECT_THAT(Predictor::Open(folder_.path(), {}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("tables")));
}

TEST_F(PredictorTest, CausalModelsContinueTexts) {
  const auto m = Export(v1::ModelSpec::CAUSAL_LM);
  const auto predictor = Open();
  ASSERT_NE(predictor, nullptr);
  EXPECT_EQ(predictor->served().max_generations(), 8);
  ASSERT_OK_AND_ASSIGN(Generator* const generator, predictor->generator());
  v1::GenerateRequest request;
  request.set_prompt("a b e");
  request.set_temperature(0);
  request.set_max_tokens(1);
  ASSERT_OK(generator->Start(1, request));
  std::vector<GeneratedPiece> pieces;
  ASSERT_OK(generator->Step(&pieces));
  ASSERT_EQ(pieces.size(), 1);
  ASSERT_OK(pieces[0].response);
  EXPECT_EQ(pieces[0].response->prompt_tokens(), 3);
  // The most probable token is the one that Predict says.
  v1::PredictRequest row;
  AddText("a b e", &row);
  ASSERT_OK_AND_ASSIGN(const v1::PredictResponse response,
                       predictor->Predict(row));
  const std::string& best = response.predictions(0).masks(0).choices(0).token();
  EXPECT_EQ(absl::StripAsciiWhitespace(pieces[0].response->text()), best);

  Export(kClassifier);
  const auto classifier = Open();
  EXPECT_EQ(classifier->served().max_generations(), 0);
  EXPECT_THAT(classifier->generator(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::trainer
