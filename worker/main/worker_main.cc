// comera-worker: the daemon of one machine.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/call_metadata.h"
#include "common/files.h"
#include "common/flag_names.h"
#include "common/host_port.h"
#include "common/log.h"
#include "common/rpc_channel.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "grpcpp/grpcpp.h"
#include "proto/resource_names.h"
#include "worker/checkpoint/peer_tls.h"
#include "worker/checkpoint/s3_store.h"
#include "worker/completions/completions_port.h"
#include "worker/data/remote_files.h"
#include "worker/gang/file_rules.h"
#include "worker/gang/member_records.h"
#include "worker/gang/member_user.h"
#include "worker/gang/stray_processes.h"
#include "worker/gpu/gpu_watch.h"
#include "worker/gpu/nvml.h"
#include "worker/main/worker_flags.h"
#include "worker/metrics/metrics_port.h"
#include "worker/metrics/worker_metrics.h"
#include "worker/predict/predict_service.h"
#include "worker/predict/served_models.h"
#include "worker/report/artifact_store.h"
#include "worker/session/leader_fence.h"
#include "worker/session/slot_inventory.h"
#include "worker/session/worker_session.h"

namespace comera::worker {
namespace {

// A checkpoint is worth more tries than what can be fetched from elsewhere.
constexpr int kStoreTries = 6;
constexpr absl::Duration kStoreBackoff = absl::Seconds(15);

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name[0] != '\0' ? name : "localhost";
}

// Turns a host name into a worker's name: [a-z0-9-]{1,63}.
std::string ToWorkerName(const std::string& host) {
  std::string name;
  for (char c : host.substr(0, 63)) {
    const auto byte = static_cast<unsigned char>(c);
    name.push_back(isalnum(byte) ? static_cast<char>(tolower(byte)) : '-');
  }
  return name;
}

std::string RandomId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

// Looks beside this program or, in a build tree, in trainer/ beside it.
std::string FindTrainer() {
  std::error_code error;
  const auto folder =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto beside = folder / "comera-trainer";
  const auto built = folder / "trainer" / "comera-trainer";
  const bool is_build = !std::filesystem::exists(beside, error) &&
                        std::filesystem::is_regular_file(built, error);
  return (is_build ? built : beside).string();
}

// Takes a lock that is held until the process ends.
absl::Status LockFolder(const std::string& folder) {
  RETURN_IF_ERROR(MakeDirectories(folder));
  RETURN_IF_ERROR(CheckOwnFolder(folder));
  const std::string path = folder + "/lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "lock ", path, ": ", strerror(errno),
        errno == EWOULDBLOCK ? " (another comera-worker uses this folder)"
                             : ""));
  }
  return absl::OkStatus();
}

// Returns null if no GPUs are offered. `chosen` receives the GPUs that get
// slots.
absl::StatusOr<std::unique_ptr<GpuWatch>> FindGpus(
    const std::string& wanted, std::vector<v1::Gpu>* chosen) {
#if COMERA_CUDA
  const bool with_cuda = true;
#else
  const bool with_cuda = false;
#endif
  const bool automatic = wanted == "auto";
  if (wanted == "none" || wanted == "0" || (automatic && !with_cuda)) {
    return std::unique_ptr<GpuWatch>();
  }
  absl::StatusOr<std::unique_ptr<GpuDriver>> driver = LoadNvml();
  if (!driver.ok() && automatic) {
    // A machine without a driver needs no warning.
    LOG_IF(WARNING, !absl::IsNotFound(driver.status()))
        << "GPUs are not offered " << driver.status();
    return std::unique_ptr<GpuWatch>();
  }
  RETURN_IF_ERROR(driver.status());
  const char* visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) {
    visible = "";
  } else if (*visible == '\0') {
    visible = "-1";  // as in CUDA, set and empty hides all
  }
  ASSIGN_OR_RETURN(*chosen, ChooseGpus(wanted, visible, (*driver)->gpus()));
  if (chosen->empty()) return std::unique_ptr<GpuWatch>();
  return std::make_unique<GpuWatch>(GpuWatch::Options(), *std::move(driver));
}

int64_t Gpus(const WorkerSession::Options& options) {
  return std::count_if(options.slots.begin(), options.slots.end(),
                       [](const v1::Slot& slot) { return slot.has_gpu(); });
}

// Where durable checkpoints go: an S3 URL, or a folder as an absolute path;
// empty for nowhere.
std::string CheckpointStore(const WorkerFlags& flags) {
  if (flags.checkpoint_store.empty() || IsS3Url(flags.checkpoint_store)) {
    return flags.checkpoint_store;
  }
  return std::filesystem::absolute(flags.checkpoint_store)
      .lexically_normal()
      .string();
}

void PrintConfig(const WorkerFlags& flags,
                 const WorkerSession::Options& options) {
  std::cout << "server=" << flags.server << "\nname=" << options.worker
            << "\naddress=" << options.address << "\nrack=" << options.rack
            << "\nslots=" << options.slots.size() << "\ngpus=" << Gpus(options)
            << "\ncores=" << options.cores << "\ndata_dir=" << options.data_dir
            << "\ntrainer=" << options.trainer
            << "\ncache_bytes=" << flags.cache_bytes
            << "\ngrace=" << flags.grace
            << "\norphan_after=" << flags.orphan_after
            << "\nmember_lease=" << absl::FormatDuration(options.member_lease)
            << "\ncheckpoint_store=" << CheckpointStore(flags)
            << "\nreplica_memory=" << (options.replica_memory >> 20)
            << "\ninsecure_peers=" << (flags.insecure_peers ? "true" : "false")
            << "\npredict_models=" << flags.predict_models
            << "\npredict_memory=" << flags.predict_memory_mib
            << "\ncompletions_listen=" << flags.completions_listen
            << "\ncompletions_tls_cert=" << flags.completions_tls_cert
            << "\ncompletions_tls_key=" << flags.completions_tls_key
            << "\ninsecure_completions="
            << (flags.insecure_completions ? "true" : "false")
            << "\nca=" << flags.security.ca_file
            << "\ncert=" << flags.security.certificate_file
            << "\nkey=" << flags.security.key_file
            << "\ntoken_file=" << flags.security.token_file
            << "\nrank_user=" << flags.member_user
            << "\nmember_landlock=" << flags.member_landlock
            << "\nmember_memory_limit="
            << (flags.member_memory_limit ? "on" : "off")
            << "\nmetrics_listen=" << flags.metrics_listen
            << "\nrank_cgroups=" << (flags.rank_cgroups ? "true" : "false")
            << "\ndata_root=" << absl::StrJoin(flags.data_roots, ",")
            << "\ndata_url=" << absl::StrJoin(flags.data_urls, ",")
            << "\ndata_ca=" << flags.data_ca
            << "\ns3_endpoint=" << flags.s3_endpoint
            << "\ns3_region=" << flags.s3_region
            << "\ns3_credentials_file=" << flags.s3_credentials_file << "\n";
}

bool IsLoopback(const std::string& address) {
  return absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "localhost:") ||
         absl::StartsWith(address, "[::1]");
}

// Has all calls of a channel say which worker makes them.
ChannelInterceptors NameWorker(const std::string& worker) {
  ChannelInterceptors interceptors;
  interceptors.push_back(MakeMetadataAdder(kWorkerMetadata, worker));
  return interceptors;
}

// Returns null if no models are served, at the port for peers or over HTTP.
absl::StatusOr<std::unique_ptr<ServedModels>> ServeModels(
    const WorkerFlags& flags, const ChannelSecurity& security,
    const grpc::ChannelArguments& arguments,
    const WorkerSession::Options& session) {
  if (flags.predict_models == 0 ||
      (session.replica_memory == 0 && flags.completions_listen.empty())) {
    return std::unique_ptr<ServedModels>();
  }
  // A caller's ticket is shown with the worker's own token. For a caller
  // without a ticket the coordinator is asked as by anybody.
  CoordinatorChannels channels;
  ASSIGN_OR_RETURN(channels.own, OpenChannel(flags.server, security, arguments,
                                             NameWorker(session.worker)));
  ChannelSecurity nobody = security;
  nobody.token.clear();
  nobody.token_file.clear();
  ASSIGN_OR_RETURN(channels.anonymous,
                   OpenChannel(flags.server, nobody, arguments));
  ServedModels::Options options;
  options.trainer = session.trainer;
  options.folder = session.data_dir + "/served_models";
  options.environment = session.environment;
  options.environment.push_back(
      absl::StrCat(kMemberMark, "=", session.PredictorMark()));
  options.user = session.member_user;
  options.most_models = flags.predict_models;
  options.max_memory_bytes = int64_t{flags.predict_memory_mib} << 20;
  options.threads = std::max(1, session.cores / 2);
  return ServedModels::Create(options, channels);
}

// Returns null if no texts are continued over HTTP.
absl::StatusOr<std::unique_ptr<CompletionsPort>> ServeCompletions(
    const WorkerFlags& flags, ServedModels* models) {
  if (flags.completions_listen.empty()) {
    return std::unique_ptr<CompletionsPort>();
  }
  if (models == nullptr) {
    return absl::InvalidArgumentError(
        "completions_listen: no models are served, --predict_models is 0");
  }
  CompletionsPort::Options options;
  options.listen = flags.completions_listen;
  options.tls.certificate = flags.completions_tls_cert;
  options.tls.key = flags.completions_tls_key;
  options.insecure = flags.insecure_completions;
  ASSIGN_OR_RETURN(std::unique_ptr<CompletionsPort> port,
                   CompletionsPort::Start(options, models));
  LOG(INFO) << "completions served address=" << port->address()
            << " tls=" << options.tls.enabled();
  return port;
}

// Returns what jobs may read on this machine.
absl::StatusOr<DataRoots> OfferData(const WorkerFlags& flags,
                                    const WorkerSession::Options& session) {
  DataRoots::Options options;
  options.folders = flags.data_roots;
  options.own = {session.data_dir,
                 IsS3Url(flags.checkpoint_store) ? "" : CheckpointStore(flags),
                 flags.security.token_file,
                 flags.security.key_file,
                 flags.security.certificate_file,
                 flags.completions_tls_key,
                 flags.completions_tls_cert,
                 flags.s3_credentials_file};
  options.views = session.data_dir + "/datasets/views";
  ASSIGN_OR_RETURN(DataRoots roots, DataRoots::Create(options));
  LOG_IF(INFO, flags.data_roots.empty())
      << "jobs may read uploaded datasets only, because there is no "
         "--data_root";
  return roots;
}

// Goes on as the daemon whose members survived, if there are any.
void ChooseIncarnation(WorkerSession::Options* options) {
  options->daemon = RandomId();
  if (options->member_lease > absl::ZeroDuration()) {
    options->incarnation =
        MemberRecords(options->data_dir + "/ranks").KeptIncarnation();
  }
  // Another name than the daemon's, which is retired with the daemon.
  if (options->incarnation.empty()) options->incarnation = RandomId();
}

std::string Environment(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

// The key for S3 in the environment. Members get only the variables on a list,
// which has none of these.
S3Credentials KeyOfEnvironment() {
  return {Environment("AWS_ACCESS_KEY_ID"),
          Environment("AWS_SECRET_ACCESS_KEY"),
          Environment("AWS_SESSION_TOKEN")};
}

// Returns null if checkpoints go nowhere.
absl::StatusOr<std::shared_ptr<ArtifactStore>> OpenCheckpointStore(
    const WorkerFlags& flags) {
  const std::string place = CheckpointStore(flags);
  if (place.empty()) return std::shared_ptr<ArtifactStore>();
  if (!IsS3Url(place)) {
    return std::shared_ptr<ArtifactStore>(OpenDirectoryStore(place));
  }
  S3StoreOptions options;
  options.url = place;
  options.data_prefixes = flags.data_urls;
  options.endpoint = flags.s3_endpoint;
  options.region = flags.s3_region;
  options.credentials_file = flags.s3_credentials_file;
  options.client.ca_file = flags.data_ca;
  options.client.tries = kStoreTries;
  options.client.max_backoff = kStoreBackoff;
  if (flags.s3_credentials_file.empty()) {
    options.credentials = KeyOfEnvironment();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ArtifactStore> store, OpenS3Store(options));
  return std::shared_ptr<ArtifactStore>(std::move(store));
}

// Returns the URLs from which jobs may read.
absl::StatusOr<std::unique_ptr<RemoteFiles>> OfferUrls(
    const WorkerFlags& flags) {
  RemoteFiles::Options options;
  options.prefixes = flags.data_urls;
  options.client.ca_file = flags.data_ca;
  options.s3_endpoint = flags.s3_endpoint;
  options.s3_region = flags.s3_region;
  options.s3_credentials_file = flags.s3_credentials_file;
  if (flags.s3_credentials_file.empty() && !flags.data_urls.empty()) {
    options.s3_credentials = KeyOfEnvironment();
  }
  return RemoteFiles::Create(options);
}

// Whether members are confined to their files; says so.
bool ConfineFiles(const WorkerFlags& flags, bool has_gpus) {
  // Where libraries of CUDA lie is the machine's own affair.
  const bool wanted = flags.member_landlock == "on" ||
                      (flags.member_landlock == "auto" && !has_gpus);
  const int version = LandlockVersion();
  if (wanted && version > 0) {
    LOG(INFO) << "members are confined to their files by Landlock, version="
              << version;
    return true;
  }
  LOG(WARNING) << "members may use all files of their user, because "
               << (wanted ? std::string("this kernel has no Landlock")
                          : absl::StrCat("of --member_landlock=",
                                         flags.member_landlock));
  return false;
}

int Fail(const absl::Status& status) {
  LOG(ERROR) << "worker ends " << status;
  return 1;
}

int Main(const WorkerFlags& flags) {
  // Before the first file: jobs, states and keys are nobody else's.
  umask(077);
  WorkerSession::Options options;
  options.host = HostName();
  options.worker = flags.name.empty() ? ToWorkerName(options.host) : flags.name;
  if (!IsResourceId(options.worker)) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
        "--name=", options.worker, " must match [a-z0-9-]{1,63}")));
  }
  // The coordinator would refuse it at each call.
  if (!flags.address.empty() &&
      !IsHostPort(absl::StrCat(flags.address, ":1")) &&
      !IsHostPort(absl::StrCat("[", flags.address, "]:1"))) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("--address=", flags.address,
                     " must be a host name or an IP address, without a port")));
  }
  options.address = flags.address;
  options.rack = flags.rack;
  options.cores = UsableCores();
  std::vector<v1::Gpu> chosen;
  absl::StatusOr<std::unique_ptr<GpuWatch>> gpus =
      FindGpus(flags.gpus, &chosen);
  if (!gpus.ok()) return Fail(gpus.status());
  absl::StatusOr<std::vector<v1::Slot>> slots =
      ListSlots(flags.slots, options.cores, chosen);
  if (!slots.ok()) return Fail(slots.status());
  options.slots = *std::move(slots);
  options.data_dir =
      std::filesystem::absolute(flags.data_dir).lexically_normal().string();
  options.limit_memory = flags.member_memory_limit;
  options.run_programs = flags.allow_programs;
  options.trainer = flags.trainer.empty() ? FindTrainer() : flags.trainer;
  options.processes.grace = absl::Seconds(flags.grace);
  options.cache.max_bytes = flags.cache_bytes;
  options.processes.adopts_orphans = true;
  absl::ParseDuration(flags.orphan_after, &options.orphan_after);
  absl::ParseDuration(flags.member_lease, &options.member_lease);
  // Without their worker, members are without the coordinator, too.
  options.member_lease = std::min(options.member_lease, options.orphan_after);
  // Without an address only callers on this machine could reach it.
  const bool reachable = !flags.address.empty() || IsLoopback(flags.server);
  if (!flags.address.empty()) options.peers.host = flags.address;
  options.replica_memory =
      reachable ? static_cast<size_t>(flags.replica_memory_mib) << 20 : 0;
  options.peers.insecure = flags.insecure_peers;
  if (options.replica_memory > 0 && !HasPeerTls(flags.security) &&
      !flags.insecure_peers) {
    const absl::Status closed = CheckPlainPeers(options.peers.host);
    if (!closed.ok()) return Fail(closed);
  }
  if (!flags.member_user.empty()) {
    absl::StatusOr<MemberUser> user = FindMemberUser(flags.member_user);
    if (!user.ok()) return Fail(user.status());
    options.member_user = *std::move(user);
  } else if (geteuid() == 0) {
    LOG(WARNING) << "members run as root, because there is no --member_user";
  }
  if (flags.print_config) {
    PrintConfig(flags, options);
    return 0;
  }
  if (access(options.trainer.c_str(), X_OK) != 0) {
    return Fail(absl::NotFoundError(
        absl::StrCat("--trainer=", options.trainer, ": ", strerror(errno))));
  }
  AdoptOrphans();
  const absl::Status locked = LockFolder(options.data_dir);
  if (!locked.ok()) return Fail(locked);
  if (options.member_user) {
    const absl::Status opened =
        OpenToMembers(*options.member_user, options.data_dir);
    if (!opened.ok()) return Fail(opened);
  }
  options.confine_files = ConfineFiles(flags, Gpus(options) > 0);
  LOG_IF(WARNING, options.run_programs && !options.confine_files &&
                      !options.member_user)
      << "programs of users may change this worker's own files: set "
         "--member_user, or --member_landlock=on";
  ChooseIncarnation(&options);
  absl::StatusOr<DataRoots> roots = OfferData(flags, options);
  if (!roots.ok()) return Fail(roots.status());
  options.data_roots = *std::move(roots);
  const auto urls = OfferUrls(flags);
  if (!urls.ok()) return Fail(urls.status());
  options.fetch.urls = urls->get();
  absl::StatusOr<std::shared_ptr<ArtifactStore>> store =
      OpenCheckpointStore(flags);
  if (!store.ok()) return Fail(store.status());
  options.checkpoint_store = *std::move(store);
  std::unique_ptr<MemberCgroups> cgroups;
  if (flags.rank_cgroups) {
    absl::StatusOr<std::unique_ptr<MemberCgroups>> made = MemberCgroups::Create(
        /*parent=*/"", options.member_lease > absl::ZeroDuration());
    if (made.ok()) {
      cgroups = *std::move(made);
      options.cgroups = cgroups.get();
      LOG(INFO) << "cgroups for members, limits=\"" << cgroups->controllers()
                << "\"";
    } else {
      LOG(WARNING) << "members run without cgroups " << made.status();
    }
  }

  // Blocked before any thread starts, so that only the waiting thread gets
  // them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // An answer carries the entries and specs of many members.
  arguments.SetMaxReceiveMessageSize(64 << 20);
  ChannelSecurity security = flags.security;
  if (const char* token = getenv("COMERA_TOKEN");
      token != nullptr && security.token_file.empty()) {
    security.token = token;
  }
  ChannelInterceptors interceptors = NameWorker(options.worker);
  interceptors.push_back(MakeLeaderFence(
      std::make_shared<LeaderFence>(options.data_dir + "/leader_term")));
  const auto channel =
      OpenChannel(flags.server, security, arguments, std::move(interceptors));
  if (!channel.ok()) return Fail(channel.status());
  const absl::StatusOr<PeerTls> peer_tls = MakePeerTls(security);
  if (!peer_tls.ok()) return Fail(peer_tls.status());
  options.peers.credentials = peer_tls->server;
  options.peer_credentials = peer_tls->client;
  const auto metrics = std::make_shared<WorkerMetrics>();
  std::unique_ptr<MetricsPort> metrics_port;
  if (!flags.metrics_listen.empty()) {
    options.metrics = metrics.get();
    auto port = MetricsPort::Start(flags.metrics_listen, metrics);
    if (!port.ok()) return Fail(port.status());
    metrics_port = *std::move(port);
    LOG(INFO) << "metrics served address=" << metrics_port->address();
  }
  // Declared before the session, which serves the models and must end first.
  const auto models = ServeModels(flags, security, arguments, options);
  if (!models.ok()) return Fail(models.status());
  PredictServiceImpl predict(models->get());
  // Ends before the models.
  const auto completions = ServeCompletions(flags, models->get());
  if (!completions.ok()) return Fail(completions.status());
  if (*models != nullptr) options.peers.services.push_back(&predict);
  auto session = WorkerSession::Create(options, *channel, *std::move(gpus));
  if (!session.ok()) {
    if (*models != nullptr) (*models)->Stop();
    return Fail(session.status());
  }
  LOG(INFO) << "worker started name=" << options.worker
            << " incarnation=" << options.incarnation
            << " server=" << flags.server << " slots=" << options.slots.size()
            << " gpus=" << Gpus(options) << " cores=" << options.cores
            << " data_dir=" << options.data_dir;
  for (const v1::Slot& slot : options.slots) {
    if (!slot.has_gpu()) continue;
    LOG(INFO) << "GPU offered slot=" << slot.index() << " name=\""
              << slot.gpu().name() << "\" uuid=" << slot.gpu().uuid()
              << " pci=" << slot.gpu().pci_bus_id() << " topology=\""
              << slot.gpu().topology() << "\"";
  }
  std::thread waiter([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    LOG(INFO) << "worker stopping signal=" << signal;
    // Ctrl-C ends all that was begun; SIGTERM is how a daemon is restarted.
    const bool leave =
        signal == SIGTERM && options.member_lease > absl::ZeroDuration();
    leave ? (*session)->Leave() : (*session)->Stop();
  });
  const absl::Status status = (*session)->Run();
  if (*models != nullptr) (*models)->Stop();
  if (!status.ok()) pthread_kill(waiter.native_handle(), SIGTERM);
  waiter.join();
  if (!status.ok()) return Fail(status);
  LOG(INFO) << "worker stopped";
  return 0;
}

}  // namespace
}  // namespace comera::worker

int main(int argc, char** argv) {
  comera::worker::WorkerFlags flags;
  CLI::App app{"Runs the members that the coordinator places on this machine."};
  comera::worker::AddFlags(app, flags);
  app.set_version_flag("--version",
                       std::string("comera-worker ") + comera::kVersion);
  try {
    std::vector<std::string> arguments =
        comera::WithKnownFlags(argc, argv, [&](const std::string& flag) {
          return app.get_option_no_throw(flag) != nullptr;
        });
    // The parser takes them from the back.
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return comera::worker::Main(flags);
}
