// What one user may keep and have waiting, over real gRPC: each test is an
// attack on everybody else's share, and fails.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comera/v1/access_service.grpc.pb.h"
#include "comera/v1/dataset_service.grpc.pb.h"
#include "comera/v1/sweep_service.grpc.pb.h"
#include "common/files.h"
#include "gmock/gmock.h"
#include "proto/resource_names.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using Code = grpc::StatusCode;

constexpr int64_t kMiB = 1 << 20;

class FakeDiskSpace : public DiskSpace {
 public:
  absl::StatusOr<int64_t> FreeBytes() override { return free_.load(); }
  void Set(int64_t mebibytes) { free_ = mebibytes * kMiB; }

 private:
  std::atomic<int64_t> free_{1000 * kMiB};
};

class QuotaTest : public ServerFixture {
 protected:
  QuotaTest() {
    options_.datasets.blobs.min_free_bytes = 0;
    options_.datasets.idle_check = absl::Milliseconds(5);
    options_.host.idle_check = absl::Milliseconds(5);
    // The clock stands still while a test asks again and again.
    options_.security.limits.request_burst = 1e9;
  }
  // The server uses the fake disk.
  ~QuotaTest() override { StopServer(); }

  UserQuota& quota() { return options_.security.limits.quota; }

  // With the options, and with users.
  void Begin() {
    RestartServer();
    access_ = v1::AccessService::NewStub(channel_);
    sweeps_ = v1::SweepService::NewStub(channel_);
    datasets_ = v1::DatasetService::NewStub(channel_);
    root_ = Token("", "root", v1::ROLE_ADMIN);
    alice_ = Token(root_, "alice", v1::ROLE_USER);
    bob_ = Token(root_, "bob", v1::ROLE_USER);
    viewer_ = Token(root_, "vera", v1::ROLE_VIEWER);
  }

  static std::unique_ptr<grpc::ClientContext> As(const std::string& secret) {
    auto context = Context();
    if (!secret.empty()) {
      context->AddMetadata("authorization", "Bearer " + secret);
    }
    return context;
  }

  std::string Token(const std::string& by, const std::string& user,
                    v1::Role role, bool worker = false) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_role(role);
    request.set_worker(worker);
    v1::CreateTokenResponse response;
    const grpc::Status status =
        access_->CreateToken(As(by).get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.secret();
  }

  grpc::Status CreateAs(const std::string& secret, std::string* name = nullptr,
                        const v1::JobSpec& spec = TestSpec(1)) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    v1::Job job;
    const grpc::Status status =
        training_->CreateJob(As(secret).get(), request, &job);
    if (name != nullptr) *name = job.name();
    return status;
  }

  void CancelAs(const std::string& secret, const std::string& name) {
    v1::CancelJobRequest request;
    request.set_name(name);
    v1::Job job;
    EXPECT_TRUE(training_->CancelJob(As(secret).get(), request, &job).ok());
  }

  void DeleteAs(const std::string& secret, const std::string& name) {
    v1::DeleteJobRequest request;
    request.set_name(name);
    v1::DeleteJobResponse response;
    EXPECT_TRUE(
        training_->DeleteJob(As(secret).get(), request, &response).ok());
  }

  std::vector<v1::Job> Jobs() {
    v1::ListJobsRequest request;
    request.set_page_size(1000);
    v1::ListJobsResponse response;
    EXPECT_TRUE(training_->ListJobs(As(root_).get(), request, &response).ok());
    return {response.jobs().begin(), response.jobs().end()};
  }

  grpc::Status SweepAs(const std::string& secret, const v1::SweepSpec& spec,
                       v1::Sweep* sweep) {
    v1::CreateSweepRequest request;
    *request.mutable_spec() = spec;
    return sweeps_->CreateSweep(As(secret).get(), request, sweep);
  }

  v1::Sweep GetSweep(const std::string& name) {
    v1::GetSweepRequest request;
    request.set_name(name);
    v1::Sweep sweep;
    EXPECT_TRUE(sweeps_->GetSweep(As(root_).get(), request, &sweep).ok());
    return sweep;
  }

  // The entries of what a sweep did.
  std::vector<v1::AuditEntry> Audit(const std::string& method,
                                    const std::string& message) {
    v1::ListAuditEntriesRequest request;
    request.set_page_size(1000);
    v1::ListAuditEntriesResponse response;
    EXPECT_TRUE(
        access_->ListAuditEntries(As(root_).get(), request, &response).ok());
    std::vector<v1::AuditEntry> found;
    for (const v1::AuditEntry& entry : response.entries()) {
      if (entry.method() == method && entry.message() == message) {
        found.push_back(entry);
      }
    }
    return found;
  }

  using Upload = std::unique_ptr<grpc::ClientWriter<v1::UploadBlobRequest>>;
  struct OpenUpload {
    std::unique_ptr<grpc::ClientContext> context;
    v1::UploadBlobResponse response;
    Upload writer;
  };

  // Announces the blob, and sends the first bytes of it.
  std::unique_ptr<OpenUpload> Announce(const std::string& secret,
                                       const std::string& data,
                                       size_t bytes = 0) {
    auto upload = std::make_unique<OpenUpload>();
    upload->context = As(secret);
    upload->writer =
        datasets_->UploadBlob(upload->context.get(), &upload->response);
    v1::UploadBlobRequest request;
    request.mutable_header()->set_sha256(Sha256Hex(data));
    request.mutable_header()->set_size_bytes(static_cast<int64_t>(data.size()));
    upload->writer->Write(request);
    if (bytes > 0) {
      request.set_data(data.substr(0, bytes));
      upload->writer->Write(request);
    }
    return upload;
  }

  grpc::Status UploadAs(const std::string& secret, const std::string& data) {
    auto upload = Announce(secret, data, data.size());
    upload->writer->WritesDone();
    return upload->writer->Finish();
  }

  grpc::Status DatasetAs(const std::string& secret, const std::string& id,
                         const std::string& data) {
    v1::CreateDatasetRequest request;
    request.set_dataset_id(id);
    v1::DatasetFile& file = *request.add_files();
    file.set_path("a.txt");
    file.set_size_bytes(static_cast<int64_t>(data.size()));
    file.set_sha256(Sha256Hex(data));
    v1::Dataset dataset;
    return datasets_->CreateDataset(As(secret).get(), request, &dataset);
  }

  // Asks the server until the condition holds, or for a minute.
  template <typename Condition>
  bool Await(const Condition& condition) {
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (absl::Now() < end) {
      if (condition()) return true;
      v1::WhoAmIResponse who;
      access_->WhoAmI(As(root_).get(), {}, &who);
    }
    return condition();
  }

  // How many files there are of blobs.
  int64_t Blobs() {
    int64_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             options_.data_dir + "/blobs")) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }

  // How many bytes of the blob have arrived.
  int64_t Arrived(const std::string& data) {
    v1::QueryBlobsRequest request;
    request.add_sha256(Sha256Hex(data));
    v1::QueryBlobsResponse response;
    EXPECT_TRUE(
        datasets_->QueryBlobs(As(root_).get(), request, &response).ok());
    return response.blobs(0).offset();
  }

  FakeDiskSpace space_;
  std::unique_ptr<v1::AccessService::Stub> access_;
  std::unique_ptr<v1::SweepService::Stub> sweeps_;
  std::unique_ptr<v1::DatasetService::Stub> datasets_;
  std::string root_, alice_, bob_, viewer_;
};

v1::SweepSpec Seeds(int count) {
  v1::SweepSpec spec;
  *spec.mutable_job() = TestSpec(1);
  for (int seed = 1; seed <= count; ++seed) {
    spec.mutable_grid()->add_seeds(seed);
  }
  return spec;
}

// The attack: one sweep queued 512 jobs, whatever --user_queued_jobs said, and
// left nothing of it in the audit log.
TEST_F(QuotaTest, ASweepHasItsOwnersLimitsAndAuditLog) {
  quota().queued_jobs = 10;
  Begin();
  v1::Sweep sweep;
  grpc::Status status = SweepAs(alice_, Seeds(200), &sweep);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const std::string by = "by " + sweep.name();
  // Every run is answered, one way or the other, before the first is refused
  // for the second time.
  const auto refused = [&] {
    int count = 0;
    const v1::Sweep now = GetSweep(sweep.name());
    for (const v1::SweepRun& run : now.runs()) {
      count +=
          run.reason().find("10 jobs of alice are waiting") != std::string::npos
              ? 1
              : 0;
    }
    return count;
  };
  EXPECT_TRUE(Await([&] { return refused() == 190; })) << refused();
  // A place is taken before its job is stored, so that the last refusal may
  // come before the last job.
  EXPECT_TRUE(Await([&] { return Jobs().size() == 10; })) << Jobs().size();
  EXPECT_TRUE(Await(
      [&] { return Audit("TrainingService.CreateJob", by).size() == 10; }));
  const auto entries = Audit("TrainingService.CreateJob", by);
  ASSERT_THAT(entries, SizeIs(10));
  for (const v1::AuditEntry& entry : entries) {
    EXPECT_EQ(entry.user(), "alice");
    EXPECT_EQ(entry.result(), "OK");
    EXPECT_THAT(entry.resource(), HasSubstr("jobs/"));
  }
  // The owner's own jobs have the same limit, and others are not held up.
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_EQ(CreateAs(bob_).error_code(), Code::OK);
  // Where a job makes room, the sweep goes on.
  CancelAs(alice_, Jobs().back().name());
  clock_.Advance(absl::Seconds(6));
  server_->host().TickNow();
  EXPECT_TRUE(Await([&] { return Jobs().size() == 12; }));
  // What the sweep cancels is logged as well.
  v1::CancelSweepRequest cancel;
  cancel.set_name(sweep.name());
  ASSERT_TRUE(sweeps_->CancelSweep(As(alice_).get(), cancel, &sweep).ok());
  EXPECT_TRUE(Await(
      [&] { return Audit("TrainingService.CancelJob", by).size() == 10; }));
}

// The attack: a sweep of a megabyte took 13 s and 2.3 GB before it was refused.
TEST_F(QuotaTest, LargeSweepsAreRefusedAtOnce) {
  Begin();
  v1::SweepSpec value = Seeds(512);
  v1::FieldValues& axis = *value.mutable_grid()->add_fields();
  axis.set_path("labels.note");
  axis.add_values(std::string(3900000, 'x'));
  v1::SweepSpec base = Seeds(512);
  v1::CodeDirectory& code =
      *base.mutable_job()->mutable_data()->mutable_code_directory();
  for (int i = 0; i < 900; ++i) code.add_roots(std::string(4000, 'y'));
  v1::SweepSpec product = Seeds(512);
  for (int i = 0; i < 16; ++i) {
    v1::FieldValues& large = *product.mutable_grid()->add_fields();
    large.set_path(absl::StrCat("labels.k", i));
    large.add_values(std::string(4000, 'x'));
  }
  v1::Sweep sweep;
  rusage before, after;
  ASSERT_EQ(getrusage(RUSAGE_SELF, &before), 0);
  EXPECT_EQ(SweepAs(viewer_, value, &sweep).error_code(),
            Code::PERMISSION_DENIED);
  EXPECT_EQ(SweepAs(viewer_, base, &sweep).error_code(),
            Code::PERMISSION_DENIED);
  grpc::Status status = SweepAs(alice_, value, &sweep);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("of at most 1048576"));
  status = SweepAs(alice_, base, &sweep);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("of at most 65536"));
  status = SweepAs(alice_, product, &sweep);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("of at most 16 MiB"));
  ASSERT_EQ(getrusage(RUSAGE_SELF, &after), 0);
  // The processors' time, which does not grow where others use them too.
  const auto used = [](const rusage& usage) {
    return absl::DurationFromTimeval(usage.ru_utime) +
           absl::DurationFromTimeval(usage.ru_stime);
  };
  const absl::Duration took = used(after) - used(before);
  std::cout << "took=" << took
            << " grew_kib=" << after.ru_maxrss - before.ru_maxrss << "\n";
  // All five; sanitizers take longer than the milliseconds that are measured.
  EXPECT_LT(took, absl::Seconds(3));
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 128 << 10);
}

// The attack: jobs that were cancelled at once cost memory for 30 days.
TEST_F(QuotaTest, JobsThatAreKeptCount) {
  quota().jobs = 3;
  Begin();
  std::string name;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(CreateAs(alice_, &name).error_code(), Code::OK);
    CancelAs(alice_, name);
  }
  const grpc::Status status = CreateAs(alice_);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("alice has 3 jobs; the limit for a user is 3 "
                        "(--user_jobs of the server)"));
  EXPECT_EQ(CreateAs(bob_).error_code(), Code::OK);
  DeleteAs(alice_, name);
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::OK);
  // Counted anew after a restart.
  RestartServer();
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::RESOURCE_EXHAUSTED);
}

TEST_F(QuotaTest, TheirSpecificationsCountInBytes) {
  quota().job_bytes = 100000;
  Begin();
  v1::JobSpec spec = TestSpec(1);
  v1::CodeDirectory& code = *spec.mutable_data()->mutable_code_directory();
  for (int i = 0; i < 10; ++i) code.add_roots("/" + std::string(4000, 'y'));
  EXPECT_EQ(CreateAs(alice_, nullptr, spec).error_code(), Code::OK);
  EXPECT_EQ(CreateAs(alice_, nullptr, spec).error_code(), Code::OK);
  const grpc::Status status = CreateAs(alice_, nullptr, spec);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_job_bytes"));
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::OK);
}

TEST_F(QuotaTest, SpecificationsOfSweepsCountToo) {
  quota().job_bytes = 60000;
  Begin();
  v1::SweepSpec large = Seeds(2);
  v1::CodeDirectory& code =
      *large.mutable_job()->mutable_data()->mutable_code_directory();
  for (int i = 0; i < 10; ++i) code.add_roots("/" + std::string(4000, 'y'));
  // Its jobs have no room beside it, and wait.
  v1::Sweep sweep;
  ASSERT_EQ(SweepAs(alice_, large, &sweep).error_code(), Code::OK);
  EXPECT_EQ(SweepAs(alice_, large, &sweep).error_code(),
            Code::RESOURCE_EXHAUSTED);
  grpc::Status status = CreateAs(alice_, nullptr, large.job());
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_job_bytes"));
  EXPECT_EQ(SweepAs(bob_, large, &sweep).error_code(), Code::OK);
}

// Requests that are on their way into the store together are counted together.
TEST_F(QuotaTest, ABurstIsNoWayAroundALimit) {
  quota().queued_jobs = 3;
  Begin();
  struct Call {
    std::unique_ptr<grpc::ClientContext> context;
    v1::CreateJobRequest request;
    v1::Job job;
  };
  std::vector<std::unique_ptr<Call>> calls;
  std::mutex mutex;
  std::condition_variable ended;
  int pending = 200, accepted = 0;
  for (int i = 0; i < 200; ++i) {
    auto call = std::make_unique<Call>();
    call->context = As(alice_);
    *call->request.mutable_spec() = TestSpec(1);
    training_->async()->CreateJob(
        call->context.get(), &call->request, &call->job,
        [&](const grpc::Status& status) {
          const std::lock_guard<std::mutex> lock(mutex);
          accepted += status.ok() ? 1 : 0;
          if (--pending == 0) ended.notify_all();
        });
    calls.push_back(std::move(call));
  }
  std::unique_lock<std::mutex> lock(mutex);
  ended.wait(lock, [&] { return pending == 0; });
  EXPECT_EQ(accepted, 3);
}

TEST_F(QuotaTest, ResumedJobsWaitAmongTheOthers) {
  quota().queued_jobs = 1;
  Begin();
  std::string name;
  ASSERT_EQ(CreateAs(alice_, &name).error_code(), Code::OK);
  v1::PauseJobRequest pause;
  pause.set_name(name);
  v1::Job job;
  ASSERT_TRUE(training_->PauseJob(As(alice_).get(), pause, &job).ok());
  ASSERT_EQ(CreateAs(alice_).error_code(), Code::OK);
  v1::ResumeJobRequest resume;
  resume.set_name(name);
  EXPECT_EQ(training_->ResumeJob(As(alice_).get(), resume, &job).error_code(),
            Code::RESOURCE_EXHAUSTED);
}

TEST_F(QuotaTest, NobodyHasTheWholeQueue) {
  options_.host.coordinator.max_queued_jobs = 10;
  quota().queue_share = 0.2;
  Begin();
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::OK);
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::OK);
  const grpc::Status status = CreateAs(alice_);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("--user_queue_share of the server: 0.2 of 10"));
  EXPECT_EQ(CreateAs(bob_).error_code(), Code::OK);
}

TEST_F(QuotaTest, SweepsCount) {
  quota().active_sweeps = 1;
  Begin();
  v1::Sweep sweep;
  ASSERT_EQ(SweepAs(alice_, Seeds(2), &sweep).error_code(), Code::OK);
  const grpc::Status status = SweepAs(alice_, Seeds(2), &sweep);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_active_sweeps"));
  EXPECT_EQ(SweepAs(bob_, Seeds(2), &sweep).error_code(), Code::OK);
}

TEST_F(QuotaTest, DatasetsCountAndSoDoFilesInNone) {
  quota().datasets = 1;
  // The list of a dataset of one file has about 80 bytes.
  quota().dataset_bytes = 1150;
  Begin();
  const std::string first(600, 'a'), second(600, 'b'), small(300, 'c');
  EXPECT_EQ(UploadAs(alice_, first).error_code(), Code::OK);
  grpc::Status status = UploadAs(alice_, second);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("alice has 600 bytes of datasets; the limit for a user "
                        "is 1150 (--user_dataset_bytes"));
  EXPECT_EQ(UploadAs(bob_, second).error_code(), Code::OK);
  EXPECT_EQ(DatasetAs(alice_, "one", first).error_code(), Code::OK);
  // Now in a dataset, and counted once.
  EXPECT_EQ(UploadAs(alice_, std::string(600, 'd')).error_code(),
            Code::RESOURCE_EXHAUSTED);
  EXPECT_EQ(UploadAs(alice_, small).error_code(), Code::OK);
  status = DatasetAs(alice_, "two", small);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_datasets"));
  // Another's bytes count where they are in one's dataset.
  status = DatasetAs(alice_, "one", second);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_dataset_bytes"));
  EXPECT_EQ(DatasetAs(alice_, "one", small).error_code(), Code::OK);
}

// The attack: two streams that announced a quota's worth and sent nothing held
// it against everybody.
TEST_F(QuotaTest, IdleUploadsHoldNothingAndEnd) {
  options_.datasets.blobs.quota_bytes = 2000;
  options_.security.limits.max_uploads = 2;
  Begin();
  const std::string one(1500, 'a'), two(1500, 'b'), other(1500, 'c');
  const auto first = Announce(alice_, one, 10);
  const auto second = Announce(alice_, two, 10);
  // Until both have arrived.
  ASSERT_TRUE(Await([&] { return Arrived(one) == 10 && Arrived(two) == 10; }));
  EXPECT_EQ(UploadAs(bob_, other).error_code(), Code::OK);
  // A third one of the same user has to wait.
  const grpc::Status third = UploadAs(alice_, std::string(5, 'x'));
  EXPECT_EQ(third.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(third.error_message(), HasSubstr("--user_uploads"));
  clock_.Advance(absl::Seconds(31));
  grpc::Status status = first->writer->Finish();
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("no data came for 30s"));
  EXPECT_EQ(second->writer->Finish().error_code(), Code::UNAVAILABLE);
  // What arrived is kept, and their places are free.
  EXPECT_EQ(Arrived(one), 10);
  EXPECT_TRUE(
      Await([&] { return UploadAs(alice_, std::string(5, 'x')).ok(); }));
}

TEST_F(QuotaTest, AnUploadThatOutgrowsTheQuotaEndsThere) {
  options_.datasets.blobs.quota_bytes = 2000;
  Begin();
  const std::string one(1500, 'a'), two(1500, 'b');
  const auto first = Announce(alice_, one, 1000);
  ASSERT_TRUE(Await([&] { return Arrived(one) == 1000; }));
  const auto second = Announce(bob_, two);
  v1::UploadBlobRequest request;
  request.set_data(two);
  second->writer->Write(request);
  second->writer->WritesDone();
  EXPECT_EQ(second->writer->Finish().error_code(), Code::RESOURCE_EXHAUSTED);
  request.set_data(one.substr(1000));
  first->writer->Write(request);
  first->writer->WritesDone();
  EXPECT_TRUE(first->writer->Finish().ok());
}

// The attack: lists of many files that are all one empty blob counted as no
// bytes, and were stored before anything was checked.
TEST_F(QuotaTest, ListsOfFilesCountAndAreStoredOnlyIfTheyAreTaken) {
  quota().dataset_bytes = 18000;
  Begin();
  ASSERT_TRUE(UploadAs(alice_, "").ok());
  v1::CreateDatasetRequest request;
  request.set_dataset_id("empty");
  // Adds as many files, with lists of about 100 bytes for each.
  int files = 0;
  const auto add = [&](int count) {
    for (const int end = files + count; files < end; ++files) {
      v1::DatasetFile& file = *request.add_files();
      file.set_path(absl::StrCat("a-name-of-some-length/", files));
      file.set_sha256(Sha256Hex(""));
    }
  };
  v1::Dataset dataset;
  const auto create = [&] {
    return datasets_->CreateDataset(As(alice_).get(), request, &dataset);
  };
  for (int i = 0; i < 64; ++i)
    (*request.mutable_labels())[absl::StrCat(i)] = "v";
  add(50);
  ASSERT_TRUE(create().ok());
  EXPECT_EQ(dataset.versions(0).size_bytes(), 0);
  const int64_t blobs = Blobs();
  // Fails only with the labels that the dataset has.
  request.mutable_labels()->erase("0");
  (*request.mutable_labels())["one-more"] = "v";
  add(1);
  grpc::Status status = create();
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("labels: at most 64"));
  EXPECT_EQ(Blobs(), blobs);
  request.clear_labels();
  add(200);
  status = create();
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_dataset_bytes"));
  EXPECT_EQ(Blobs(), blobs);
  // Small ones count together, and count no more when they have gone.
  request.clear_files();
  add(50);
  ASSERT_TRUE(create().ok());
  add(1);
  ASSERT_TRUE(create().ok());
  add(1);
  EXPECT_EQ(create().error_code(), Code::RESOURCE_EXHAUSTED);
  v1::DeleteDatasetRequest deletion;
  deletion.set_name("datasets/empty@1");
  v1::DeleteDatasetResponse deleted;
  ASSERT_TRUE(
      datasets_->DeleteDataset(As(alice_).get(), deletion, &deleted).ok());
  EXPECT_TRUE(create().ok());
}

// The attack: calls of 16 MiB waited for one another, as many as one liked.
TEST_F(QuotaTest, ChangesOfDatasetsThatWaitAreBounded) {
  options_.security.limits.max_dataset_changes = 1;
  options_.security.limits.max_dataset_request_bytes = 2000;
  Begin();
  // Each gives its place back, soon after its answer.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(UploadAs(alice_, "x").ok());
    EXPECT_TRUE(Await([&] { return DatasetAs(alice_, "one", "x").ok(); }));
    EXPECT_TRUE(Await([&] {
      return DatasetAs(alice_, "two", "none").error_code() ==
             Code::FAILED_PRECONDITION;
    }));
    v1::DeleteDatasetRequest deletion;
    deletion.set_name("datasets/one");
    v1::DeleteDatasetResponse deleted;
    EXPECT_TRUE(Await([&] {
      return datasets_->DeleteDataset(As(alice_).get(), deletion, &deleted)
          .ok();
    }));
  }
  v1::CreateDatasetRequest large;
  large.set_dataset_id("large");
  for (int i = 0; i < 30; ++i) {
    v1::DatasetFile& file = *large.add_files();
    file.set_path(absl::StrCat(i));
    file.set_size_bytes(1);
    file.set_sha256(Sha256Hex("x"));
  }
  v1::Dataset dataset;
  grpc::Status status =
      datasets_->CreateDataset(As(alice_).get(), large, &dataset);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("of at most 2000"));
}

TEST_F(QuotaTest, WhoeverHasTooManyChangesWaitingIsTold) {
  options_.security.limits.max_dataset_changes = 0;
  Begin();
  const grpc::Status status = DatasetAs(alice_, "one", "x");
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("changes of datasets waiting"));
}

// The attack: downloads that nobody reads hold a piece of their file each.
TEST_F(QuotaTest, StalledDownloadsAreFewAndEnd) {
  options_.security.limits.max_downloads = 1;
  options_.security.limits.max_worker_downloads = 0;
  Begin();
  const std::string data(16 * kMiB, 'a'), small(100, 'b');
  ASSERT_TRUE(UploadAs(bob_, small).ok());
  const auto upload = Announce(bob_, data);
  v1::UploadBlobRequest part;
  for (int i = 0; i < 16; ++i) {
    part.set_data(data.substr(0, kMiB));
    upload->writer->Write(part);
  }
  upload->writer->WritesDone();
  ASSERT_TRUE(upload->writer->Finish().ok());
  // What is not read stays with the server, however fast the line is.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto slow = v1::DatasetService::NewStub(grpc::CreateCustomChannel(
      server_->address(), grpc::InsecureChannelCredentials(), arguments));
  const auto context = As(alice_);
  v1::DownloadBlobRequest request;
  request.set_sha256(Sha256Hex(data));
  const auto stalled = slow->DownloadBlob(context.get(), request);
  v1::DownloadBlobResponse piece;
  ASSERT_TRUE(stalled->Read(&piece));
  const auto download = [&](const std::string& secret) {
    v1::DownloadBlobRequest other;
    other.set_sha256(Sha256Hex(small));
    auto own = As(secret);
    auto reader = datasets_->DownloadBlob(own.get(), other);
    v1::DownloadBlobResponse all;
    while (reader->Read(&all)) {
    }
    return reader->Finish();
  };
  grpc::Status status = download(alice_);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_downloads"));
  EXPECT_TRUE(download(bob_).ok());
  status = download(Token(root_, "w1", v1::ROLE_UNSPECIFIED, true));
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--worker_downloads"));
  // The piece that is not taken may begin its minute later than the clock
  // moves.
  EXPECT_TRUE(Await([&] {
    clock_.Advance(absl::Seconds(61));
    return download(alice_).ok();
  }));
  while (stalled->Read(&piece)) {
  }
  status = stalled->Finish();
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE) << status.error_message();
  EXPECT_THAT(status.error_message(),
              HasSubstr("a piece was not taken for 1m"));
}

TEST_F(QuotaTest, UploadsAndDownloadsAreStreams) {
  options_.security.limits.max_streams = 1;
  Begin();
  const std::string data(100, 'a'), more(100, 'b');
  ASSERT_TRUE(UploadAs(bob_, data).ok());
  const auto open = Announce(alice_, more, 10);
  ASSERT_TRUE(Await([&] { return Arrived(more) == 10; }));
  v1::DownloadBlobRequest request;
  request.set_sha256(Sha256Hex(data));
  v1::DownloadBlobResponse part;
  const auto download = [&](const std::string& secret) {
    auto context = As(secret);
    auto reader = datasets_->DownloadBlob(context.get(), request);
    while (reader->Read(&part)) {
    }
    return reader->Finish();
  };
  const grpc::Status status = download(alice_);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_streams"));
  EXPECT_TRUE(download(viewer_).ok());
}

// A model's upload, by the worker of a job of alice's.
class ModelQuotaTest : public QuotaTest {
 protected:
  void BeginModels() {
    options_.disk = {100 * kMiB, 200 * kMiB, 0};
    options_.disk_space = &space_;
    Begin();
  }

  // The status of an upload of `data`; `between` runs after its first half has
  // been sent.
  grpc::Status UploadModel(const std::string& secret, const std::string& job,
                           const std::string& data,
                           const std::function<void()>& between) {
    auto context = As(secret);
    v1::UploadArtifactResponse response;
    auto writer = worker_stub_->UploadArtifact(context.get(), &response);
    v1::UploadArtifactRequest request;
    request.mutable_header()->set_artifact(ArtifactName(job.substr(5), "m"));
    request.mutable_header()->set_attempt(1);
    *request.mutable_header()->mutable_file() = Describe("model.bin", data);
    bool going = writer->Write(request);
    request.set_data(data.substr(0, data.size() / 2));
    going = going && writer->Write(request);
    between();
    request.set_data(data.substr(data.size() / 2));
    if (going) writer->Write(request);
    writer->WritesDone();
    return writer->Finish();
  }

  // The worker `w` begins alice's job.
  std::string RunJob() {
    worker_token_ = WorkerToken();
    std::string name;
    EXPECT_EQ(CreateAs(alice_, &name).error_code(), Code::OK);
    v1::SynchronizeRequest request;
    request.set_worker("w");
    request.set_incarnation("i1");
    request.set_host("host");
    v1::Slot* slot = request.add_slots();
    slot->set_device(v1::ResourceSpec::CPU);
    v1::SynchronizeResponse response;
    // The scheduler may pause after a pass that the machine held up.
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (response.desired_size() == 0 && absl::Now() < end) {
      EXPECT_TRUE(
          worker_stub_->Synchronize(As(worker_token_).get(), request, &response)
              .ok());
      request.set_seen_version(response.desired_version());
    }
    EXPECT_EQ(response.desired_size(), 1);
    return name;
  }

  std::string WorkerToken() {
    v1::CreateTokenRequest request;
    request.set_user("w");
    request.set_worker(true);
    request.set_worker_name("w");
    v1::CreateTokenResponse response;
    const grpc::Status status =
        access_->CreateToken(As(root_).get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.secret();
  }

  std::string worker_token_;
};

TEST_F(ModelQuotaTest, AModelHasItsUsersQuota) {
  quota().model_bytes = 1000;
  BeginModels();
  const std::string job = RunJob();
  grpc::Status status =
      UploadModel(worker_token_, job, std::string(1001, 'x'), [] {});
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("alice has 0 bytes of models; the limit for a user is "
                        "1000 (--user_model_bytes"));
  status = UploadModel(worker_token_, job, std::string(1000, 'x'), [] {});
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ModelQuotaTest, AllModelsHaveAQuota) {
  options_.host.model_quota_bytes = 1000;
  BeginModels();
  const std::string job = RunJob();
  const grpc::Status status =
      UploadModel(worker_token_, job, std::string(1001, 'x'), [] {});
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--model_quota_bytes"));
}

// The attack: an upload that began while there was room filled the disk.
TEST_F(ModelQuotaTest, AnUploadLeavesTheStoresReserve) {
  BeginModels();
  const std::string job = RunJob();
  const std::string data(4 * kMiB, 'x');
  space_.Set(203);
  grpc::Status status = UploadModel(worker_token_, job, data, [] {});
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("for the coordinator's store"));
  space_.Set(1000);
  const std::string uploads = options_.data_dir + "/uploads";
  status = UploadModel(worker_token_, job, data, [&] {
    // Once the first half has arrived, others fill the disk.
    EXPECT_TRUE(Await([&] {
      int64_t bytes = 0;
      for (const auto& file : std::filesystem::directory_iterator(uploads)) {
        // What is left of the first one may go just now.
        std::error_code gone;
        const auto size = file.file_size(gone);
        if (!gone) bytes += static_cast<int64_t>(size);
      }
      return bytes >= 2 * kMiB;
    }));
    space_.Set(201);
  });
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("for the coordinator's store"));
  // The coordinator takes changes all the while, and nothing is left.
  EXPECT_EQ(CreateAs(bob_).error_code(), Code::OK);
  EXPECT_TRUE(Await([&] { return std::filesystem::is_empty(uploads); }));
}

TEST_F(ModelQuotaTest, IdleModelUploadsEnd) {
  BeginModels();
  RunJob();
  auto context = As(worker_token_);
  v1::UploadArtifactResponse response;
  auto writer = worker_stub_->UploadArtifact(context.get(), &response);
  // It waits from the moment that it has reached the server.
  std::atomic<bool> done{false};
  std::thread later([&] {
    Await([&] {
      clock_.Advance(absl::Seconds(31));
      return done.load();
    });
  });
  const grpc::Status status = writer->Finish();
  done = true;
  later.join();
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("no data came for 30s"));
}

// A server without tokens is one person's, who has no limits.
TEST_F(QuotaTest, OpenServersHaveNoLimits) {
  quota().jobs = 1;
  quota().queued_jobs = 1;
  quota().datasets = 1;
  RestartServer();
  EXPECT_EQ(CreateAs("").error_code(), Code::OK);
  EXPECT_EQ(CreateAs("").error_code(), Code::OK);
}

}  // namespace
}  // namespace comera::server
