// comera-server: the coordinator daemon.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "common/files.h"
#include "common/flag_names.h"
#include "common/http/http_server.h"
#include "common/log.h"
#include "common/slewed_clock.h"
#include "common/version.h"
#include "server/daemon/comera_server.h"
#include "server/daemon/coordinator_node.h"
#include "server/daemon/server_flags.h"
#include "server/store/store_restore.h"

namespace {

using comera::server::AddServerFlags;
using comera::server::ComeraServer;
using comera::server::CoordinatorNode;
using comera::server::kHttpListen;
using comera::server::OptionsOf;
using comera::server::PrintConfig;
using comera::server::ServerFlags;
using comera::server::ToDuration;

constexpr int kFailed = 1;
constexpr int kUsage = 2;
// Each connection is an open file.
constexpr rlim_t kMaxOpenFiles = 65536;

// Writes an address to the file of a flag, if there is one.
bool WritePortFile(const std::string& path, const std::string& address) {
  if (path.empty()) return true;
  absl::Status status = comera::WriteFileAtomically(path, address);
  if (!status.ok()) std::cerr << "comera-server: " << status.message() << "\n";
  return status.ok();
}

bool WritePortFiles(const ServerFlags& flags, const std::string& address,
                    const std::string& http_address) {
  return WritePortFile(flags.http_port_file, http_address) &&
         WritePortFile(flags.port_file, address);
}

// Where HTTP is served. An address that nobody asked for is no reason not to
// start.
std::string HttpListen(const ServerFlags& flags) {
  if (flags.http_listen) {
    return *flags.http_listen == "none" ? "" : *flags.http_listen;
  }
  if (absl::EndsWith(flags.listen, ":0")) return "127.0.0.1:0";
  if (comera::CanListen(kHttpListen)) return kHttpListen;
  LOG(WARNING) << "event=http_port_taken address=" << kHttpListen
               << " text=\"another port is used; --http_listen chooses one\"";
  return "127.0.0.1:0";
}

void RaiseOpenFiles() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  if (files.rlim_cur >= kMaxOpenFiles) return;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, kMaxOpenFiles);
  setrlimit(RLIMIT_NOFILE, &files);
}

// The places of both ports.
void SetConnectionLimits(const ServerFlags& flags,
                         ComeraServer::Options* options) {
  int all = flags.max_connections;
  if (all == 0) {
    rlimit files = {};
    const bool known =
        getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < kMaxOpenFiles;
    all = static_cast<int>((known ? files.rlim_cur : kMaxOpenFiles) / 5 * 4);
  }
  options->bound_connections = flags.bound_grpc_connections;
  auto& grpc = options->connections;
  grpc.connections = std::max(1, all / 2);
  // No address takes all places.
  grpc.per_loopback_address = std::max(1, grpc.connections / 2);
  grpc.per_address =
      std::min(flags.connections_per_address, grpc.per_loopback_address);
  auto& http = options->http.server;
  http.max_connections = grpc.connections;
  http.connections_per_address = grpc.per_address;
  http.connections_per_loopback_address = grpc.per_loopback_address;
}

// Until SIGTERM or SIGINT, which all threads must block.
void AwaitStop(const sigset_t& signals) {
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  LOG(INFO) << "event=stopping signal=" << signal_number;
}

// One of several coordinators.
int ServeNode(const ServerFlags& flags, const ComeraServer::Options& server,
              comera::Clock* clock, const sigset_t& signals) {
  CoordinatorNode::Options options;
  options.server = server;
  options.server.store_url = flags.store;
  options.advertise = flags.advertise;
  options.coordinator_ca = flags.coordinator_ca;
  options.lease.length = ToDuration(flags.leader_lease);
  options.poll_interval = options.lease.length / 10;
  comera::server::RandomIdSource ids;
  auto node = CoordinatorNode::Start(options, clock, &ids);
  if (!node.ok()) {
    std::cerr << "comera-server: " << node.status().message() << "\n";
    return kFailed;
  }
  LOG(INFO) << "event=serving address=" << (*node)->address()
            << " http=" << (*node)->http_address()
            << " leads=" << ((*node)->term() > 0)
            << " version=" << comera::kVersion;
  if (!WritePortFiles(flags, (*node)->address(), (*node)->http_address())) {
    return kFailed;
  }
  AwaitStop(signals);
  node->reset();
  LOG(INFO) << "event=stopped";
  return EXIT_SUCCESS;
}

// --backup and --restore.
int CopyJobs(const ServerFlags& flags) {
  comera::server::StorePlace place;
  place.data_dir = flags.data_dir;
  if (flags.store != "sqlite") place.store_url = flags.store;
  absl::Status status = flags.store == "sqlite"
                            ? absl::OkStatus()
                            : comera::server::CheckPostgresUrl(flags.store);
  if (status.ok() && !flags.backup.empty()) {
    status = comera::server::BackupStore(place, flags.backup);
    if (status.ok()) std::cerr << "wrote " << flags.backup << "\n";
  } else if (status.ok()) {
    const auto jobs = comera::server::RestoreStore(place, flags.restore);
    status = jobs.status();
    if (jobs.ok()) {
      std::cerr << "restored " << *jobs << " jobs from " << flags.restore
                << "\n";
    }
  }
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "comera-server: " << status.message() << "\n";
  return kFailed;
}

int Serve(const ServerFlags& flags) {
  // Before the first file: jobs, models and hashes of tokens are nobody else's.
  umask(077);
  // Every thread inherits the mask, so that only sigwait sees the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  RaiseOpenFiles();
  ComeraServer::Options options = OptionsOf(flags);
  auto webhook = comera::server::WebhookOf(flags);
  if (!webhook.ok()) {
    std::cerr << "comera-server: " << webhook.status().message() << "\n";
    return kFailed;
  }
  options.webhook = *std::move(webhook);
  options.http.server.listen = HttpListen(flags);
  SetConnectionLimits(flags, &options);
  comera::server::RandomIdSource ids;
  comera::SlewedClock clock({}, comera::Clock::Real());
  // Jobs that were lost together do not all come back together.
  auto random = std::make_shared<std::mt19937>(std::random_device()());
  options.host.coordinator.jitter = [random] {
    return std::uniform_real_distribution<double>(0, 1)(*random);
  };
  if (flags.store != "sqlite") {
    return ServeNode(flags, options, &clock, signals);
  }
  std::atomic<bool> failed{false};
  auto server = ComeraServer::Start(
      options, &clock, &ids, [&failed](const absl::Status& status) {
        // Memory is ahead of the disk: only a fresh start is safe.
        LOG(ERROR) << "event=store_failed status=\"" << status << "\"";
        failed = true;
        kill(getpid(), SIGTERM);
      });
  if (!server.ok()) {
    std::cerr << "comera-server: " << server.status().message() << "\n";
    return kFailed;
  }
  LOG(INFO) << "event=serving address=" << (*server)->address()
            << " http=" << (*server)->http_address()
            << " version=" << comera::kVersion;
  if (!WritePortFiles(flags, (*server)->address(), (*server)->http_address())) {
    return kFailed;
  }
  AwaitStop(signals);
  (*server)->Shutdown();
  LOG(INFO) << "event=stopped";
  return failed ? kFailed : EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Coordinator of comera: accepts training jobs, places them on "
      "workers, keeps their state, logs and models.");
  ServerFlags flags;
  AddServerFlags(app, flags);
  try {
    std::vector<std::string> arguments =
        comera::WithKnownFlags(argc, argv, [&](const std::string& flag) {
          return app.get_option_no_throw(flag) != nullptr;
        });
    // The parser takes them from the back.
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : kUsage;
  }
  if (flags.print_config) {
    PrintConfig(flags);
    return EXIT_SUCCESS;
  }
  if (!flags.backup.empty() || !flags.restore.empty()) {
    umask(077);
    return CopyJobs(flags);
  }
  return Serve(flags);
}
