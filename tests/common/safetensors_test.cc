// Round-trips safetensors files and refuses malformed ones.

#include "common/safetensors.h"

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/status_matchers.h"

namespace comera {
namespace {

std::string WithHeader(const std::string& header, const std::string& data) {
  std::string contents(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(contents.data(), &size, 8);
  return contents + header + data;
}

Safetensors Sample() {
  Safetensors file;
  const std::vector<float> w = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> ids = {7, -8};
  EXPECT_OK(file.AddFloat("w", {2, 3}, w.data(), w.size()));
  EXPECT_OK(file.AddInt64("ids", {2}, ids.data(), ids.size()));
  EXPECT_OK(file.AddFloat("empty", {0, 4}, nullptr, 0));
  file.metadata()["kind"] = "sample";
  return file;
}

TEST(SafetensorsTest, RoundTripsThroughAFile) {
  const std::string path = ::testing::TempDir() + "/round.safetensors";
  ASSERT_OK(Sample().WriteAtomically(path));
  ASSERT_OK_AND_ASSIGN(const Safetensors file, Safetensors::Read(path));
  ASSERT_OK_AND_ASSIGN(const auto w, file.GetFloat("w"));
  EXPECT_EQ(w, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  ASSERT_OK_AND_ASSIGN(const auto ids, file.GetInt64("ids"));
  EXPECT_EQ(ids, (std::vector<int64_t>{7, -8}));
  ASSERT_OK_AND_ASSIGN(const auto shape, file.GetShape("empty"));
  EXPECT_EQ(shape, (std::vector<int64_t>{0, 4}));
  ASSERT_OK_AND_ASSIGN(const auto empty, file.GetFloat("empty"));
  EXPECT_TRUE(empty.empty());
  EXPECT_EQ(file.metadata().at("kind"), "sample");
}

TEST(SafetensorsTest, WrongNameOrTypeIsAnError) {
  const Safetensors file = Sample();
  EXPECT_THAT(file.GetFloat("v"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(file.GetFloat("ids"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SafetensorsTest, OtherFloatsAreConverted) {
  // The values 1, -2, half's smallest subnormal, infinity.
  const std::string half("\x00\x3c\x00\xc0\x01\x00\x00\x7c", 8);
  const std::string bfloat("\x80\x3f\x20\xc0", 4);  // 1, -2.5
  const double one_third = 1.0 / 3;
  std::string doubles(8, '\0');
  std::memcpy(doubles.data(), &one_third, 8);
  ASSERT_OK_AND_ASSIGN(
      const Safetensors file,
      Safetensors::Parse(WithHeader(
          R"({"h":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},)"
          R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},)"
          R"("d":{"dtype":"F64","shape":[1],"data_offsets":[12,20]},)"
          R"("m":{"dtype":"BOOL","shape":[1],"data_offsets":[20,21]}})",
          half + bfloat + doubles + '\1')));
  ASSERT_OK_AND_ASSIGN(const auto h, file.GetFloat("h"));
  EXPECT_EQ(h, (std::vector<float>{1, -2, 0x1p-24f,
                                   std::numeric_limits<float>::infinity()}));
  ASSERT_OK_AND_ASSIGN(const auto b, file.GetFloat("b"));
  EXPECT_EQ(b, (std::vector<float>{1, -2.5f}));
  ASSERT_OK_AND_ASSIGN(const auto d, file.GetFloat("d"));
  EXPECT_EQ(d, (std::vector<float>{1.0f / 3}));
  EXPECT_THAT(file.GetFloat("m"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SafetensorsTest, AddChecksShapeAndName) {
  Safetensors file = Sample();
  const float x = 1;
  EXPECT_THAT(file.AddFloat("x", {2}, &x, 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(file.AddFloat("w", {1}, &x, 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SafetensorsTest, EveryTruncationIsDataLoss) {
  const std::string whole = Sample().Serialize();
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_THAT(Safetensors::Parse(whole.substr(0, n)),
                StatusIs(absl::StatusCode::kDataLoss))
        << n;
  }
  EXPECT_THAT(Safetensors::Parse(whole + "x"),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(SafetensorsTest, BitFlipsInTheHeaderNeverCrash) {
  const std::string whole = Sample().Serialize();
  uint64_t header;
  std::memcpy(&header, whole.data(), 8);
  for (size_t i = 0; i < 8 + header; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const auto file = Safetensors::Parse(flipped);
      if (!file.ok()) {
        EXPECT_EQ(file.status().code(), absl::StatusCode::kDataLoss);
      }
    }
  }
}

TEST(SafetensorsTest, MalformedHeadersAreDataLoss) {
  const std::vector<std::string> headers = {
      "",
      "[]",
      "{",
      R"({"w":1})",
      R"({"w":{}})",
      R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})",
      R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
      R"({"w":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})",
      R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
      R"({"w":{"dtype":"F32","shape":[1e3],"data_offsets":[0,8]}})",
      R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],)"
      R"("data_offsets":[0,8]}})",
      R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
      R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
      R"({"w":{"dtype":"F32","shape":[18446744073709551615],)"
      R"("data_offsets":[0,8]}})",
      R"({"__metadata__":{"a":1}})",
  };
  for (const std::string& header : headers) {
    EXPECT_THAT(Safetensors::Parse(WithHeader(header, std::string(8, 'x'))),
                StatusIs(absl::StatusCode::kDataLoss))
        << header;
  }
}

TEST(FilesTest, Sha256OfKnownText) {
  EXPECT_EQ(Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(FilesTest, AtomicWriteReplacesAndLeavesNoTemporary) {
  const std::string folder = ::testing::TempDir() + "/files/a/b";
  ASSERT_OK(MakeDirectories(folder));
  ASSERT_OK(WriteFileAtomically(folder + "/f", "one"));
  ASSERT_OK(WriteFileAtomically(folder + "/f", "two"));
  ASSERT_OK_AND_ASSIGN(const std::string contents, ReadFile(folder + "/f"));
  EXPECT_EQ(contents, "two");
}

TEST(FilesTest, ErrorsNameTheFile) {
  EXPECT_THAT(ReadFile("/nonexistent/f"),
              StatusIs(absl::StatusCode::kNotFound,
                       ::testing::HasSubstr("/nonexistent/f")));
  EXPECT_THAT(WriteFileAtomically("/nonexistent/f", ""),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(MakeDirectories("/dev/null/x"),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace comera
