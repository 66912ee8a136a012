// Chooses dense jobs by what makes their losses comparable.
#include "client/cli/live/dense_peers.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/cli/output/text_format.h"
#include "google/protobuf/util/message_differencer.h"

namespace comera::client {
namespace {

using google::protobuf::util::MessageDifferencer;

// The newest jobs are looked through, so that a long history costs little.
constexpr int64_t kJobsToSearch = 200;

bool IsDense(const v1::Job& job) {
  return job.spec().compression().method() == v1::CompressionSpec::DENSE;
}

bool HasSameVersions(const v1::Job& a, const v1::Job& b) {
  if (a.datasets_size() != b.datasets_size()) return false;
  for (int i = 0; i < a.datasets_size(); ++i) {
    if (!MessageDifferencer::Equals(a.datasets(i), b.datasets(i))) return false;
  }
  return true;
}

// Whether the two validation losses are of one kind.
bool IsComparable(const v1::Job& a, const v1::Job& b) {
  return a.spec().model().family() == b.spec().model().family() &&
         MessageDifferencer::Equals(a.spec().data(), b.spec().data()) &&
         a.spec().training().validation_samples() ==
             b.spec().training().validation_samples() &&
         HasSameVersions(a, b);
}

void KeepBetter(const v1::Job& job, std::optional<v1::Job>* best) {
  if (*best && (*best)->progress().validation_loss() <=
                   job.progress().validation_loss()) {
    return;
  }
  *best = job;
}

std::string PeerText(const v1::Job& peer) {
  const v1::JobProgress& progress = peer.progress();
  std::string text = absl::StrCat(
      "validation loss ", FormatFigure(progress.validation_loss()), " with ",
      FormatCount(progress.size_parameters()), " parameters after ",
      FormatCount(progress.step()), " steps");
  if (peer.has_start_time() && peer.has_end_time()) {
    absl::StrAppend(
        &text, ", ",
        DurationText(ToTime(peer.end_time()) - ToTime(peer.start_time())));
  }
  return absl::StrCat(text, " (", LastSegment(peer.name()), ")");
}

}  // namespace

DensePeers ChooseDensePeers(const v1::Job& job,
                            const std::vector<v1::Job>& jobs) {
  DensePeers peers;
  if (IsDense(job) || !job.progress().has_validation_loss()) return peers;
  for (const v1::Job& other : jobs) {
    if (!IsDense(other) || other.state() != v1::SUCCEEDED ||
        !other.progress().has_validation_loss() || !IsComparable(job, other)) {
      continue;
    }
    const bool fits = 10 * other.progress().size_parameters() <=
                      11 * job.progress().size_parameters();
    KeepBetter(other, fits ? &peers.same_size : &peers.larger);
  }
  return peers;
}

DensePeers FindDensePeers(const v1::Job& job, TrainingClient& client) {
  if (IsDense(job)) return {};
  const auto jobs = client.List({v1::SUCCEEDED}, kJobsToSearch);
  return jobs.ok() ? ChooseDensePeers(job, *jobs) : DensePeers();
}

std::vector<std::pair<std::string, std::string>> DensePeerRows(
    const v1::Job& job, const DensePeers& peers) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (peers.same_size) {
    rows.emplace_back("dense, same size", PeerText(*peers.same_size));
  }
  if (peers.larger) rows.emplace_back("dense, larger", PeerText(*peers.larger));
  if (rows.empty() && !IsDense(job) && job.state() == v1::SUCCEEDED) {
    rows.emplace_back("dense",
                      "loss not known: no dense job had these data and this "
                      "validation");
  }
  return rows;
}

}  // namespace comera::client
