// Checks keys from files in AWS's format, and the URLs of objects.

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "common/files.h"
#include "common/object_store/s3_credentials.h"
#include "common/object_store/s3_endpoint.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

class S3CredentialsTest : public ::testing::Test {
 protected:
  S3CredentialsTest() {
    folder_ = ::testing::TempDir() + "/s3_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~S3CredentialsTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<S3Credentials> Read(const std::string& contents,
                                     mode_t mode = 0600) {
    const std::string path = folder_ + "/credentials";
    EXPECT_OK(WriteFileAtomically(path, contents));
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return ReadS3CredentialsFile(path);
  }

  std::string folder_;
};

TEST_F(S3CredentialsTest, TheDefaultProfileCounts) {
  ASSERT_OK_AND_ASSIGN(const S3Credentials credentials,
                       Read("# a comment\n"
                            "[other]\naws_access_key_id = no\n"
                            "[default]\r\n"
                            "AWS_ACCESS_KEY_ID=AKIA1\r\n"
                            "  aws_secret_access_key = a/b+c=d \n"
                            "; another\n"
                            "region = eu-west-9\n"
                            "aws_session_token = t==\n"
                            "[third]\naws_secret_access_key = no"));
  EXPECT_EQ(credentials.access_key_id, "AKIA1");
  EXPECT_EQ(credentials.secret_access_key, "a/b+c=d");
  EXPECT_EQ(credentials.session_token, "t==");
}

TEST_F(S3CredentialsTest, FilesOpenToOthersAreRefused) {
  const std::string key =
      "[default]\naws_access_key_id=a\naws_secret_access_key=b\n";
  for (const mode_t mode : {0400, 0440, 0640}) {
    EXPECT_OK(Read(key, mode)) << mode;
  }
  for (const mode_t mode : {0604, 0620, 0660, 0641, 0650, 0666}) {
    EXPECT_THAT(Read(key, mode),
                StatusIs(Code::kFailedPrecondition, HasSubstr("chmod 600")))
        << mode;
  }
}

TEST_F(S3CredentialsTest, MalformedFilesAreRefusedWithoutTheirContents) {
  for (const std::string& contents :
       {std::string("[default]\naws_access_key_id=HUSH\n"),
        std::string("[default]\naws_secret_access_key=HUSH\n"),
        std::string("[default]\nHUSH\n"), std::string("[x]\na=HUSH\n"),
        std::string("[default]\naws_access_key_id=HUSH\n"
                    "aws_secret_access_key=HUSH HUSH\n"),
        std::string("[default]\naws_access_key_id=HU\rSH\n"
                    "aws_secret_access_key=HUSH\n"),
        std::string(), std::string(100000, '#')}) {
    const absl::StatusOr<S3Credentials> read = Read(contents);
    EXPECT_THAT(read, StatusIs(Code::kInvalidArgument)) << contents;
    EXPECT_THAT(read.status().ToString(), Not(HasSubstr("HUSH")));
  }
  EXPECT_THAT(Read("[default]\n\nHUSH\n"),
              StatusIs(Code::kInvalidArgument, HasSubstr("credentials:3:")));
  EXPECT_THAT(ReadS3CredentialsFile(folder_ + "/none"),
              StatusIs(Code::kNotFound));
  EXPECT_THAT(ReadS3CredentialsFile(folder_), StatusIs(Code::kInvalidArgument));
}

TEST(S3EndpointTest, UrlsAreThoseOfTheService) {
  ASSERT_OK_AND_ASSIGN(const S3Endpoint aws,
                       S3Endpoint::Create("", "eu-west-9"));
  EXPECT_EQ(aws.Url("corpora", "/a/b%20c"),
            "https://corpora.s3.eu-west-9.amazonaws.com/a/b%20c");
  EXPECT_EQ(aws.Url("my.corpora", "/a"),
            "https://s3.eu-west-9.amazonaws.com/my.corpora/a");
  EXPECT_FALSE(aws.plain_http());
  ASSERT_OK_AND_ASSIGN(const S3Endpoint own,
                       S3Endpoint::Create("http://minio:9000/", "r"));
  EXPECT_EQ(own.Url("corpora", "/a"), "http://minio:9000/corpora/a");
  EXPECT_TRUE(own.plain_http());
}

TEST(S3EndpointTest, MalformedOnesAreRefused) {
  for (const char* endpoint :
       {"minio:9000", "ftp://minio", "https://", "http://u:p@minio",
        "https://minio/path", "https://minio?x", "https://mi nio"}) {
    EXPECT_THAT(S3Endpoint::Create(endpoint, "r"),
                StatusIs(Code::kInvalidArgument, HasSubstr("s3_endpoint")))
        << endpoint;
  }
  for (const char* region : {"", "a:b", "a/b", "a b"}) {
    EXPECT_THAT(S3Endpoint::Create("", region),
                StatusIs(Code::kInvalidArgument, HasSubstr("s3_region")));
  }
}

}  // namespace
}  // namespace comera::worker
