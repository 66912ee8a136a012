// Finds dense jobs to compare a job with.
#ifndef COMERA_CLIENT_CLI_LIVE_DENSE_PEERS_H_
#define COMERA_CLIENT_CLI_LIVE_DENSE_PEERS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/training_client.h"
#include "comera/v1/job.pb.h"

namespace comera::client {

// Dense jobs that trained and validated on the same data as a job, each the one
// with the lowest validation loss.
struct DensePeers {
  // Among those that are at most a tenth larger than the job's model.
  std::optional<v1::Job> same_size;
  // Among those that are larger.
  std::optional<v1::Job> larger;
};

// Chooses the peers of `job` among `jobs`. Nothing is comparable with a dense
// job, or with one that has no validation loss.
DensePeers ChooseDensePeers(const v1::Job& job,
                            const std::vector<v1::Job>& jobs);

// Chooses among the newest jobs that the coordinator knows. A coordinator that
// does not answer has none: what is shown beside a result must not fail it.
DensePeers FindDensePeers(const v1::Job& job, TrainingClient& client);

// The rows that name the peers in the summary of `job`: title and text. One row
// says so if a compressed job that has succeeded has no peer at all.
std::vector<std::pair<std::string, std::string>> DensePeerRows(
    const v1::Job& job, const DensePeers& peers);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_LIVE_DENSE_PEERS_H_
