// Checks that addresses of data are parsed, normalised and compared so that no
// spelling leads out of an allowed prefix, and that errors repeat no secret.

#include "proto/data_url.h"

#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/validation/job_validation.h"
#include "tests/proto/sample_specs.h"
#include "tests/proto/validation/bad_specs.h"

namespace comera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

std::string Normal(const std::string& text) {
  const absl::StatusOr<DataUrl> url = ParseDataUrl(text);
  return url.ok() ? WithoutQuery(*url) : std::string(url.status().message());
}

TEST(DataUrlTest, AddressesAreNormalised) {
  EXPECT_EQ(Normal("https://Data.Example.COM:443/a/b.txt?x=1"),
            "https://data.example.com/a/b.txt");
  EXPECT_EQ(Normal("HTTPS://h:8443/%61%7e/%c3%A9%20+.txt"),
            "https://h:8443/a~/%C3%A9%20+.txt");
  EXPECT_EQ(Normal("https://[::1]:9/a"), "https://[::1]:9/a");
  EXPECT_EQ(Normal("s3://my.bucket/a b+%41=\xC3\xA9.txt"),
            "s3://my.bucket/a%20b%2B%2541%3D%C3%A9.txt");
  ASSERT_OK_AND_ASSIGN(const DataUrl url, ParseDataUrl("https://h/a?x=%31&y"));
  EXPECT_EQ(url.query, "x=%31&y");
  EXPECT_EQ(url.port, 443);
}

TEST(DataUrlTest, MalformedAndOtherAddressesAreRefused) {
  for (const char* text : {"https://",
                           "https:///a",
                           "https://h",
                           "https://h/",
                           "https://h/a/",
                           "https://h:0/a",
                           "https://h:65536/a",
                           "https://h:/a",
                           "https://h:1x/a",
                           "https://h..x/a",
                           "https://-h/a",
                           "https://h\\@x/a",
                           "https://h/a#b",
                           "https://h/a b",
                           "https://h/a\xC3\xA9",
                           "https://h/%",
                           "https://h/%4",
                           "https://h/%zz",
                           "https://h/a/../b",
                           "https://h/a/..;x/b",
                           "https://h/a/..%3bx=1/b",
                           "https://h/a/.;/b",
                           "https://h/./b",
                           "https://h/a/%2e%2E/b",
                           "https://h/a/.%2e/b",
                           "https://h/a%2Fb",
                           "https://h/a%5Cb",
                           "https://h/a%00",
                           "https://h/a%0a",
                           "https://h/*.txt",
                           "https://h/[a].txt",
                           "https://h/a?b=<",
                           "https://h\n/a",
                           "https://u@h/a",
                           "https://u:p@h/a",
                           "s3://",
                           "s3://bucket",
                           "s3://bucket/",
                           "s3://Bucket/a",
                           "s3://b/a",
                           "s3://buck..et/a",
                           "s3://bucket/a/",
                           "s3://bucket/../a",
                           "s3://bucket/..;/a",
                           "s3://bucket/a/./b",
                           "s3://bucket/a?b",
                           "s3://bucket/a*",
                           "s3://u@bucket/a",
                           "http://h/a",
                           "gs://bucket/a",
                           "ftp://h/a",
                           "file:///etc/passwd",
                           "://h/a",
                           "a",
                           ""}) {
    EXPECT_THAT(ParseDataUrl(text), StatusIs(Code::kInvalidArgument)) << text;
  }
  EXPECT_THAT(ParseDataUrl("https://h/" + std::string(2048, 'a')),
              StatusIs(Code::kInvalidArgument, HasSubstr("longer")));
}

TEST(DataUrlTest, CredentialsAreRefusedAndNeverRepeated) {
  for (const char* text :
       {"https://h/a?X-Amz-Signature=HUSH",
        "https://h/a?b=1&x-amz-credential=HUSH",
        "https://h/a?X-Amz-Security-Token=HUSH", "https://h/a?sv=1;sig=HUSH",
        "https://h/a?%53ignature=HUSH", "https://h/a?access_token=HUSH",
        "https://HUSH:HUSH@h/a", "https://h/HUSH a", "ftp://HUSH@h/a",
        "https://h/../HUSH", "s3://HUSH/a", "https://h/a?\"HUSH"}) {
    const absl::StatusOr<DataUrl> url = ParseDataUrl(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_THAT(url.status().ToString(), Not(HasSubstr("HUSH")));
  }
  // What only looks similar is none.
  EXPECT_OK(ParseDataUrl("https://h/a?tokens=3&design=b&download=true"));
}

bool Below(const std::string& text, const std::string& prefix) {
  const absl::StatusOr<DataUrl> url = ParseDataUrl(text);
  const absl::StatusOr<DataUrl> above = ParseDataUrlPrefix(prefix);
  EXPECT_TRUE(url.ok() && above.ok()) << text << " " << prefix;
  return url.ok() && above.ok() && IsBelow(*url, *above);
}

TEST(DataUrlTest, PrefixesEndAtWholeParts) {
  EXPECT_TRUE(Below("https://h/c/a", "https://h/c/"));
  EXPECT_TRUE(Below("https://H:443/%63/a?q", "https://h/c"));
  EXPECT_TRUE(Below("https://h/c", "https://h/c"));
  EXPECT_TRUE(Below("https://h/c/a", "https://h"));
  EXPECT_TRUE(Below("s3://bucket/a", "s3://bucket"));
  EXPECT_TRUE(Below("s3://bucket/a b/c", "s3://bucket/a b/"));
  EXPECT_FALSE(Below("https://h/cc/a", "https://h/c"));
  EXPECT_FALSE(Below("https://h/C/a", "https://h/c"));
  EXPECT_FALSE(Below("https://h.evil.com/c/a", "https://h/c/"));
  EXPECT_FALSE(Below("https://evil.h/c/a", "https://h/c/"));
  EXPECT_FALSE(Below("https://h:8443/c/a", "https://h/c/"));
  EXPECT_FALSE(Below("s3://buckets/a", "s3://bucket/"));
  EXPECT_FALSE(Below("s3://bucket/c/a", "https://bucket/c/"));
  EXPECT_THAT(ParseDataUrlPrefix("https://h/c?x=1"),
              StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(ParseDataUrlPrefix("http://h/"),
              StatusIs(Code::kInvalidArgument, HasSubstr("http://")));
}

TEST(DataUrlTest, NamesOfFilesAreHarmless) {
  const auto name = [](const std::string& text) {
    return FileName(*ParseDataUrl(text));
  };
  EXPECT_EQ(name("https://h/a/train.jsonl.gz?x"), "train.jsonl.gz");
  EXPECT_EQ(name("s3://bucket/a/x y\"$.csv"), "x_20y_22_24.csv");
  EXPECT_EQ(name("s3://bucket/.hidden"), "_hidden");
  EXPECT_EQ(name("s3://bucket/" + std::string(300, 'a') + ".tsv"),
            std::string(124, 'a') + ".tsv");
}

TEST(DataUrlTest, FetchedFilesAreTold) {
  const std::string digest(64, 'a');
  EXPECT_EQ(FetchedUrlDigest("/w/datasets/views/" + digest + "/.url/t.txt"),
            digest);
  for (const std::string& path :
       {"/w/datasets/views/" + digest + "/t.txt",
        "/w/datasets/blobs/" + digest + "/.url/t.txt",
        std::string("/w/datasets/views/short/.url/t.txt"),
        std::string("/t.txt"), std::string()}) {
    EXPECT_EQ(FetchedUrlDigest(path), "") << path;
  }
}

TEST(DataUrlTest, FilesOfDatasetsAreToldWithoutTheMachine) {
  const std::string digest(64, 'a');
  EXPECT_EQ(WithoutCache("/w/datasets/views/" + digest), digest);
  EXPECT_EQ(WithoutCache("/w/datasets/views/" + digest + "/a/t.txt"),
            digest + "/a/t.txt");
  for (const std::string& path :
       {"/w/views/" + digest + "b/t.txt", std::string("/w/views/a/t.txt"),
        std::string("/w/views/"), std::string("/t.txt"), std::string()}) {
    EXPECT_EQ(WithoutCache(path), path);
  }
}

TEST(DataUrlTest, JobsMayNameFilesByUrlAndNothingElse) {
  Spec sound = CausalLmSpec();
  sound.mutable_data()->mutable_text()->clear_train();
  sound.mutable_data()->mutable_text()->add_train("https://h/a.txt?x=1");
  sound.mutable_data()->mutable_text()->add_train("s3://bucket/a.txt");
  EXPECT_EQ(Describe(ValidateJobSpec(sound)), "");
  for (const char* url : {"gs://bucket/a.txt", "ftp://h/a", "http://h/a",
                          "https://h/a?X-Amz-Signature=HUSH",
                          "https://u:HUSH@h/a", "s3://bucket/*.txt"}) {
    Spec spec = sound;
    spec.mutable_data()->mutable_text()->set_train(1, url);
    const std::string found = Describe(ValidateJobSpec(spec));
    EXPECT_THAT(found, HasSubstr("data.text.train[1]: ")) << url;
    EXPECT_THAT(found, Not(HasSubstr("HUSH")));
  }
  Spec unknown = sound;
  unknown.mutable_data()->mutable_text()->set_train(0, "gs://bucket/a.txt");
  EXPECT_THAT(Describe(ValidateJobSpec(unknown)),
              HasSubstr("gs:// is not supported, only https:// and s3://"));
  ExpectRefused(sound, {{"data.token_shards.train", [](Spec& spec) {
                           v1::TokenShards& shards =
                               *spec.mutable_data()->mutable_token_shards();
                           shards.set_train("s3://bucket/shards");
                         }}});
}

}  // namespace
}  // namespace comera
