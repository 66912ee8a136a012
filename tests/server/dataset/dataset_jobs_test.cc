// Jobs that name datasets.
#include "absl/time/clock.h"
#include "comera/rpc/error_details.pb.h"
#include "gmock/gmock.h"
#include "tests/server/dataset/dataset_fixture.h"

namespace comera::server {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

v1::JobSpec SpecOn(const std::string& root) {
  v1::JobSpec spec = TestSpec(1);
  spec.mutable_data()->mutable_code_directory()->set_roots(0, root);
  return spec;
}

class DatasetJobsTest : public DatasetFixture {
 protected:
  grpc::Status TryCreate(const v1::JobSpec& spec, bool validate_only = false) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    request.set_validate_only(validate_only);
    v1::Job job;
    return training_->CreateJob(Context().get(), request, &job);
  }
};

TEST_F(DatasetJobsTest, LaterVersionsDoNotChangeAQueuedJob) {
  UploadDataset("code", {{"src/a.h", "int a;\n"}});
  const v1::Job job = Create(SpecOn("datasets/code/src"));
  ASSERT_EQ(job.datasets_size(), 1);
  EXPECT_EQ(job.datasets(0).reference(), "datasets/code");
  EXPECT_EQ(job.datasets(0).version(), "datasets/code@1");
  const v1::Dataset newer = UploadDataset("code", {{"src/b.h", "int b;\n"}});
  EXPECT_NE(newer.versions(1).digest(), job.datasets(0).digest());
  Restart();
  // The worker is told what was meant.
  Worker worker{"w1"};
  v1::SynchronizeResponse response;
  // The scheduler may pause after a pass that the machine held up.
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (response.desired_size() == 0 && absl::Now() < end) {
    response = Sync(worker);
  }
  ASSERT_EQ(response.desired_size(), 1);
  ASSERT_EQ(response.desired(0).datasets_size(), 1);
  EXPECT_EQ(response.desired(0).datasets(0).digest(),
            newer.versions(0).digest());
  EXPECT_EQ(response.desired(0).spec().data().code_directory().roots(0),
            "datasets/code/src");
}

TEST_F(DatasetJobsTest, WhatIsNotThereIsRefusedWithItsField) {
  UploadDataset("code", {{"src/a.h", "int a;\n"}, {"vocab.json", "{}"}});
  const auto refused = [&](const v1::JobSpec& spec, const std::string& field,
                           const std::string& why) {
    for (const bool validate_only : {false, true}) {
      const grpc::Status status = TryCreate(spec, validate_only);
      EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
      EXPECT_THAT(status.error_message(), HasSubstr(why));
      google::rpc::Status details;
      ASSERT_TRUE(details.ParseFromString(status.error_details()));
      std::string named;
      for (const auto& detail : details.details()) {
        google::rpc::BadRequest bad;
        if (!detail.UnpackTo(&bad)) continue;
        for (const auto& violation : bad.field_violations()) {
          named += violation.field() + " ";
        }
      }
      EXPECT_EQ(named, field + " ");
    }
  };
  const std::string roots = "spec.data.code_directory.roots[0]";
  refused(SpecOn("datasets/none"), roots, "no dataset datasets/none");
  refused(SpecOn("datasets/code@7"), roots, "no version datasets/code@7");
  refused(SpecOn("datasets/code/lib"), roots,
          "datasets/code@1 has no folder lib");
  // A file is no folder, and a folder no file.
  refused(SpecOn("datasets/code/vocab.json"), roots, "has no folder");
  v1::JobSpec spec = SpecOn("datasets/code");
  v1::TokenizerSpec& tokenizer = *spec.mutable_data()->mutable_tokenizer();
  tokenizer.set_train_vocabulary_size(0);
  tokenizer.set_vocabulary_file("datasets/code/vocab.json");
  tokenizer.set_merges_file("datasets/code/src");
  refused(spec, "spec.data.tokenizer.merges_file", "has no file src");
}

TEST_F(DatasetJobsTest, WhatAnUnfinishedJobNeedsIsKept) {
  UploadDataset("code", {{"a.h", "int a;\n"}});
  UploadDataset("code", {{"b.h", "int b;\n"}});
  const v1::Job job = Create(SpecOn("datasets/code@1"));
  const grpc::Status status = DeleteDataset("datasets/code@1");
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("needed by " + job.name()));
  EXPECT_EQ(DeleteDataset("datasets/code").error_code(),
            StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(DeleteDataset("datasets/code@2").ok());
  Restart();
  EXPECT_EQ(DeleteDataset("datasets/code").error_code(),
            StatusCode::FAILED_PRECONDITION);
  Cancel(job.name());
  EXPECT_TRUE(DeleteDataset("datasets/code").ok());
  EXPECT_EQ(TryCreate(SpecOn("datasets/code")).error_code(),
            StatusCode::INVALID_ARGUMENT);
}

TEST_F(DatasetJobsTest, ARepeatedRequestHasItsJobAlsoWithoutTheDataset) {
  UploadDataset("code", {{"a.h", "int a;\n"}});
  const v1::Job job = Create(SpecOn("datasets/code"), "once");
  Cancel(job.name());
  ASSERT_TRUE(DeleteDataset("datasets/code").ok());
  EXPECT_EQ(Create(SpecOn("datasets/code"), "once").name(), job.name());
}

TEST_F(DatasetJobsTest, AnEndedJobGoesOnWithTheVersionsThatItHad) {
  UploadDataset("code", {{"src/a.h", "int a;\n"}});
  const v1::Job job = Create(SpecOn("datasets/code/src"));
  // The newest version has no such folder.
  UploadDataset("code", {{"b.h", "int b;\n"}});
  v1::ResumeJobRequest request;
  request.set_name(job.name());
  v1::Job resumed;
  const auto resume = [&] {
    return training_->ResumeJob(Context().get(), request, &resumed);
  };
  Cancel(job.name());
  ASSERT_TRUE(resume().ok());
  EXPECT_EQ(resumed.state(), v1::QUEUED);
  EXPECT_EQ(DeleteDataset("datasets/code@1").error_code(),
            StatusCode::FAILED_PRECONDITION);
  Cancel(job.name());
  ASSERT_TRUE(DeleteDataset("datasets/code").ok());
  EXPECT_EQ(resume().error_code(), StatusCode::FAILED_PRECONDITION);
  // Another dataset of the same name has other files in its first version.
  UploadDataset("code", {{"src/a.h", "int c;\n"}});
  EXPECT_EQ(resume().error_code(), StatusCode::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace comera::server
