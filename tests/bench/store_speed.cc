// Measures how fast a training state goes to a bucket of s3rver on this machine
// and comes back.
//
//   bazel run -c opt //tests/bench:store_speed [-- --mib=256]
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "tests/worker/object_store/s3_server_process.h"
#include "worker/checkpoint/s3_store.h"
#include "worker/checkpoint/state_fetch.h"
#include "worker/checkpoint/state_source.h"
#include "worker/checkpoint/stored_checkpoints.h"
#include "worker/files/plain_file.h"

namespace comera::worker {
namespace {

constexpr char kSecret[] = "secret";
constexpr char kJob[] = "jobs/a";

// A file of random bytes with the checksum of a training state.
absl::Status WriteState(const std::string& path, int64_t mib) {
  std::string state;
  state.reserve(static_cast<size_t>(mib) << 20);
  std::mt19937_64 random(1);
  while (static_cast<int64_t>(state.size()) < mib << 20) {
    const uint64_t word = random();
    state.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  absl::StrAppend(&state, "\nsha256 ", Sha256Hex(state), "\n");
  return WriteFileAtomically(path, state);
}

absl::Status Measure(const std::string& folder, int64_t mib) {
  const std::string absent = S3ServerProcess::Absent();
  if (!absent.empty()) return absl::UnavailableError(absent);
  const S3ServerProcess server(folder + "/objects", kSecret);
  S3StoreOptions options;
  options.url = "s3://bucket/states";
  options.endpoint = server.endpoint();
  options.region = "eu-west-9";
  options.credentials = {"S3RVER", kSecret, ""};
  ASSIGN_OR_RETURN(const std::unique_ptr<ArtifactStore> store,
                   OpenS3Store(options));
  const std::string path = folder + "/state";
  RETURN_IF_ERROR(WriteState(path, mib));
  ASSIGN_OR_RETURN(const PlainFile file, PlainFile::Open({folder, "state"}));
  const std::atomic<bool> never{false};
  CheckpointName name;
  name.step = 1;
  name.attempt = 1;
  const absl::Time begun = SteadyNow();
  RETURN_IF_ERROR(
      store->PutFile(StoredCheckpointPath(kJob, name), file, never));
  const absl::Time stored = SteadyNow();
  std::vector<std::unique_ptr<StateSource>> sources;
  sources.push_back(StoreSource(store.get(), kJob, name.key()));
  const auto from =
      FetchState({}, sources, {folder, "fetched"}, nullptr, never);
  RETURN_IF_ERROR(from.status());
  const absl::Time fetched = SteadyNow();
  const auto speed = [&](absl::Duration time) {
    return absl::StrCat(
        static_cast<int>(static_cast<double>(mib << 20) / 1e6 /
                         absl::ToDoubleSeconds(time)),
        " MB/s (",
        absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1))), ")");
  };
  std::cout << "upload of " << mib << " MiB: " << speed(stored - begun)
            << "\nfetch and verification: " << speed(fetched - stored)
            << std::endl;
  return absl::OkStatus();
}

int Main(int64_t mib) {
  // `bazel run` begins in the folder of the workspace.
  const std::string runfiles =
      std::filesystem::current_path().parent_path().string();
  setenv("TEST_SRCDIR", runfiles.c_str(), /*overwrite=*/0);
  setenv("no_proxy", "*", 1);
  std::string folder =
      (std::filesystem::temp_directory_path() / "store_speed_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const absl::Status status = Measure(folder, mib);
  std::filesystem::remove_all(folder);
  if (status.ok()) return 0;
  std::cerr << status << std::endl;
  return 1;
}

}  // namespace
}  // namespace comera::worker

int main(int argc, char** argv) {
  int64_t mib = 256;
  CLI::App app{"Measures the store of checkpoints in a bucket."};
  app.add_option("--mib", mib, "Size of the state")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return comera::worker::Main(mib);
}
