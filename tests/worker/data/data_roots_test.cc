// Checks which paths jobs may read, with links and missing files.

#include "worker/data/data_roots.h"

#include <filesystem>
#include <fstream>
#include <utility>

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
    folder_ = fs::canonical(folder_).string();
    for (const char* name :
         {"/open", "/open/sub", "/openness", "/closed", "/daemon"}) {
      fs::create_directories(folder_ + name);
      Write(folder_ + name + "/train.jsonl");
    }
  }
  ~DataRootsTest() override { fs::remove_all(folder_); }

  static void Write(const std::string& path) { std::ofstream(path) << "{}\n"; }

  // Roots of a daemon that keeps its own files in /daemon and a key in
  // /open/key.pem.
  absl::StatusOr<DataRoots> Make(const std::vector<std::string>& roots) const {
    DataRoots::Options options;
    options.folders = roots;
    options.own = {folder_ + "/daemon", "", folder_ + "/open/key.pem"};
    options.views = folder_ + "/daemon/datasets/views";
    if (!mount_info_.empty()) options.mount_info = mount_info_;
    return DataRoots::Create(options);
  }
  absl::Status Check(const std::string& path,
                     const std::vector<std::string>& roots) const {
    const auto made = Make(roots);
    EXPECT_OK(made);
    v1::JobSpec spec;
    spec.mutable_data()->mutable_jsonl()->set_train(path);
    return made->Check(spec);
  }
  absl::Status Check(const std::string& path) const {
    return Check(path, {folder_ + "/open"});
  }
  absl::Status CheckText(const std::string& path,
                         const std::vector<std::string>& roots) const {
    v1::JobSpec spec;
    spec.mutable_data()->mutable_text()->add_train(path);
    return Make(roots)->Check(spec);
  }
  absl::Status CheckCode(const std::string& path,
                         const std::vector<std::string>& roots) const {
    v1::JobSpec spec;
    spec.mutable_data()->mutable_code_directory()->add_roots(path);
    return Make(roots)->Check(spec);
  }
  absl::Status CheckWeights(const std::string& path,
                            const std::vector<std::string>& roots) const {
    v1::JobSpec spec;
    spec.mutable_initial_weights()->set_safetensors(path);
    return Make(roots)->Check(spec);
  }
  static auto IsRefused(const std::string& message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message));
  }

  std::string folder_;
  // Stands for the machine's own table of mounts if it is not empty.
  std::string mount_info_;
};

TEST_F(DataRootsTest, WithoutRootsNothingIsAllowed) {
  for (const std::string& path :
       {folder_ + "/open/train.jsonl", std::string("/etc/passwd"),
        std::string("/nonexistent"), std::string("train.jsonl"),
        std::string("datasets/a/train.jsonl")}) {
    EXPECT_THAT(Check(path, {}), IsRefused("data.jsonl.train: " + path));
  }
  const std::string message(Check("/etc/passwd", {}).message());
  EXPECT_THAT(message, HasSubstr("uploaded datasets only"));
  EXPECT_THAT(message, HasSubstr("--data_root=FOLDER"));
  EXPECT_THAT(message, HasSubstr("comera datasets upload"));
  // A default offers no more than an empty list.
  v1::JobSpec spec;
  EXPECT_OK(DataRoots().Check(spec));
  spec.mutable_data()->mutable_jsonl()->set_train("/etc/passwd");
  EXPECT_THAT(DataRoots().Check(spec), IsRefused("uploaded datasets only"));
}

TEST_F(DataRootsTest, WhatLiesBelowIsAllowed) {
  EXPECT_OK(Check(folder_ + "/open/train.jsonl"));
  EXPECT_OK(Check(folder_ + "/open/sub/../sub//./train.jsonl"));
  EXPECT_OK(Check(folder_ + "/closed/train.jsonl",
                  {folder_ + "/open", folder_ + "/closed"}));
  EXPECT_OK(Check(folder_ + "/open", {folder_ + "/open"}));
  EXPECT_OK(Check(folder_ + "/closed/train.jsonl", {"/"}));
  EXPECT_OK(Check(folder_ + "/open/sub/train.jsonl",
                  {folder_ + "/open", folder_ + "/open/sub"}));
}

TEST_F(DataRootsTest, LinksMayLeadFromRootToRootOnly) {
  fs::create_symlink("sub", folder_ + "/open/near");
  fs::create_symlink(folder_ + "/open/sub", folder_ + "/open/absolute");
  fs::create_symlink(folder_ + "/closed", folder_ + "/open/far");
  fs::create_symlink("../closed", folder_ + "/open/far-too");
  for (const char* link : {"near", "absolute"}) {
    EXPECT_OK(Check(folder_ + "/open/" + link + "/train.jsonl"));
  }
  for (const char* link : {"far", "far-too"}) {
    const std::string path = folder_ + "/open/" + link + "/train.jsonl";
    EXPECT_THAT(Check(path), Not(IsOk()));
    EXPECT_OK(Check(path, {folder_ + "/open", folder_ + "/closed"}));
    EXPECT_OK(Check(path, {"/"}));
  }
  // A root may be reached by a link, and be named by it.
  fs::create_symlink(folder_ + "/open", folder_ + "/alias");
  EXPECT_OK(Check(folder_ + "/alias/train.jsonl", {folder_ + "/alias"}));
  EXPECT_OK(Check(folder_ + "/open/train.jsonl", {folder_ + "/alias"}));
  // Elsewhere somebody else could turn the link round.
  EXPECT_THAT(Check(folder_ + "/alias/train.jsonl"), Not(IsOk()));
}

TEST_F(DataRootsTest, NothingElseIs) {
  fs::create_symlink(folder_ + "/closed", folder_ + "/open/way-out");
  fs::create_symlink("../closed/train.jsonl", folder_ + "/open/file-out");
  fs::create_symlink("loop", folder_ + "/open/loop");
  fs::create_symlink(folder_ + "/open/absolute-loop",
                     folder_ + "/open/absolute-loop");
  fs::create_symlink("/proc/self/root", folder_ + "/open/magic");
  for (const std::string& path :
       {folder_ + "/closed/train.jsonl",
        folder_ + "/openness/train.jsonl",
        folder_ + "/open/../closed/train.jsonl",
        folder_ + "/open/way-out/train.jsonl",
        folder_ + "/open/file-out",
        folder_ + "/open/loop",
        folder_ + "/open/absolute-loop",
        folder_ + "/open/magic" + folder_ + "/open/train.jsonl",
        folder_ + "/open/missing",
        folder_ + "/open/train.jsonl/more",
        folder_,
        std::string("/"),
        std::string("/etc/passwd"),
        folder_ + "/open/sub" + std::string(100000, '/') + "../../closed",
        folder_ + "/open/" + std::string(5000, 'x'),
        folder_ + std::string("/open/train.jsonl\0/../../../etc", 31),
        std::string("relative/train.jsonl"),
        std::string("../../etc/passwd"),
        std::string("datasets/../../../etc/passwd"),
        std::string("/proc/self/root/etc/passwd")}) {
    const absl::Status status = Check(path);
    EXPECT_THAT(status, IsRefused("data.jsonl.train")) << path.substr(0, 200);
    EXPECT_LT(status.message().size(), 2000u);
  }
  // The message does not reveal whether a file exists outside.
  const auto reason = [&](const std::string& path) {
    const std::string text(Check(path).message());
    return text.substr(text.find(path) + path.size());
  };
  EXPECT_EQ(reason("/etc/passwd"), reason("/etc/no-such-file"));
  EXPECT_THAT(reason(folder_ + "/open/missing"), HasSubstr("No such file"));
}

TEST_F(DataRootsTest, TheDaemonsOwnFilesAreRefusedBelowEveryRoot) {
  Write(folder_ + "/open/key.pem");
  fs::create_directories(folder_ + "/daemon/jobs/other/work");
  Write(folder_ + "/daemon/jobs/other/work/model.safetensors");
  fs::create_symlink("key.pem", folder_ + "/open/innocent");
  fs::create_hard_link(folder_ + "/open/key.pem", folder_ + "/open/twin");
  fs::create_symlink(folder_ + "/daemon", folder_ + "/alias");
  const std::string model = "/jobs/other/work/model.safetensors";
  for (const std::string& path :
       {folder_ + "/open/key.pem", folder_ + "/open/innocent",
        folder_ + "/open/twin", folder_ + "/daemon", folder_ + "/daemon/token",
        folder_ + "/daemon" + model, folder_ + "/alias" + model,
        folder_ + "/open/../daemon" + model,
        folder_ + "/daemon/datasets/blobs/ab",
        std::string("/proc/self/environ"),
        std::string("/proc/self/root") + folder_ + "/open/train.jsonl",
        std::string("/sys/kernel/mm"), std::string("/dev/null"),
        std::string("/dev/shm"), std::string("/proc/self/no-such-file")}) {
    EXPECT_THAT(CheckWeights(path, {"/"}),
                IsRefused("initial_weights.safetensors"))
        << path;
    // Not even whether a file exists is told.
    EXPECT_THAT(CheckWeights(path, {"/"}), Not(IsRefused("No such"))) << path;
  }
  // A new key in the old one's place is found too.
  const auto roots = Make({"/"});
  ASSERT_OK(roots);
  fs::remove(folder_ + "/open/key.pem");
  Write(folder_ + "/open/key.pem");
  v1::JobSpec spec;
  spec.mutable_data()->mutable_jsonl()->set_train(folder_ + "/open/innocent");
  EXPECT_THAT(roots->Check(spec), Not(IsOk()));
}

TEST_F(DataRootsTest, FoldersAndPatternsMayNotReachThem) {
  Write(folder_ + "/open/key.pem");
  EXPECT_OK(CheckCode(folder_ + "/open/sub", {"/"}));
  for (const std::string& path :
       {folder_, folder_ + "/open", folder_ + "/daemon", std::string("/")}) {
    EXPECT_THAT(CheckCode(path, {"/"}), IsRefused("data.code_directory.roots"))
        << path;
  }
  for (const char* pattern :
       {"/open/*.jsonl", "/open/*/*", "/clos*/*.jsonl", "/*.txt"}) {
    EXPECT_OK(CheckText(folder_ + pattern, {"/"})) << pattern;
  }
  for (const char* pattern :
       {"/daem*/jobs/*", "/*/*.jsonl", "/daemon/*", "/open/*", "/open/key.*",
        "/open/k[e]y.pem", "/open/sub/../*"}) {
    EXPECT_THAT(CheckText(folder_ + pattern, {"/"}),
                IsRefused("data.text.train[0]"))
        << pattern;
  }
  EXPECT_THAT(CheckText("/*/self/environ", {"/"}), Not(IsOk()));
  EXPECT_THAT(CheckText(folder_ + "/closed/*", {folder_ + "/open"}),
              Not(IsOk()));
}

TEST_F(DataRootsTest, MountsMayNotLeadFoldersAndPatternsToThem) {
  fs::create_directories(folder_ + "/closed/jail/proc");
  fs::create_directories(folder_ + "/open/mounted");
  mount_info_ = folder_ + "/mountinfo";
  // The whole of the file system is mounted below a root once more, a part of
  // the daemon's folder below another, and proc in a jail.
  std::ofstream(mount_info_)
      << "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:9 / /proc rw - proc p rw\n"
      << "3 1 8:1 " << folder_ << " " << folder_
      << "/open/mounted rw shared:1 - ext4 /dev/a rw\n"
      << "4 1 8:1 " << folder_ << "/daemon/jobs " << folder_
      << "/openness/jobs rw - ext4 /dev/a rw\n"
      << "5 1 0:10 / " << folder_ << "/closed/jail/proc rw - proc p rw\n";
  for (const char* place :
       {"/open", "/open/mounted", "/open/mounted/daemon", "/openness",
        "/closed", "/closed/jail", "/closed/jail/proc"}) {
    EXPECT_THAT(CheckCode(folder_ + place, {folder_}), Not(IsOk())) << place;
  }
  EXPECT_OK(CheckCode(folder_ + "/open/sub", {folder_}));
  for (const char* pattern :
       {"/closed/*/*/*/environ", "/closed/j*/proc/*", "/open/m*/*/train.jsonl",
        "/open/*/daemon/*", "/openness/j*/*"}) {
    EXPECT_THAT(CheckText(folder_ + pattern, {folder_}), Not(IsOk()))
        << pattern;
  }
  for (const char* pattern :
       {"/closed/*.jsonl", "/closed/*/*.jsonl", "/open/s*/*", "/openness/*.txt",
        "/open/*/closed/*"}) {
    EXPECT_OK(CheckText(folder_ + pattern, {folder_})) << pattern;
  }
  // Nothing is promised without the table.
  fs::remove(mount_info_);
  EXPECT_THAT(CheckCode(folder_ + "/open/sub", {folder_}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("mounts")));
}

TEST_F(DataRootsTest, ARootsLinkCountsAsItIsNow) {
  fs::create_directory_symlink(folder_ + "/open", folder_ + "/now");
  ASSERT_OK_AND_ASSIGN(const DataRoots roots, Make({folder_ + "/now"}));
  v1::JobSpec spec;
  spec.mutable_data()->mutable_jsonl()->set_train(folder_ +
                                                  "/now/sub/train.jsonl");
  EXPECT_OK(roots.Check(spec));
  fs::remove(folder_ + "/now");
  fs::create_directory_symlink(folder_ + "/closed", folder_ + "/now");
  EXPECT_THAT(roots.Check(spec), IsRefused("No such file"));
  spec.mutable_data()->mutable_jsonl()->set_train(folder_ + "/now/train.jsonl");
  EXPECT_OK(roots.Check(spec));
  spec.mutable_data()->mutable_jsonl()->set_train(folder_ +
                                                  "/open/train.jsonl");
  EXPECT_THAT(roots.Check(spec), Not(IsOk()));
  fs::remove(folder_ + "/now");
  fs::create_directory_symlink(folder_ + "/daemon", folder_ + "/now");
  spec.mutable_data()->mutable_jsonl()->set_train(folder_ + "/now/train.jsonl");
  EXPECT_THAT(roots.Check(spec), Not(IsOk()));
}

TEST_F(DataRootsTest, LinksInAModelsFolderMayNotLeadOut) {
  const std::string open = folder_ + "/open";
  Write(folder_ + "/open/key.pem");
  fs::create_directories(open + "/model");
  Write(open + "/model/config.json");
  fs::create_symlink("../sub/train.jsonl", open + "/model/model.safetensors");
  fs::create_symlink("missing", open + "/model/vocab.json");
  EXPECT_OK(CheckWeights(open + "/model", {open}));
  // Nothing reads this one.
  fs::create_symlink("/etc/passwd", open + "/model/README");
  EXPECT_OK(CheckWeights(open + "/model", {open}));
  using Case = std::pair<std::string, std::string>;
  for (const auto& [root, target] :
       {Case(open, folder_ + "/closed/train.jsonl"), Case(open, "/etc/passwd"),
        Case(open, open + "/key.pem"), Case("/", open + "/key.pem"),
        Case("/", "/proc/self/environ")}) {
    fs::create_symlink(target, open + "/model/part.safetensors");
    for (const char* name : {"/model", "/model/config.json"}) {
      EXPECT_THAT(CheckWeights(open + name, {root}),
                  IsRefused("part.safetensors"))
          << target;
    }
    fs::remove(open + "/model/part.safetensors");
  }
  fs::create_directories(open + "/shards");
  fs::create_symlink("/etc/passwd", open + "/shards/vocab.txt");
  v1::JobSpec spec;
  spec.mutable_data()->mutable_token_shards()->set_train(open + "/shards");
  EXPECT_THAT(Make({open})->Check(spec), IsRefused("vocab.txt"));
}

TEST_F(DataRootsTest, AJobReadsItsOwnDatasetsOnly) {
  const std::string mine(64, 'a'), other(64, 'b');
  const std::string views = folder_ + "/daemon/datasets/views/";
  for (const std::string& digest : {mine, other}) {
    fs::create_directories(views + digest);
    Write(views + digest + "/train.jsonl");
  }
  Write(folder_ + "/daemon/datasets/train.jsonl");
  google::protobuf::RepeatedPtrField<v1::DatasetPin> pins;
  pins.Add()->set_digest(mine);
  pins.Add()->set_digest("..");
  for (const std::vector<std::string>& roots :
       {std::vector<std::string>(), {folder_ + "/open"}, {"/"}}) {
    const auto made = Make(roots);
    ASSERT_OK(made);
    v1::JobSpec spec;
    std::string* const path =
        spec.mutable_data()->mutable_jsonl()->mutable_train();
    *path = views + mine + "/train.jsonl";
    EXPECT_OK(made->Check(spec, pins));
    EXPECT_THAT(made->Check(spec), Not(IsOk()));
    for (const std::string& wrong :
         {views + other + "/train.jsonl", views + mine + "/../" + other,
          views + mine + "/../../../train.jsonl", views + "../train.jsonl",
          folder_ + "/daemon/train.jsonl", views}) {
      *path = wrong;
      EXPECT_THAT(made->Check(spec, pins), Not(IsOk())) << wrong;
    }
  }
}

TEST_F(DataRootsTest, EveryPathOfASpecIsLookedAt) {
  ASSERT_OK_AND_ASSIGN(const DataRoots roots, Make({folder_ + "/open"}));
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

TEST_F(DataRootsTest, RootsMustBeFoldersThatCanBeOffered) {
  for (const std::string& root :
       {folder_ + "/open/train.jsonl", folder_ + "/missing", std::string(),
        folder_ + "/daemon", folder_ + "/daemon/datasets", std::string("/proc"),
        std::string("/sys/kernel"), std::string("/dev/shm")}) {
    fs::create_directories(folder_ + "/daemon/datasets");
    EXPECT_THAT(Make({folder_ + "/open", root}), IsRefused("--data_root="))
        << root;
  }
}

}  // namespace
}  // namespace comera::worker
