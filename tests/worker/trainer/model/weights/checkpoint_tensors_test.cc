// Tests reading tensors from files, folders and hostile indices.
#include "worker/trainer/model/weights/checkpoint_tensors.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kEnough = 1 << 20;
constexpr char kIndex[] = "model.safetensors.index.json";

class CheckpointTensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        testing::TempDir(), "/checkpoint_tensors_",
        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    ASSERT_OK(MakeDirectories(folder_));
  }

  // A file of tensors that hold their value once.
  void Write(const std::string& file,
             const std::vector<std::pair<std::string, float>>& tensors) {
    Safetensors contents;
    for (const auto& [name, value] : tensors) {
      ASSERT_OK(contents.AddFloat(name, {1}, &value, 1));
    }
    ASSERT_OK(contents.WriteAtomically(folder_ + "/" + file));
  }
  void WriteText(const std::string& file, const std::string& text) {
    ASSERT_OK(WriteFileAtomically(folder_ + "/" + file, text));
  }

  std::string folder_;
};

// One value.
template <typename T>
void ExpectHolds(const absl::StatusOr<std::vector<T>>& values, T value) {
  ASSERT_OK(values);
  EXPECT_THAT(*values, ElementsAre(value));
}

TEST_F(CheckpointTensorsTest, AFileAndTheFolderThatItIsIn) {
  Write("model.safetensors", {{"a", 1}, {"b", 2}});
  // A folder with both is that of the whole file.
  WriteText(kIndex, "not an index");
  for (const std::string& path : {folder_, folder_ + "/model.safetensors"}) {
    ASSERT_OK_AND_ASSIGN(CheckpointTensors tensors,
                         CheckpointTensors::Open(path, kEnough));
    EXPECT_EQ(tensors.path(), path);
    EXPECT_EQ(tensors.folder(), folder_);
    EXPECT_THAT(tensors.names(), ElementsAre("a", "b"));
    ExpectHolds(tensors.GetFloat("b"), 2.0f);
    ExpectHolds(tensors.GetShape("b"), int64_t{1});
    EXPECT_EQ(tensors.GetFloat("c").status().code(),
              absl::StatusCode::kNotFound);
  }
}

TEST_F(CheckpointTensorsTest, ShardsAreReadAsTheyAreAskedFor) {
  Write("model-00001-of-00002.safetensors", {{"a", 1}, {"b", 2}});
  Write("model-00002-of-00002.safetensors", {{"c", 3}});
  WriteText(kIndex, R"({"metadata": {"total_size": 12}, "weight_map": {
      "a": "model-00001-of-00002.safetensors",
      "b": "model-00001-of-00002.safetensors",
      "c": "model-00002-of-00002.safetensors",
      "d": "model-00002-of-00002.safetensors",
      "e": "model-00003-of-00002.safetensors"}})");
  ASSERT_OK_AND_ASSIGN(CheckpointTensors tensors,
                       CheckpointTensors::Open(folder_, kEnough));
  EXPECT_THAT(tensors.names(), ElementsAre("a", "b", "c", "d", "e"));
  ExpectHolds(tensors.GetFloat("c"), 3.0f);
  ExpectHolds(tensors.GetFloat("a"), 1.0f);
  ExpectHolds(tensors.GetFloat("b"), 2.0f);
  EXPECT_THAT(tensors.GetFloat("d"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no tensor d")));
  EXPECT_EQ(tensors.GetFloat("e").status().code(), absl::StatusCode::kNotFound);
  // What failed leaves the others as they were.
  ExpectHolds(tensors.GetFloat("c"), 3.0f);
}

TEST_F(CheckpointTensorsTest, ShardsOutsideTheFolderAreRefused) {
  Write("a.safetensors", {{"a", 1}});
  for (const char* shard :
       {R"("../a.safetensors")", R"("/etc/passwd")", R"("x/a.safetensors")",
        R"("..")", R"(".")", R"("")", R"("a\u0000.safetensors")", "7", "null",
        R"(["a.safetensors"])"}) {
    WriteText(kIndex, absl::StrCat(R"({"weight_map": {"a": )", shard, "}}"));
    EXPECT_THAT(CheckpointTensors::Open(folder_, kEnough),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("expected names of files")))
        << shard;
  }
}

TEST_F(CheckpointTensorsTest, MalformedFiles) {
  EXPECT_EQ(CheckpointTensors::Open(folder_, kEnough).status().code(),
            absl::StatusCode::kNotFound);
  for (const char* index : {"", "[", "[]", "{}", R"({"weight_map": []})"}) {
    WriteText(kIndex, index);
    EXPECT_EQ(CheckpointTensors::Open(folder_, kEnough).status().code(),
              absl::StatusCode::kDataLoss)
        << index;
  }
  WriteText("model.safetensors", "nothing");
  EXPECT_THAT(
      CheckpointTensors::Open(folder_, kEnough),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("model.safetensors")));
}

TEST_F(CheckpointTensorsTest, NoFileAboveTheLimitIsRead) {
  Write("model.safetensors", {{"a", 1}});
  const int64_t size = static_cast<int64_t>(
      std::filesystem::file_size(folder_ + "/model.safetensors"));
  EXPECT_OK(CheckpointTensors::Open(folder_, size));
  EXPECT_EQ(CheckpointTensors::Open(folder_, size - 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  std::filesystem::rename(folder_ + "/model.safetensors",
                          folder_ + "/shard.safetensors");
  WriteText(kIndex, R"({"weight_map": {"a": "shard.safetensors"}})");
  ASSERT_OK_AND_ASSIGN(CheckpointTensors tensors,
                       CheckpointTensors::Open(folder_, size - 1));
  EXPECT_EQ(tensors.GetFloat("a").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace comera::trainer
