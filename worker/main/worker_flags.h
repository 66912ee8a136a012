#ifndef COMERA_WORKER_MAIN_WORKER_FLAGS_H_
#define COMERA_WORKER_MAIN_WORKER_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/rpc_channel.h"
#include "worker/data/dataset_cache.h"

namespace comera::worker {

// The settings of comera-worker's command line and environment; AddFlags
// documents each.
struct WorkerFlags {
  std::string server = "127.0.0.1:7400";
  std::string name;
  std::string address;
  int slots = 0;
  std::string gpus = "auto";
  std::string data_dir = "/var/lib/comera-worker";
  std::string rack;
  std::string trainer;
  int64_t cache_bytes = DatasetCache::Options().max_bytes;
  ChannelSecurity security;
  std::string member_user;
  bool member_memory_limit = true;
  std::string member_landlock = "auto";
  bool allow_programs = false;
  bool rank_cgroups = false;
  std::vector<std::string> data_roots;
  std::vector<std::string> data_urls;
  std::string data_ca;
  std::string s3_endpoint;
  std::string s3_region = "us-east-1";
  std::string s3_credentials_file;
  double grace = 30;
  std::string orphan_after = "8h";
  std::string member_lease = "10m";
  std::string checkpoint_store;
  int replica_memory_mib = 512;
  bool insecure_peers = false;
  std::string metrics_listen;
  int predict_models = 2;
  int predict_memory_mib = 8192;
  std::string completions_listen;
  std::string completions_tls_cert;
  std::string completions_tls_key;
  bool insecure_completions = false;
  bool print_config = false;
};

void AddFlags(CLI::App& app, WorkerFlags& flags);

}  // namespace comera::worker

#endif  // COMERA_WORKER_MAIN_WORKER_FLAGS_H_
