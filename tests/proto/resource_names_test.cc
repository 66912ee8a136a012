// Round-trips resource names and refuses malformed ones.

#include "proto/resource_names.h"

#include "gtest/gtest.h"

namespace comera {
namespace {

TEST(ResourceNamesTest, NamesParseBack) {
  EXPECT_EQ(JobName("a1-b"), "jobs/a1-b");
  EXPECT_EQ(ParseJobName("jobs/a1-b"), "a1-b");
  EXPECT_EQ(ArtifactName("j", "final"), "jobs/j/models/final");
  const auto artifact = ParseArtifactName("jobs/j/models/final");
  ASSERT_TRUE(artifact.has_value());
  EXPECT_EQ(artifact->first, "j");
  EXPECT_EQ(artifact->second, "final");
}

TEST(ResourceNamesTest, RefusesWhatCouldBecomeAnotherPath) {
  for (const char* name :
       {"", "jobs", "jobs/", "a1", "Jobs/a", "jobs/A", "jobs/a_b", "jobs/..",
        "jobs/a/b", "jobs/a ", "jobs/a\n", "/jobs/a", "jobs/a/models/b"}) {
    EXPECT_FALSE(ParseJobName(name).has_value()) << name;
  }
  for (const char* name :
       {"", "jobs/a", "jobs/a/models/", "jobs//models/b", "jobs/a/models/..",
        "jobs/a/models/b/c", "jobs/a/models/b/models/c", "a/models/b"}) {
    EXPECT_FALSE(ParseArtifactName(name).has_value()) << name;
  }
}

TEST(ResourceNamesTest, IdsHaveAtMost63Characters) {
  EXPECT_TRUE(ParseJobName("jobs/" + std::string(63, 'a')).has_value());
  EXPECT_FALSE(ParseJobName("jobs/" + std::string(64, 'a')).has_value());
  EXPECT_FALSE(ParseJobName(std::string("jobs/a\0b", 8)).has_value());
}

}  // namespace
}  // namespace comera
