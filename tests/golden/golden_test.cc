// Checks small golden files made here, and that wrong ones are reported.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_check.h"
#include "tests/golden/reference_model.h"

namespace comera::golden {
namespace {

using ::testing::HasSubstr;

// The folder below golden/, or "" where it is not.
std::string GoldenFolder(const std::string& name) {
  const char* shared = std::getenv("COMERA_SHARED_DIR");
  if (shared == nullptr) return "";
  const std::string folder = std::string(shared) + "/golden" + name;
  return std::filesystem::is_directory(folder) ? folder : "";
}

constexpr char kNotHere[] =
    "golden files are not here: set COMERA_SHARED_DIR to the folder that holds "
    "golden/";

TEST(GoldenTest, PublishedCodeAgrees) {
  const std::string folder = GoldenFolder("");
  if (folder.empty()) GTEST_SKIP() << kNotHere;
  std::ostringstream out;
  Report report(&out);
  ASSERT_OK(CheckFolder(folder, CpuFactory, &report));
  EXPECT_EQ(report.failed(), 0) << out.str();
  EXPECT_EQ(report.skipped(), 0) << out.str();
  EXPECT_GT(report.passed(), 0);
}

TEST(GoldenTest, PublishedMethodsAgree) {
  const std::string folder = GoldenFolder("/methods");
  if (folder.empty()) GTEST_SKIP() << kNotHere;
  std::ostringstream out;
  Report report(&out);
  ASSERT_OK(CheckFolder(folder, CpuFactory, &report));
  EXPECT_EQ(report.failed(), 0) << out.str();
  // Three topics of about fifty comparisons each.
  EXPECT_GT(report.passed(), 150) << out.str();
}

// With the comparisons that each folder's files give.
TEST(GoldenTest, PublishedLanguageModelsAgree) {
  if (GoldenFolder("/causal_lm").empty()) GTEST_SKIP() << kNotHere;
  for (const auto& [topic, comparisons] :
       {std::pair{"llama_step", 266}, std::pair{"gpt2_step", 218},
        std::pair{"llama_tt_step", 190}}) {
    const std::string folder = GoldenFolder("/causal_lm/" + std::string(topic));
    std::ostringstream out;
    Report report(&out);
    ASSERT_OK(CheckFolder(folder, CpuFactory, &report));
    EXPECT_EQ(report.failed(), 0) << out.str();
    EXPECT_EQ(report.skipped(), 0) << out.str();
    EXPECT_GE(report.passed(), comparisons) << out.str();
  }
}

TEST(GoldenTest, NamesAreTranslated) {
  EXPECT_EQ(OurName("encoder.encoder_blocks.1.slf_attn.fc.layer.tensor."
                    "rank_parameters.2"),
            "encoder.layers.1.attention.output.rank.2");
  EXPECT_EQ(OurName("encoder.encoder_blocks.0.pos_ffn.layer_norm.weight"),
            "encoder.layers.0.ffn.norm.gamma");
  EXPECT_EQ(OurName("classifier.fc1.layer.tensor.factors.0"),
            "head.fc1.core.0");
}

// W = g0 * d * g1 with 1 x 1 modes, so that y = x g0 d g1 + bias.
Safetensors OneByOne(float y) {
  Safetensors file;
  const auto add = [&](const char* name, std::vector<int64_t> shape, float v) {
    EXPECT_OK(file.AddFloat(name, shape, &v, 1));
  };
  file.metadata() = {{"kind", "tt_linear"},
                     {"shape", "[1, 1]"},
                     {"ranks", "[1, 1, 1]"},
                     {"threshold", "0.01"}};
  add("x", {1, 1}, 2);
  add("core.0", {1, 1, 1}, 3);
  add("core.1", {1, 1, 1}, 5);
  add("rank.0", {1}, 0.5);
  add("bias", {1}, 1);
  add("y", {1, 1}, y);
  add("grad_y", {1, 1}, 10);
  add("grad_x", {1, 1}, 75);
  add("grad_bias", {1}, 10);
  add("grad_core.0", {1, 1, 1}, 50);
  add("grad_core.1", {1, 1, 1}, 30);
  add("grad_rank.0", {1}, 300);
  return file;
}

class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/golden_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string folder_;
  std::ostringstream out_;
  Report report_{&out_};
};

TEST_F(FolderTest, AgreementPasses) {
  ASSERT_OK(OneByOne(16).WriteAtomically(folder_ + "/a.safetensors"));
  ASSERT_OK(CheckFolder(folder_, CpuFactory, &report_));
  EXPECT_EQ(report_.failed(), 0) << out_.str();
  EXPECT_EQ(report_.passed(), 6);
}

TEST_F(FolderTest, AWrongTensorFails) {
  ASSERT_OK(OneByOne(16.01f).WriteAtomically(folder_ + "/a.safetensors"));
  ASSERT_OK(CheckFolder(folder_, CpuFactory, &report_));
  EXPECT_EQ(report_.failed(), 1);
  EXPECT_THAT(out_.str(), HasSubstr("FAIL  a  y"));
}

TEST_F(FolderTest, BrokenFilesFail) {
  Safetensors file = OneByOne(16);
  file.metadata()["ranks"] = "[1, 2, 1]";
  ASSERT_OK(file.WriteAtomically(folder_ + "/sizes.safetensors"));
  file.metadata()["kind"] = "encoder_classifier";
  ASSERT_OK(file.WriteAtomically(folder_ + "/no_config.safetensors"));
  file.metadata()["topic"] = "llama_step";
  ASSERT_OK(file.WriteAtomically(folder_ + "/no_decoder.safetensors"));
  std::ofstream(folder_ + "/junk.safetensors") << "junk";
  ASSERT_OK(CheckFolder(folder_, CpuFactory, &report_));
  EXPECT_EQ(report_.failed(), 4);
  EXPECT_EQ(report_.passed(), 0);
}

TEST_F(FolderTest, AnEmptyFolderIsAnError) {
  EXPECT_THAT(CheckFolder(folder_, CpuFactory, &report_),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace comera::golden
