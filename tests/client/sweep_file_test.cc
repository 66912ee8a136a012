// Checks reading of sweep files and their shorthand.

#include "client/sweep_file.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/sweep/sweep_plan.h"

namespace comera::client {
namespace {

using ::testing::HasSubstr;

constexpr char kJob[] = R"(
model: {family: masked_lm, layers: 1, hidden: 32, heads: 2}
data:
  code_directory: {roots: [/usr/include], globs: ["*.h"]}
  tokenizer: {kind: byte_bpe, train_vocabulary_size: 400}
  max_length: 48
objective:
  early: {steps: 10}
  late: {target_loss: 3, max_steps: 10}
training: {batch_size: 8}
)";

absl::StatusOr<v1::SweepSpec> Parse(const std::string& section) {
  return ParseSweepFile(absl::StrCat("sweep:\n", section, kJob), "s.yaml");
}

TEST(SweepFileTest, ReadsRandomRunsWithRangesByPath) {
  ASSERT_OK_AND_ASSIGN(const v1::SweepSpec spec, Parse(R"(
  random:
    runs: 20
    seed: 3
    fields:
      optimizer.learning_rate_cores: {min: 0.0001, max: 0.01, log: true}
      model.layers: [1, 2]
      compression.attention.input_modes: [[4, 8], [8, 4]]
)"));
  const v1::RandomRuns& random = spec.random();
  EXPECT_EQ(random.runs(), 20);
  EXPECT_EQ(random.seed(), 3u);
  ASSERT_EQ(random.fields_size(), 3);
  EXPECT_EQ(random.fields(0).path(), "optimizer.learning_rate_cores");
  EXPECT_EQ(random.fields(0).min(), 0.0001);
  EXPECT_EQ(random.fields(0).max(), 0.01);
  EXPECT_TRUE(random.fields(0).log());
  EXPECT_EQ(random.fields(1).values(1), "2");
  EXPECT_EQ(random.fields(2).values(0), "[4, 8]");
}

TEST(SweepFileTest, AMistakeInARangeHasItsLine) {
  EXPECT_THAT(Parse(R"(
  random:
    runs: 20
    fields:
      model.layers: {minimum: 1}
)")
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("s.yaml (sweep):6: ")));
}

TEST(SweepFileTest, ReadsTheGridBesideTheJob) {
  ASSERT_OK_AND_ASSIGN(const v1::SweepSpec spec, Parse(R"(
  display_name: rates
  max_parallel: 2
  stop_dominated: true
  reference: {validation_loss: 6, size_parameters: 100000}
  grid:
    methods: [comera, dense]
    ranks: [4, 8]
    seeds: 3
    targets:
      - {target_ratio: 0.9}
      - {target_loss: 2.9, target_bytes: 64KiB}
    fields:
      optimizer.learning_rate_cores: [0.001, 1e-2]
      compression.attention.ranks: [[8, 16], [4]]
      optimizer.decay: cosine
)"));
  EXPECT_EQ(spec.display_name(), "rates");
  EXPECT_TRUE(spec.stop_dominated());
  EXPECT_EQ(spec.job().model().hidden(), 32);
  const v1::SweepGrid& grid = spec.grid();
  EXPECT_EQ(grid.methods(1), v1::CompressionSpec::DENSE);
  EXPECT_EQ(grid.seeds(0), 3u);
  EXPECT_EQ(grid.targets(1).target_bytes(), 65536);
  ASSERT_EQ(grid.fields_size(), 3);
  EXPECT_EQ(grid.fields(0).path(), "optimizer.learning_rate_cores");
  EXPECT_EQ(grid.fields(0).values(1), "1e-2");
  EXPECT_EQ(grid.fields(1).values(0), "[8, 16]");
  EXPECT_EQ(grid.fields(2).values(0), "cosine");
}

TEST(SweepFileTest, ReadsAListOfRuns) {
  ASSERT_OK_AND_ASSIGN(const v1::SweepSpec spec, Parse(R"(
  list:
    - {seed: 1, target: {target_ratio: 0.5}}
    - ranks: 4
      fields: {optimizer.beta1: 0.8, compression.attention.ranks: [2, 3]}
    - fields: [{path: priority, value: 7}]
)"));
  ASSERT_EQ(spec.list_size(), 3);
  EXPECT_EQ(spec.list(0).seed(), 1u);
  EXPECT_EQ(spec.list(1).fields(1).value(), "[2, 3]");
  EXPECT_EQ(spec.list(2).fields(0).path(), "priority");
}

TEST(SweepFileTest, WhatItReadsIsASweep) {
  ASSERT_OK_AND_ASSIGN(const v1::SweepSpec spec,
                       Parse("  grid:\n    targets: [{target_ratio: 0.9}, "
                             "{target_ratio: 0.8}]\n    seeds: [1, 2]\n"));
  std::vector<FieldViolation> violations;
  const SweepPlan plan = PlanSweep(spec, &violations);
  EXPECT_TRUE(violations.empty()) << violations.front().description;
  EXPECT_EQ(plan.runs.size(), 4u);
  EXPECT_EQ(plan.stages.size(), 2u);
}

TEST(SweepFileTest, TheExampleIsASweep) {
  ASSERT_OK_AND_ASSIGN(const v1::SweepSpec spec,
                       ReadSweepFile("docs/examples/sweep_code_mlm.yaml"));
  std::vector<FieldViolation> violations;
  const SweepPlan plan = PlanSweep(spec, &violations);
  EXPECT_TRUE(violations.empty()) << violations.front().description;
  EXPECT_EQ(plan.runs.size(), 6u);
  EXPECT_EQ(plan.stages.size(), 2u);
}

TEST(SweepFileTest, FormerNamesAreReadAndNoted) {
  std::vector<std::string> notes;
  ASSERT_OK_AND_ASSIGN(
      const v1::SweepSpec spec,
      ParseSweepFile("resources: {ranks: 2}\n"
                     "sweep:\n"
                     "  grid: {fields: {resources.ranks: [1, 2]}}\n"
                     "  list: [{fields: {resources.min_ranks: 1}}]\n",
                     "s.yaml", &notes));
  EXPECT_EQ(spec.job().resources().processes(), 2);
  EXPECT_EQ(spec.grid().fields(0).path(), "resources.processes");
  EXPECT_EQ(spec.list(0).fields(0).path(), "resources.min_processes");
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0],
            "s.yaml: sweep: resources.ranks is now called resources.processes; "
            "the old name is still read");
  EXPECT_THAT(notes[2], HasSubstr("s.yaml:1: resources.ranks"));
}

TEST(SweepFileTest, ErrorsNameFileLineAndField) {
  for (const auto& [section, said] :
       std::vector<std::pair<std::string, std::string>>{
           {"  gird: {}\n", "s.yaml (sweep):2: gird: unknown field"},
           {"  grid: {seed: [1]}\n", "grid.seed: unknown field (did you mean"},
           {"  grid: {methods: [comra]}\n", "`comra` is none of"},
           {"  job: {}\n", "s.yaml:2: sweep.job"},
           {"  grid:\n    fields:\n      a: [{b: 1}]\n",
            "s.yaml:4: sweep: a value of a field"},
           {"  list: [{fields: {a: {b: 1}}}]\n", "a value of a field"},
           {"  max_parallel: lots\n", "max_parallel"}}) {
    EXPECT_THAT(Parse(section),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(said)))
        << section;
  }
  EXPECT_THAT(ParseSweepFile(kJob, "job.yaml"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a sweep file is a job file with")));
  EXPECT_THAT(ParseSweepFile("sweep: {}\nmodel: {layrs: 2}\n", "s.yaml"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("s.yaml:2: model.layrs: unknown field")));
  for (const char* junk : {"", "sweep", "sweep:\n", "[1]", "sweep: [1]\n"}) {
    EXPECT_FALSE(ParseSweepFile(junk, "s.yaml").ok()) << junk;
  }
}

}  // namespace
}  // namespace comera::client
