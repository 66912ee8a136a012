// Runs the verbs of the CLI that put models into a bucket, against a fake
// TrainingService and s3rver.

#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/main/cli.h"
#include "common/files.h"
#include "common/object_store/object_client.h"
#include "common/object_store/s3_bucket.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_training_service.h"
#include "tests/security/certificates.h"
#include "tests/worker/object_store/s3_server_process.h"
#include "tests/worker/object_store/tls_front.h"

namespace comera::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecret[] = "wJalr/XUtnFEMI+K7MDENG";
constexpr char kRegion[] = "eu-west-9";

struct Outcome {
  int code;
  std::string err;
};

class BucketCliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("no_proxy", "*", 1);
    const std::string absent = S3ServerProcess::Absent();
    if (!absent.empty()) GTEST_SKIP() << "no server of S3 here: " << absent;
    folder_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/bucket_XXXXXX");
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    server_ = std::make_unique<S3ServerProcess>(folder_ + "/objects", kSecret);
    ASSERT_NE(server_->port(), "");
    endpoint_ = server_->endpoint();
    files_ = {{"config.json", "{\"a\": 1}"}, {"model.safetensors", "weights"}};
  }
  void TearDown() override {
    service_.Shutdown();
    server_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // Serves a job with one model, whose files are files_.
  void ServeModel() {
    service_.get_job = [&](const v1::GetJobRequest& request, v1::Job* job) {
      job->set_name(request.name());
      job->set_state(v1::SUCCEEDED);
      v1::Artifact* model = job->add_models();
      model->set_name("jobs/abc/models/final");
      for (const auto& [path, contents] : files_) {
        v1::ArtifactFile* file = model->add_files();
        file->set_path(path);
        file->set_size_bytes(static_cast<int64_t>(contents.size()));
        file->set_sha256(Sha256Hex(contents));
      }
      return grpc::Status::OK;
    };
    service_.download = [&](const v1::DownloadArtifactRequest& request,
                            grpc::ServerContext*, auto* writer) {
      v1::DownloadArtifactResponse response;
      response.set_data(files_[request.path()]);
      writer->Write(response);
      return grpc::Status::OK;
    };
    address_ = service_.Start();
  }

  Outcome Run(const std::string& args) {
    std::ostringstream out, err;
    Environment environment;
    environment.out = &out;
    environment.err = &err;
    environment.server = address_;
    environment.working_folder = folder_;
    environment.state_folder = folder_ + "/state";
    environment.binary_folder = "/nonexistent";
    environment.s3_key = key_;
    std::vector<std::string> split =
        absl::StrSplit(args, ' ', absl::SkipEmpty());
    if (absl::StrContains(args, "://")) {
      split.push_back("--s3-endpoint=" + endpoint_);
      split.push_back(absl::StrCat("--s3-region=", kRegion));
    }
    service_.Settle();
    const int code = RunCli(split, environment);
    service_.Settle();
    EXPECT_THAT(err.str(), Not(HasSubstr(kSecret)));
    return {code, err.str()};
  }

  // The object's contents; empty if there is none.
  std::string Object(const std::string& key) {
    const std::atomic<bool> never{false};
    S3Bucket::Options options;
    options.bucket = "bucket";
    const S3Bucket bucket(options,
                          *S3Endpoint::Create(server_->endpoint(), kRegion),
                          S3KeySource("", {"S3RVER", kSecret, ""}));
    const absl::StatusOr<ObjectLocation> location = bucket.Locate(key);
    EXPECT_OK(location);
    const ObjectClient client{ObjectClient::Options()};
    const absl::StatusOr<ObjectVersion> version = client.Head(*location, never);
    if (!version.ok()) return "";
    std::string contents;
    EXPECT_OK(
        client.Get(*location, *version, 0, never, [&](absl::string_view data) {
          absl::StrAppend(&contents, data);
          return absl::OkStatus();
        }));
    return contents;
  }
  // The keys of the uploads that have ended, in their order.
  std::vector<std::string> Uploaded() const {
    std::vector<std::string> keys;
    const absl::StatusOr<std::string> log =
        ReadFile(folder_ + "/objects.requests");
    for (const absl::string_view line :
         absl::StrSplit(log.ok() ? *log : "", '\n')) {
      if (absl::StartsWith(line, "POST /bucket/") &&
          absl::StrContains(line, "?uploadId=")) {
        keys.emplace_back(line.substr(13, line.find('?') - 13));
      }
    }
    return keys;
  }

  // A program that exports as comera-trainer does: two files.
  std::string Trainer() {
    const std::string path = folder_ + "/trainer";
    std::ofstream(path)
        << "#!/bin/sh\n"
           "for argument; do case $argument in\n"
           "--to=*) to=${argument#--to=};;\n"
           "esac; done\n"
           "mkdir -p \"$to\"\n"
           "printf '{}' > \"$to/config.json\"\n"
           "printf 'dense weights' > \"$to/model.safetensors\"\n";
    EXPECT_EQ(chmod(path.c_str(), 0700), 0);
    return path;
  }

  std::string folder_, endpoint_, address_;
  S3Credentials key_ = {"S3RVER", kSecret, ""};
  std::map<std::string, std::string> files_;
  FakeTrainingService service_;
  std::unique_ptr<S3ServerProcess> server_;
};

TEST_F(BucketCliTest, AModelIsDownloadedToABucket) {
  ServeModel();
  // A part that arrives damaged is sent again, and a busy server is waited for.
  server_->SetFaults(
      "1 garble ^PUT .*model.safetensors\n2 503 ^POST .*config\n");
  const std::string command = "models abc --download s3://bucket/team/one";
  const Outcome first = Run(command);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("to s3://bucket/team/one, 2 new files"));
  EXPECT_EQ(server_->CountRequests("PUT /bucket/team/one/model"), 2);
  EXPECT_EQ(Object("team/one/model.safetensors"), "weights");
  EXPECT_EQ(Object("team/one/config.json"), "{\"a\": 1}");
  // A reader that finds the configuration finds all.
  EXPECT_THAT(Uploaded(), ElementsAre("team/one/model.safetensors",
                                      "team/one/config.json"));
  const Outcome again = Run(command);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("0 new files"));
}

TEST_F(BucketCliTest, AnotherModelIsOverwrittenByForceOnly) {
  ServeModel();
  const std::string command = "models abc --download s3://bucket/m";
  ASSERT_EQ(Run(command).code, 0);
  // The file is as long as the one that is there.
  files_["model.safetensors"] = "WEIGHTS";
  const Outcome refused = Run(command);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("another model: its model.safetensors"),
                    HasSubstr("--force")));
  EXPECT_EQ(Object("m/model.safetensors"), "weights");
  EXPECT_EQ(Object("m/config.json"), "{\"a\": 1}");
  files_["config.json"] = "{\"a\": 2, \"b\": 1}";
  const Outcome forced = Run(command + " --force");
  EXPECT_EQ(forced.code, 0) << forced.err;
  EXPECT_EQ(Object("m/model.safetensors"), "WEIGHTS");
  EXPECT_EQ(Object("m/config.json"), "{\"a\": 2, \"b\": 1}");
  // Nobody has seen the old configuration beside the new files.
  EXPECT_EQ(server_->CountRequests("DELETE /bucket/m/config.json"), 1);
}

TEST_F(BucketCliTest, AnExportGoesToABucket) {
  std::filesystem::create_directories(folder_ + "/model");
  std::ofstream(folder_ + "/model/config.json") << "{}";
  const std::string command =
      absl::StrCat("export ", folder_, "/model --format hf --trainer-binary ",
                   Trainer(), " --to ");
  const Outcome written = Run(command + "s3://bucket/hf");
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_THAT(written.err, HasSubstr("written to s3://bucket/hf, 2 new files"));
  EXPECT_EQ(Object("hf/model.safetensors"), "dense weights");
  // What lay on this machine meanwhile is gone.
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/state"));
  EXPECT_EQ(Run(command + "s3://bucket/hf").code, 0);
  const Outcome local = Run(command + folder_ + "/out --force");
  EXPECT_EQ(local.code, 2);
  EXPECT_THAT(local.err, HasSubstr("--force goes with --to s3://"));
  const Outcome events =
      Run("export abc --format tensorboard --to s3://bucket/t");
  EXPECT_EQ(events.code, 2);
  EXPECT_THAT(events.err, HasSubstr("written into a folder"));
}

TEST_F(BucketCliTest, WhatCannotWorkIsSaidBeforeAnythingRuns) {
  ServeModel();
  const std::string command = "models abc --download ";
  const Outcome scheme = Run(command + "https://bucket/m");
  EXPECT_EQ(scheme.code, 1);
  EXPECT_THAT(scheme.err, HasSubstr("s3://BUCKET/FOLDER"));
  const Outcome folder = Run(command + "s3://bucket/a//b");
  EXPECT_EQ(folder.code, 1);
  EXPECT_THAT(folder.err, HasSubstr("the folder must consist of"));
  const Outcome bucket = Run(command + "s3://no-such-bucket/m");
  EXPECT_EQ(bucket.code, 5) << bucket.err;
  EXPECT_THAT(bucket.err, HasSubstr("NoSuchBucket"));
  key_.secret_access_key = "another";
  const Outcome key = Run(command + "s3://bucket/m");
  EXPECT_EQ(key.code, 4);
  EXPECT_THAT(key.err, HasSubstr("s3://bucket/m: the server answers with HTTP "
                                 "403"));
  key_ = {};
  const Outcome none = Run(command + "s3://bucket/m");
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("AWS_ACCESS_KEY_ID"));
  const Outcome file =
      Run(command + "s3://bucket/m --s3-credentials-file " + folder_ + "/none");
  EXPECT_NE(file.code, 0);
  EXPECT_THAT(file.err, HasSubstr("--s3-credentials-file"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/state/models"));
}

TEST_F(BucketCliTest, TheBucketsCertificateIsVerified) {
  ServeModel();
  Certificates certificates(folder_);
  certificates.Issue("server", "IP:127.0.0.1");
  const TlsFront front(certificates.Certificate("server"),
                       certificates.Key("server"), server_->port(),
                       folder_ + "/front.log");
  ASSERT_NE(front.port(), "");
  endpoint_ = front.endpoint();
  const std::string command = "models abc --download s3://bucket/m";
  const Outcome refused = Run(command);
  EXPECT_EQ(refused.code, 4);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("certificate is not trusted"),
                                 HasSubstr("--data-ca")));
  const Outcome trusted =
      Run(command + " --data-ca " + certificates.Authority());
  EXPECT_EQ(trusted.code, 0) << trusted.err;
  EXPECT_EQ(Object("m/model.safetensors"), "weights");
}

}  // namespace
}  // namespace comera::client
