// Checks which paths jobs may read, with links and missing files.

#include "worker/data/data_roots.h"

#include <filesystem>
#include <fstream>

#include "common/status_matchers.h"
#include "gmock/gmock.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class DataRootsTest : public ::testing::Test {
 protected:
  DataRootsTest() {
    folder_ = ::testing::TempDir() + "/roots-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    for (const char* name : {"/open", "/open/sub", "/openness", "/closed"}) {
      fs::create_directories(folder_ + name);
      std::ofstream(folder_ + name + "/train.jsonl") << "{}\n";
    }
  }
  ~DataRootsTest() override { fs::remove_all(folder_); }

  absl::Status Check(const std::string& path,
                     const std::vector<std::string>& roots) const {
    const auto made = DataRoots::Create(roots);
    EXPECT_OK(made);
    v1::JobSpec spec;
    spec.mutable_data()->mutable_jsonl()->set_train(path);
    return made->Check(spec);
  }
  absl::Status Check(const std::string& path) const {
    return Check(path, {folder_ + "/open"});
  }

  std::string folder_;
};

TEST_F(DataRootsTest, WithoutRootsAllIsAllowed) {
  EXPECT_OK(Check("/etc/passwd", {}));
  EXPECT_OK(Check("/nonexistent", {}));
}

TEST_F(DataRootsTest, WhatLiesBelowIsAllowed) {
  EXPECT_OK(Check(folder_ + "/open/train.jsonl"));
  EXPECT_OK(Check(folder_ + "/open/sub/../sub//train.jsonl"));
  EXPECT_OK(Check(folder_ + "/closed/train.jsonl",
                  {folder_ + "/open", folder_ + "/closed"}));
  EXPECT_OK(Check(folder_ + "/open", {folder_ + "/open"}));
  // A link may point to what lies below a root, wherever the link itself is.
  fs::create_symlink(folder_ + "/open/sub", folder_ + "/way-in");
  EXPECT_OK(Check(folder_ + "/way-in/train.jsonl"));
  EXPECT_OK(Check(folder_ + "/open/train.jsonl", {folder_ + "/way-in", "/"}));
}

TEST_F(DataRootsTest, NothingElseIs) {
  fs::create_symlink(folder_ + "/closed", folder_ + "/open/way-out");
  fs::create_symlink("../closed/train.jsonl", folder_ + "/open/file-out");
  fs::create_symlink("loop", folder_ + "/open/loop");
  for (const std::string& path :
       {folder_ + "/closed/train.jsonl", folder_ + "/openness/train.jsonl",
        folder_ + "/open/../closed/train.jsonl",
        folder_ + "/open/way-out/train.jsonl", folder_ + "/open/file-out",
        folder_ + "/open/loop", folder_ + "/open/missing", folder_,
        std::string("/"), std::string("/etc/passwd"),
        folder_ + "/open/sub" + std::string(100000, '/') + "../../closed",
        folder_ + "/open/" + std::string(5000, 'x'),
        folder_ + std::string("/open/train.jsonl\0/../../../etc", 31),
        std::string("relative/train.jsonl"), std::string("../../etc/passwd"),
        std::string("/proc/self/root/etc/passwd")}) {
    const absl::Status status = Check(path);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("data.jsonl.train")))
        << path.substr(0, 200);
    EXPECT_LT(status.message().size(), 2000u);
  }
  // The message does not reveal whether a file exists.
  const auto reason = [&](const std::string& path) {
    const std::string text(Check(path).message());
    return text.substr(text.find(path) + path.size());
  };
  EXPECT_EQ(reason("/etc/passwd"), reason("/etc/no-such-file"));
}

TEST_F(DataRootsTest, EveryPathOfASpecIsLookedAt) {
  ASSERT_OK_AND_ASSIGN(const DataRoots roots,
                       DataRoots::Create({folder_ + "/open"}));
  const std::string good = folder_ + "/open/train.jsonl";
  v1::JobSpec spec;
  spec.mutable_data()->mutable_jsonl()->set_train(good);
  EXPECT_OK(roots.Check(spec));
  spec.mutable_data()->mutable_jsonl()->set_validation("/etc/passwd");
  EXPECT_THAT(roots.Check(spec), Not(IsOk()));
  spec.mutable_data()->mutable_jsonl()->set_validation(good);
  spec.mutable_data()->mutable_tokenizer()->set_merges_file("/etc/passwd");
  EXPECT_THAT(roots.Check(spec), Not(IsOk()));
  spec.mutable_data()->mutable_tokenizer()->clear_merges_file();
  spec.mutable_data()->mutable_tokenizer()->set_vocabulary_file("/etc/passwd");
  EXPECT_THAT(roots.Check(spec), Not(IsOk()));
  spec.mutable_data()->mutable_tokenizer()->clear_vocabulary_file();
  spec.mutable_initial_weights()->set_safetensors("/etc/passwd");
  EXPECT_THAT(roots.Check(spec), Not(IsOk()));
  spec.clear_initial_weights();
  spec.mutable_data()->mutable_code_directory()->add_roots(folder_ + "/open");
  EXPECT_OK(roots.Check(spec));
  spec.mutable_data()->mutable_code_directory()->add_roots("/usr/include");
  EXPECT_THAT(roots.Check(spec), Not(IsOk()));
}

TEST_F(DataRootsTest, RootsMustBeFolders) {
  for (const std::string& root :
       {folder_ + "/open/train.jsonl", folder_ + "/missing", std::string()}) {
    EXPECT_THAT(
        DataRoots::Create({root}),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data_root")));
  }
}

}  // namespace
}  // namespace comera::worker
