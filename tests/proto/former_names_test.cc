// Former names of fields: the table and what is said about them.
#include "proto/former_names.h"

#include "comera/v1/job.pb.h"
#include "comera/v1/queue_service.pb.h"
#include "gtest/gtest.h"
#include "proto/spec_field.h"

namespace comera {
namespace {

TEST(FormerNamesTest, OnlyTheRenamedFieldsOfAMessageAreFound) {
  const auto& resources = *v1::ResourceSpec::descriptor();
  const auto* field = FindByFormerName(resources, "threadsPerRank");
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->name(), "threads_per_process");
  EXPECT_EQ(FindByFormerName(resources, "threads_per_rank"), field);
  EXPECT_EQ(FindByFormerName(resources, "processes"), nullptr);
  EXPECT_EQ(FindByFormerName(resources, "epoch"), nullptr);
  // The ranks of a layer are sizes of bonds, and stay.
  EXPECT_EQ(FindByFormerName(*v1::LayerCompression::descriptor(), "ranks"),
            nullptr);
}

TEST(FormerNamesTest, PathsAreBroughtUpToDate) {
  const auto& spec = *v1::JobSpec::descriptor();
  EXPECT_EQ(CurrentPath(spec, "resources.ranks"), "resources.processes");
  EXPECT_EQ(CurrentPath(spec, "resources.processes"), "resources.processes");
  EXPECT_EQ(CurrentPath(spec, "compression.head.ranks"),
            "compression.head.ranks");
  EXPECT_EQ(CurrentPath(spec, "labels.ranks"), "labels.ranks");
  for (const char* nowhere :
       {"", ".", "ranks", "resources.rnks", "x.ranks", "priority.ranks"}) {
    EXPECT_EQ(CurrentPath(spec, nowhere), nowhere);
  }
  EXPECT_EQ(CurrentPath(*v1::Queue::descriptor(), "max_ranks"),
            "max_processes");
}

TEST(FormerNamesTest, QuotedNamesAreFoundInJson) {
  EXPECT_TRUE(MayQuoteFormerNames(R"({"minRanks": 1})"));
  EXPECT_TRUE(MayQuoteFormerNames(R"({"epoch": 1})"));
  EXPECT_FALSE(MayQuoteFormerNames(R"({"processes": 1, "text": "the ranks"})"));
}

TEST(FormerNamesTest, RunsOfASweepSetFieldsByFormerNames) {
  v1::JobSpec spec;
  EXPECT_TRUE(SetSpecField("resources.ranks", "3", &spec).ok());
  EXPECT_EQ(spec.resources().processes(), 3);
}

}  // namespace
}  // namespace comera
