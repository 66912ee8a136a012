#ifndef COMERA_TESTS_BENCH_SERVICE_LOAD_OPTIONS_H_
#define COMERA_TESTS_BENCH_SERVICE_LOAD_OPTIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace comera::bench {

struct LoadOptions {
  int submissions = 20000;
  // The number of clients, each with one submission under way.
  int clients = 32;
  // The number of clients that ask for one job's state once a second.
  int pollers = 1000;
  int watchers = 5000;
  // The number of jobs that train (on a simulated worker) and are watched.
  int watched_jobs = 50;
  // The time between two reports of each of them.
  absl::Duration report_interval = absl::Seconds(1);
  // How long polling and watching are measured, each.
  absl::Duration phase = absl::Seconds(20);
  int connections = 16;
  // The number of workers that come back at once to a coordinator that was
  // killed; above 0, nothing else is measured. Each has two slots, on which
  // jobs of two members train, and half as many jobs again wait.
  int workers = 0;
};

using Channels = std::vector<std::shared_ptr<grpc::Channel>>;

// Opens that many connections, which are shared with nothing else.
Channels Connect(const std::string& address, int connections);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SERVICE_LOAD_OPTIONS_H_
