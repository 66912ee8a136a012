#ifndef COMERA_TESTS_WORKER_SESSION_CHECKPOINT_COPIES_FIXTURE_H_
#define COMERA_TESTS_WORKER_SESSION_CHECKPOINT_COPIES_FIXTURE_H_

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "comera/v1/peer_service.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "common/call_metadata.h"
#include "common/files.h"
#include "common/seal.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/checkpoint_fetcher.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/checkpoint/peer_client.h"
#include "worker/checkpoint/peer_keys.h"
#include "worker/checkpoint/peer_server.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/files/plain_file.h"
#include "worker/gang/job_folders.h"
#include "worker/report/artifact_store.h"
#include "worker/trainer/state/checkpoint_name.h"

namespace comera::worker {

MATCHER_P(IsOkAndHolds, inner, "") {
  return arg.ok() &&
         ::testing::ExplainMatchResult(inner, *arg, result_listener);
}

constexpr char kJob[] = "jobs/a";
constexpr absl::Duration kBound = absl::Seconds(20);

// Makes a file as the trainer writes it.
inline std::string State(const std::string& text) {
  return absl::StrCat(text, "\nsha256 ", Sha256Hex(text), "\n");
}

// This worker's memory, disk and store, and a worker beside it that holds
// states for it.
class CopiesTest : public ::testing::Test {
 protected:
  CopiesTest() {
    auto server = PeerServer::Start({}, &cache_, &folders_, &keys_);
    EXPECT_OK(server);
    server_ = *std::move(server);
    keys_.Learn(Answer("key", kJob, 1000, server_->address()));
    store_ = OpenDirectoryStore(folder_ + "/store");
    client_ = std::make_unique<PeerClient>(nullptr, &keys_);
  }

  ~CopiesTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // An answer of the coordinator that tells a worker its key, and lets it ask
  // the worker at `address`, whose key is `sealed_with`, for the job's states.
  static v1::SynchronizeResponse Answer(
      const std::string& key, const std::string& job, int64_t attempt,
      const std::string& address, const std::string& sealed_with = "key") {
    v1::PeerGrant grant;
    grant.set_job(job);
    grant.set_attempt(attempt);
    v1::SynchronizeResponse answer;
    answer.set_grant_key(key);
    v1::MemberAssignment* assignment = answer.add_desired();
    assignment->set_job(job);
    v1::Peer* peer = assignment->add_replicas();
    peer->set_address(address);
    peer->set_grant(
        Seal(sealed_with, kPeerGrantPurpose, grant.SerializeAsString()));
    return answer;
  }

  static std::string MakeFolder() {
    std::string folder = ::testing::TempDir() + "/copies-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    return folder;
  }

  // The folder of the job's checkpoints on "this" machine.
  std::string Local() const { return folder_ + "/local/checkpoints"; }

  void Save(const std::string& folder, const CheckpointName& name,
            const std::string& contents) {
    ASSERT_OK(MakeDirectories(folder));
    ASSERT_OK(WriteFileAtomically(absl::StrCat(folder, "/", ToFileName(name)),
                                  contents));
  }

  v1::Peer Peer(const std::string& worker, const std::string& address) {
    v1::Peer peer;
    peer.set_worker(worker);
    peer.set_address(address);
    return peer;
  }

  v1::MemberAssignment Assignment() {
    v1::MemberAssignment assignment;
    assignment.set_job(kJob);
    *assignment.add_sources() = Peer("peer", server_->address());
    *assignment.add_sources() = Peer("gone", "127.0.0.1:1");
    return assignment;
  }

  CheckpointFetcher Fetcher() {
    StateFetchOptions options;
    options.start_wait = start_wait_;
    options.min_backoff = options.max_backoff = absl::Milliseconds(1);
    return CheckpointFetcher(options, {folder_ + "/local", "checkpoints"},
                             &memory_, client_.get(), store_.get(), nullptr);
  }

  FetchedCheckpoint Fetch() {
    auto fetched = Fetcher().FetchNewest(Assignment(), abandoned_);
    EXPECT_OK(fetched);
    return fetched.ok() ? *fetched : FetchedCheckpoint();
  }

  absl::StatusOr<FetchedCheckpoint> FetchStart(int64_t attempt, int64_t step) {
    v1::MemberAssignment assignment = Assignment();
    assignment.mutable_start()->set_attempt(attempt);
    assignment.mutable_start()->set_step(step);
    return Fetcher().FetchStart(assignment, abandoned_);
  }

  absl::Status Store(const std::string& name, const std::string& contents) {
    RETURN_IF_ERROR(WriteFileAtomically(folder_ + "/to_store", contents));
    ASSIGN_OR_RETURN(const PlainFile file,
                     PlainFile::Open({folder_, "to_store"}));
    return store_->PutFile(name, file, abandoned_);
  }

  absl::StatusOr<std::string> FromStore(const std::string& name,
                                        int64_t offset = 0) {
    std::string rest;
    RETURN_IF_ERROR(store_->Read(name, offset, abandoned_,
                                 [&](int64_t size, std::string_view data) {
                                   rest.append(data);
                                   EXPECT_LE(rest.size(), size);
                                   return absl::OkStatus();
                                 }));
    return rest;
  }

  absl::StatusOr<std::vector<std::string>> ListStore(
      const std::string& folder) {
    return store_->List(folder, abandoned_);
  }

  // Sends the contents as a file.
  absl::Status Put(PeerClient& client, const std::string& job,
                   const CheckpointName& name, const std::string& contents) {
    RETURN_IF_ERROR(WriteFileAtomically(folder_ + "/to_send", contents));
    ASSIGN_OR_RETURN(const CheckpointFile file,
                     CheckpointFile::Open({folder_, "to_send"}));
    return client.Put(server_->address(), job, name, file, Sha256Hex(contents),
                      {});
  }

  // Receives the rest of a file.
  absl::StatusOr<std::string> Get(PeerClient& client,
                                  const std::string& address,
                                  const StateKey& key, int64_t offset = 0,
                                  const TransferLimits& limits = {}) {
    std::string rest;
    int64_t size = -1;
    RETURN_IF_ERROR(client.Get(address, kJob, key, offset, limits,
                               [&](int64_t of, std::string_view data) {
                                 size = of;
                                 rest.append(data);
                                 return absl::OkStatus();
                               }));
    EXPECT_EQ(size, offset + static_cast<int64_t>(rest.size()));
    return rest;
  }

  const std::string folder_ = MakeFolder();
  absl::Duration start_wait_ = absl::Milliseconds(20);
  std::atomic<bool> abandoned_{false};
  PeerKeys keys_;
  // The cache of the peer, and that of this worker.
  ReplicaCache cache_{size_t{64} << 20};
  ReplicaCache memory_{size_t{64} << 20};
  JobFolders folders_{folder_ + "/peer"};
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<ArtifactStore> store_;
  std::unique_ptr<PeerClient> client_;
};

}  // namespace comera::worker

#endif  // COMERA_TESTS_WORKER_SESSION_CHECKPOINT_COPIES_FIXTURE_H_
