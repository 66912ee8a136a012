#ifndef COMERA_SERVER_DAEMON_SERVER_FLAGS_H_
#define COMERA_SERVER_DAEMON_SERVER_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/daemon/comera_server.h"

namespace comera::server {

// Where HTTP is served if no flag says so, and nobody else is there.
inline constexpr char kHttpListen[] = "127.0.0.1:7480";

// What the command line of comera-server says; server_flags.cc explains each.
struct ServerFlags {
  std::string listen = "127.0.0.1:7400";
  std::string data_dir;
  std::string store = "sqlite";
  std::string advertise;
  std::string coordinator_ca;
  std::string leader_lease = "5s";
  std::string backup;
  std::string restore;
  std::string port_file;
  std::string node_lost_after = "60s";
  std::string reattach_grace = "60s";
  std::string mass_silence_wait = "1h";
  std::string forget_worker_after = "24h";
  std::string stall_after = "28s";
  std::string checkpoint_wait = "10m";
  int64_t dataset_quota_bytes = BlobStore::Options().quota_bytes;
  int64_t max_dataset_bytes = ManifestLimits().max_bytes;
  int64_t max_dataset_file_bytes = BlobStore::Options().max_blob_bytes;
  int64_t model_quota_bytes = CoordinatorHost::Options().model_quota_bytes;
  int64_t min_free_bytes = DiskGuard::Options().min_free_bytes;
  int64_t disk_reserve_bytes = DiskGuard::Options().reserve_bytes;
  std::string keep_jobs = "30d";
  std::string keep_logs = "30d";
  std::string keep_checkpoints = "3d";
  bool retention_dry_run = false;
  std::string confirm_clock;
  ServerSecurity::Options security;
  // Nothing: kHttpListen, or another port where that is taken.
  std::optional<std::string> http_listen;
  std::string http_port_file;
  std::vector<std::string> http_hosts;
  bool http_open_metrics = false;
  int max_connections = 0;
  int connections_per_address = 256;
  bool bound_grpc_connections = true;
  std::vector<std::string> oidc_roles;
  std::string webhook_url;
  std::string webhook_key_file;
  std::vector<std::string> webhook_states;
  bool print_config = false;
};

// Adds the flags, with their help and checks. Both must outlive the parsing.
void AddServerFlags(CLI::App& app, ServerFlags& flags);

// What flags that were parsed ask of a server. HTTP's address, the limits of
// connections, the webhook and --leader_lease are not among it, nor what
// --store chooses.
ComeraServer::Options OptionsOf(const ServerFlags& flags);

// What they ask of the webhook. InvalidArgument, or errors of ReadPrivateFile:
// its key.
absl::StatusOr<Webhook::Options> WebhookOf(const ServerFlags& flags);

// The time that the text of a flag says, which was checked.
absl::Duration ToDuration(const std::string& text);

// Prints one name=value a line, for --print-config.
void PrintConfig(const ServerFlags& flags);

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_SERVER_FLAGS_H_
