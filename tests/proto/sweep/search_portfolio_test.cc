// Tests which candidates a search has, and how its rounds share a budget.
#include "proto/sweep/search_portfolio.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "proto/model_size.h"
#include "proto/sweep/search_job.h"
#include "proto/sweep/search_rounds.h"
#include "proto/sweep/sweep_plan.h"
#include "proto/validation/job_validation.h"
#include "tests/server/test_spec.h"

namespace comera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::SweepSpec Search(double loss, int64_t parameters) {
  v1::SweepSpec spec;
  v1::JobSpec& job = *spec.mutable_job();
  job = server::TestSpec(1);
  job.mutable_compression()->set_method(v1::CompressionSpec::AUTO);
  job.mutable_objective()->Clear();
  v1::LateStage& late = *job.mutable_objective()->mutable_late();
  if (loss > 0) late.set_target_loss(loss);
  if (parameters > 0) late.set_target_parameters(parameters);
  job.mutable_budget()->set_steps(16000);
  return spec;
}

std::string Labels(const SweepPlan& plan) {
  std::string labels;
  for (const SweepPlan::Run& run : plan.runs) {
    absl::StrAppend(&labels, run.label, "\n");
  }
  return labels;
}

SweepPlan Plan(const v1::SweepSpec& spec) {
  std::vector<FieldViolation> violations;
  SweepPlan plan = PlanSweep(spec, &violations);
  for (const FieldViolation& v : violations) {
    ADD_FAILURE() << v.field << ": " << v.description;
  }
  return plan;
}

v1::JobSpec SpecOf(const SweepPlan& plan, const SweepPlan::Run& run) {
  return plan.RunSpec(static_cast<int>(&run - plan.runs.data()));
}

std::string Violations(const v1::SweepSpec& spec) {
  std::vector<FieldViolation> violations;
  PlanSweep(spec, &violations);
  return absl::StrJoin(violations, "\n",
                       [](std::string* out, const FieldViolation& v) {
                         absl::StrAppend(out, v.field, ": ", v.description);
                       });
}

TEST(SearchPortfolioTest, TriesMethodsWidthsRanksAndTiedOutputs) {
  const SweepPlan plan = Plan(Search(3, 0));
  const std::string labels = Labels(plan);
  EXPECT_GE(plan.runs.size(), 8u);
  EXPECT_LE(plan.runs.size(), 12u);
  EXPECT_THAT(labels, HasSubstr("method=comera width=64 rank=16 output=tied "
                                "shrunk_to=0.5"));
  EXPECT_THAT(labels, HasSubstr("method=dense width=16 rate=0.003\n"));
  EXPECT_THAT(labels, HasSubstr("output=tied"));
  EXPECT_THAT(labels, HasSubstr("method=cola width=16 rank=4 rate=0.003"));
  EXPECT_THAT(
      labels,
      HasSubstr(
          "method=dense width=16 output=tied optimizer=muon rate=0.02\n"));
  // Twice the default rate of language models.
  EXPECT_THAT(labels, HasSubstr("method=comera width=64 rank=16 output=tied "
                                "rate=0.02 "));
  // Runs that differ in the size that they shrink to share an early stage.
  EXPECT_FALSE(plan.stages.empty());
  EXPECT_LT(CountEntrants(plan), static_cast<int>(plan.runs.size()));
}

TEST(SearchPortfolioTest, AnInnerActivationIsForTheTensorTrainCandidates) {
  v1::SweepSpec spec = Search(3, 0);
  spec.mutable_job()->mutable_compression()->set_inner_activation(
      v1::CompressionSpec::SILU);
  std::set<v1::CompressionSpec::Method> methods;
  const SweepPlan plan = Plan(spec);
  for (const SweepPlan::Run& run : plan.runs) {
    const v1::JobSpec job = SpecOf(plan, run);
    const v1::CompressionSpec& compression = job.compression();
    methods.insert(compression.method());
    EXPECT_EQ(compression.inner_activation() == v1::CompressionSpec::SILU,
              compression.method() == v1::CompressionSpec::COMERA)
        << run.label;
  }
  EXPECT_GE(methods.size(), 2u);
}

TEST(SearchPortfolioTest, EveryCandidateCanMeetTheSize) {
  for (int64_t size : {20000, 60000, 200000}) {
    const SweepPlan plan = Plan(Search(0, size));
    EXPECT_GE(plan.runs.size(), 3u) << size;
    for (const SweepPlan::Run& run : plan.runs) {
      const v1::JobSpec job = SpecOf(plan, run);
      EXPECT_LE(SmallestModelParameters(job), static_cast<double>(size))
          << run.label;
    }
  }
  EXPECT_THAT(Violations(Search(0, 10)), HasSubstr("asks for a size that no"));
}

TEST(SearchPortfolioTest, DenseModelsAreAsWideAsTheSizeAllows) {
  const SweepPlan plan = Plan(Search(0, 60000));
  for (const SweepPlan::Run& run : plan.runs) {
    const v1::JobSpec job = SpecOf(plan, run);
    if (job.compression().method() != v1::CompressionSpec::DENSE ||
        job.model().tie_output()) {
      continue;
    }
    v1::JobSpec wider = job;
    wider.mutable_model()->set_hidden(job.model().hidden() + 8);
    wider.mutable_model()->set_ffn(4 * wider.model().hidden());
    EXPECT_GT(SmallestModelParameters(wider), 60000) << run.label;
  }
}

// The same search for a decoder with the masked language model's shape.
v1::SweepSpec DecoderSearch(v1::ModelSpec::Architecture architecture,
                            int64_t parameters) {
  v1::SweepSpec spec = Search(3, parameters);
  v1::ModelSpec& model = *spec.mutable_job()->mutable_model();
  model.set_family(v1::ModelSpec::CAUSAL_LM);
  model.set_architecture(architecture);
  return spec;
}

TEST(SearchPortfolioTest, LlamasAreSearchedLikeMaskedLanguageModels) {
  v1::SweepSpec spec = DecoderSearch(v1::ModelSpec::LLAMA, 0);
  spec.mutable_job()->mutable_model()->set_kv_heads(2);
  const SweepPlan plan = Plan(spec);
  const std::string labels = Labels(plan);
  EXPECT_GE(plan.runs.size(), 8u);
  EXPECT_THAT(labels, HasSubstr("method=comera width=64 rank=16 output=tied "
                                "dense_tokens="));
  EXPECT_THAT(labels, HasSubstr("method=dense width=16 output=tied"));
  EXPECT_THAT(labels, HasSubstr("method=cola width=16 rank=4 rate=0.003"));
  for (const SweepPlan::Run& run : plan.runs) {
    const v1::JobSpec job = SpecOf(plan, run);
    const v1::ModelSpec& model = job.model();
    EXPECT_EQ(model.heads() % model.kv_heads(), 0) << run.label;
    EXPECT_LE(model.kv_heads(), 2);
    // Each width has the default width of its feed-forward layers.
    EXPECT_EQ(model.ffn(), (model.hidden() + 11) / 12 * 32) << run.label;
  }
}

TEST(SearchPortfolioTest, TiedCandidatesHaveNoOutputToCompress) {
  const SweepPlan plan = Plan(Search(3, 0));
  int tied = 0;
  for (const SweepPlan::Run& run : plan.runs) {
    const v1::JobSpec job = SpecOf(plan, run);
    if (job.compression().method() != v1::CompressionSpec::COMERA) continue;
    EXPECT_NE(job.model().tie_output(), job.compression().has_output());
    tied += job.model().tie_output() ? 1 : 0;
  }
  EXPECT_GE(tied, 2);
}

TEST(SearchPortfolioTest, TiedDecodersOfTensorTrainsHaveDenseTokens) {
  const auto dense_tokens = [](const v1::SweepSpec& spec) {
    std::set<int64_t> found;
    const SweepPlan plan = Plan(spec);
    for (const SweepPlan::Run& run : plan.runs) {
      const v1::JobSpec job = SpecOf(plan, run);
      const int64_t tokens = job.compression().embedding().dense_tokens();
      const bool tied =
          job.model().tie_output() &&
          job.compression().method() == v1::CompressionSpec::COMERA;
      EXPECT_EQ(tokens > 0, tied) << run.label;
      if (tokens == 0 || job.compression().attention().dense()) continue;
      found.insert(tokens);
      EXPECT_THAT(run.label, HasSubstr(absl::StrCat("dense_tokens=", tokens)));
    }
    return found;
  };
  v1::SweepSpec spec = DecoderSearch(v1::ModelSpec::LLAMA, 0);
  spec.mutable_job()
      ->mutable_data()
      ->mutable_tokenizer()
      ->set_train_vocabulary_size(3200);
  EXPECT_THAT(dense_tokens(spec), ElementsAre(200));
  // With a size, the rows take a quarter of it at most; half as wide, more fit.
  spec.mutable_job()
      ->mutable_objective()
      ->mutable_late()
      ->set_target_parameters(40000);
  EXPECT_THAT(dense_tokens(spec), ElementsAre(156, 200));
  // What the job says holds for all of its tensor-train candidates.
  spec.mutable_job()
      ->mutable_compression()
      ->mutable_embedding()
      ->set_dense_tokens(7);
  const SweepPlan plan = Plan(spec);
  for (const SweepPlan::Run& run : plan.runs) {
    const v1::JobSpec job = SpecOf(plan, run);
    const v1::CompressionSpec& compression = job.compression();
    const bool comera = compression.method() == v1::CompressionSpec::COMERA;
    EXPECT_EQ(compression.embedding().dense_tokens(), comera ? 7 : 0)
        << run.label;
  }
}

TEST(SearchPortfolioTest, LanguageModelsAreTriedWithDenseAttention) {
  constexpr char kLabel[] =
      "method=comera width=64 rank=32 output=tied attention=dense "
      "dense_tokens=600\n";
  v1::SweepSpec spec = Search(0, 150000);
  spec.mutable_job()
      ->mutable_data()
      ->mutable_tokenizer()
      ->set_train_vocabulary_size(3200);
  spec.mutable_job()->clear_optimizer();
  const SweepPlan plan = Plan(spec);
  EXPECT_THAT(Labels(plan), HasSubstr(kLabel));
  for (const SweepPlan::Run& run : plan.runs) {
    const v1::JobSpec job = SpecOf(plan, run);
    const bool dense = job.compression().attention().dense();
    EXPECT_EQ(dense, absl::StrCat(run.label, "\n") == kLabel);
    if (!dense) continue;
    EXPECT_EQ(job.optimizer().kind(), v1::OptimizerSpec::MUON);
    EXPECT_FALSE(job.optimizer().has_learning_rate_tables());
  }
  // In smaller models, attention takes three tenths at half or a quarter of
  // the width, and so do the rows.
  const auto of_size = [&](int64_t parameters) {
    v1::SweepSpec small = spec;
    small.mutable_job()
        ->mutable_objective()
        ->mutable_late()
        ->set_target_parameters(parameters);
    return Labels(Plan(small));
  };
  EXPECT_THAT(of_size(100000), HasSubstr("width=32 rank=16 output=tied "
                                         "attention=dense dense_tokens=600"));
  EXPECT_THAT(of_size(40000), HasSubstr("width=32 rank=16 output=tied "
                                        "attention=dense dense_tokens=375"));
  EXPECT_THAT(of_size(20000), HasSubstr("width=16 rank=8 output=tied "
                                        "attention=dense dense_tokens=375"));
  // An eighth of the width is too narrow.
  EXPECT_THAT(of_size(6000), Not(HasSubstr("attention=dense")));
  v1::SweepSpec given = spec;
  given.mutable_job()->mutable_compression()->mutable_attention()->add_ranks(8);
  EXPECT_THAT(Labels(Plan(given)), Not(HasSubstr("attention=dense")));
  v1::SweepSpec decoder = DecoderSearch(v1::ModelSpec::LLAMA, 150000);
  *decoder.mutable_job()->mutable_data() = spec.job().data();
  EXPECT_THAT(Labels(Plan(decoder)), HasSubstr("attention=dense"));
}

TEST(SearchPortfolioTest, AJobWithoutAWidthIsRefused) {
  for (auto architecture : {v1::ModelSpec::LLAMA, v1::ModelSpec::GPT2}) {
    for (int hidden : {0, 1}) {
      v1::SweepSpec spec = DecoderSearch(architecture, 60000);
      spec.mutable_job()->mutable_model()->set_hidden(hidden);
      EXPECT_NE(Violations(spec), "") << hidden;
    }
  }
}

TEST(SearchPortfolioTest, Gpt2sAreTiedAnyway) {
  EXPECT_THAT(Labels(Plan(DecoderSearch(v1::ModelSpec::GPT2, 0))),
              Not(HasSubstr("tied")));
}

TEST(SearchPortfolioTest, DecodersMeetTheSize) {
  for (auto architecture : {v1::ModelSpec::LLAMA, v1::ModelSpec::GPT2}) {
    const SweepPlan plan = Plan(DecoderSearch(architecture, 60000));
    EXPECT_GE(plan.runs.size(), 3u);
    for (const SweepPlan::Run& run : plan.runs) {
      const v1::JobSpec job = SpecOf(plan, run);
      EXPECT_LE(SmallestModelParameters(job), 60000) << run.label;
    }
  }
}

TEST(SearchPortfolioTest, FixedSizesHaveNoEarlyStageAndStepsFitTheBudget) {
  const v1::SweepSpec spec = Search(3, 0);
  const SweepPlan plan = Plan(spec);
  const SearchRounds rounds = PlanSearchRounds(CountEntrants(plan), 16000);
  for (const SweepPlan::Run& run : plan.runs) {
    const v1::JobSpec job = SpecOf(plan, run);
    const v1::ObjectiveSpec& objective = job.objective();
    EXPECT_NEAR(static_cast<double>(objective.early().steps() +
                                    objective.late().max_steps()),
                rounds.last, 1.5);
    const bool shrinks =
        job.compression().method() == v1::CompressionSpec::COMERA;
    EXPECT_EQ(objective.early().steps() > 0, shrinks) << run.label;
    if (!shrinks) {
      EXPECT_EQ(objective.late().target_ratio(), 1);
    }
    EXPECT_FALSE(job.has_budget());
  }
}

TEST(SearchPortfolioTest, RoundsSpendTheBudget) {
  // 8 a while, 4 as long again, 2 twice as long.
  const SearchRounds rounds = PlanSearchRounds(8, 1600);
  EXPECT_EQ(rounds.rounds, 3);
  EXPECT_DOUBLE_EQ(rounds.first, 100);
  EXPECT_DOUBLE_EQ(rounds.last, 400);
  EXPECT_DOUBLE_EQ(NextSearchShare(4, 800), 100);
  EXPECT_DOUBLE_EQ(NextSearchShare(2, 400), 200);
  EXPECT_EQ(PlanSearchRounds(2, 100).rounds, 1);
}

TEST(SearchPortfolioTest, RoundsOfJobsSideBySideTakeAsLongAsTheirTurns) {
  // By the clock: two turns of 4 jobs, one turn as long again, one twice as
  // long.
  const SearchRounds rounds = PlanSearchRounds(8, 600, 4);
  EXPECT_EQ(rounds.rounds, 3);
  EXPECT_DOUBLE_EQ(rounds.first, 120);
  EXPECT_DOUBLE_EQ(rounds.last, 480);
  EXPECT_DOUBLE_EQ(NextSearchShare(4, 600, 4), 200);
}

TEST(SearchPortfolioTest, GivenStepsAreKeptToTheLastOne) {
  v1::ObjectiveSpec given;
  v1::JobSpec run;
  run.mutable_compression()->set_method(v1::CompressionSpec::COMERA);
  given.mutable_early()->set_steps(1550);
  given.mutable_late()->set_max_steps(1000);
  PlanSearchSteps(given, 2550, &run);
  EXPECT_EQ(run.objective().early().steps(), 1550);
  EXPECT_EQ(run.objective().late().max_steps(), 1000);
}

TEST(SearchPortfolioTest, AbsurdSizesAreRefusedBeforeTheyAreTriedOut) {
  v1::SweepSpec spec = Search(3, 60000);
  spec.mutable_job()->mutable_model()->set_hidden(1'000'000'000'000);
  spec.mutable_job()->mutable_model()->set_heads(2'000'000'000);
  spec.mutable_job()->mutable_objective()->mutable_early()->set_steps(
      std::numeric_limits<int64_t>::max());
  std::vector<FieldViolation> violations;
  PlanSweep(spec, &violations);
  std::vector<std::string> fields;
  for (const FieldViolation& each : violations) fields.push_back(each.field);
  EXPECT_THAT(fields, ::testing::UnorderedElementsAre(
                          "job.model.hidden", "job.model.heads",
                          "job.objective.early.steps"));
}

TEST(SearchPortfolioTest, WhatFinishedJobsFoundBestComesFirst) {
  v1::SweepSpec spec = Search(3, 0);
  FinishedRun good;
  good.spec = server::TestSpec(1);
  good.spec.mutable_model()->set_hidden(40);
  good.validation_loss = 2.9;
  good.size_parameters = 50000;
  FinishedRun beaten = good;
  beaten.spec.mutable_model()->set_hidden(56);
  beaten.size_parameters = 90000;
  int learned = 0;
  v1::SweepSpec chosen = WithCandidates(spec, {beaten, good}, &learned);
  ASSERT_EQ(learned, 1);
  EXPECT_EQ(chosen.list(0).label(), "method=dense width=40");
  spec.mutable_search()->set_use_history(false);
  chosen = WithCandidates(spec, {good}, &learned);
  EXPECT_EQ(learned, 0);
}

TEST(SearchPortfolioTest, AFinishedJobWithDenseAttentionIsTriedAgain) {
  v1::SweepSpec spec = Search(3, 0);
  FinishedRun run;
  run.spec = server::TestSpec(1);
  run.spec.clear_optimizer();
  run.spec.mutable_compression()->set_method(v1::CompressionSpec::COMERA);
  run.spec.mutable_compression()->mutable_attention()->set_dense(true);
  run.spec.mutable_compression()->mutable_ffn_up()->add_ranks(24);
  run.validation_loss = 2.9;
  run.size_parameters = 50000;
  int learned = 0;
  v1::SweepSpec chosen = WithCandidates(spec, {run}, &learned);
  ASSERT_EQ(learned, 1);
  EXPECT_EQ(chosen.list(0).label(),
            "method=comera width=64 rank=24 attention=dense shrunk_to=0.5");
  // What the search says of attention stands.
  spec.mutable_job()->mutable_compression()->mutable_attention()->add_ranks(8);
  chosen = WithCandidates(spec, {run}, &learned);
  EXPECT_EQ(chosen.list(0).label(),
            "method=comera width=64 rank=24 shrunk_to=0.5");
}

std::string FieldOf(const v1::SweepPoint& point, const std::string& path) {
  for (const v1::FieldValue& field : point.fields()) {
    if (field.path() == path) return field.value();
  }
  return "";
}

TEST(SearchPortfolioTest, FinishedJobsAreTriedAgainAtTheirRates) {
  v1::SweepSpec spec = Search(3, 0);
  FinishedRun muon;
  muon.spec = server::TestSpec(1);
  muon.spec.clear_optimizer();
  muon.spec.mutable_model()->set_hidden(16);
  muon.spec.mutable_optimizer()->set_kind(v1::OptimizerSpec::MUON);
  muon.spec.mutable_optimizer()->set_learning_rate_cores(0.04);
  muon.spec.mutable_optimizer()->set_learning_rate_other(0.003);
  muon.spec.mutable_optimizer()->set_learning_rate_tables(0.02);
  muon.validation_loss = 2.9;
  muon.size_parameters = 50000;
  int learned = 0;
  v1::SweepSpec chosen = WithCandidates(spec, {muon}, &learned);
  ASSERT_EQ(learned, 1);
  EXPECT_EQ(chosen.list(0).label(),
            "method=dense width=16 optimizer=muon rate=0.04");
  EXPECT_EQ(FieldOf(chosen.list(0), "optimizer.kind"), "MUON");
  EXPECT_EQ(FieldOf(chosen.list(0), "optimizer.learning_rate_cores"), "0.04");
  EXPECT_EQ(FieldOf(chosen.list(0), "optimizer.learning_rate_other"), "0.003");
  EXPECT_EQ(FieldOf(chosen.list(0), "optimizer.learning_rate_tables"), "0.02");
  // The portfolio's own candidates of this width stay.
  EXPECT_TRUE(std::any_of(chosen.list().begin(), chosen.list().end(),
                          [](const v1::SweepPoint& point) {
                            return point.label() ==
                                   "method=dense width=16 rate=0.003";
                          }));
  // Rates of the search stand.
  spec.mutable_job()->mutable_optimizer()->set_learning_rate_other(0.001);
  chosen = WithCandidates(spec, {muon}, &learned);
  ASSERT_EQ(learned, 1);
  EXPECT_EQ(FieldOf(chosen.list(0), "optimizer.learning_rate_other"), "");
}

// A job that ran at the defaults is the portfolio's candidate, once.
TEST(SearchPortfolioTest, DefaultRatesAreNotNamed) {
  v1::SweepSpec spec = Search(3, 0);
  FinishedRun run;
  run.spec = server::TestSpec(1);
  run.spec.clear_optimizer();
  run.spec.clear_compression();
  run.spec.mutable_compression()->set_method(v1::CompressionSpec::COMERA);
  run.spec.mutable_compression()->mutable_attention()->add_ranks(16);
  run.spec = WithDefaults(run.spec);
  run.validation_loss = 2.9;
  run.size_parameters = 50000;
  int learned = 0;
  const v1::SweepSpec chosen = WithCandidates(spec, {run}, &learned);
  ASSERT_EQ(learned, 1);
  EXPECT_EQ(chosen.list(0).label(),
            "method=comera width=64 rank=16 shrunk_to=0.5");
}

TEST(SearchPortfolioTest, SettingsLimitMethodsAndNumber) {
  v1::SweepSpec spec = Search(3, 0);
  spec.mutable_search()->add_methods(v1::CompressionSpec::DENSE);
  spec.mutable_search()->set_candidates(3);
  const SweepPlan plan = Plan(spec);
  EXPECT_EQ(plan.runs.size(), 3u);
  EXPECT_THAT(Labels(plan), Not(HasSubstr("comera")));
}

TEST(SearchPortfolioTest, SaysWhatASearchNeeds) {
  v1::SweepSpec spec = Search(0, 0);
  EXPECT_THAT(Violations(spec), HasSubstr("job.objective.late: names no"));
  spec = Search(3, 0);
  spec.mutable_job()->clear_budget();
  EXPECT_THAT(Violations(spec), HasSubstr("job.budget: is missing"));
  spec = Search(3, 0);
  spec.mutable_grid()->add_seeds(1);
  EXPECT_THAT(Violations(spec), HasSubstr("grid: excludes"));
  spec = Search(3, 0);
  spec.mutable_job()->mutable_objective()->mutable_late()->set_target_ratio(
      0.5);
  EXPECT_THAT(Violations(spec), HasSubstr("target_ratio: is a share"));
  spec = DecoderSearch(v1::ModelSpec::LLAMA, 0);
  spec.mutable_job()->mutable_training()->set_max_tokens(1000);
  EXPECT_THAT(Violations(spec), HasSubstr("job.training.max_tokens: excludes"));
  spec = Search(3, 0);
  spec.mutable_job()->mutable_model()->set_layers(0);
  EXPECT_THAT(Violations(spec), HasSubstr("job.model.layers"));
}

TEST(SearchPortfolioTest, AutoIsNoSingleJob) {
  const std::vector<FieldViolation> violations =
      ValidateJobSpec(Search(3, 0).job());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "compression.method");
  EXPECT_THAT(violations[0].description, HasSubstr("CreateSweep"));
  v1::JobSpec job = server::TestSpec(1);
  job.mutable_budget()->set_steps(5);
  EXPECT_EQ(ValidateJobSpec(job).size(), 1u);
}

}  // namespace
}  // namespace comera
